"""Depth of a queue, by RabbitMQ's names."""

from __future__ import annotations

import pytest

from broker.entities.queues.depth import Depth, depth, head_timestamp
from harness.brokers.broker_core import SMALL, Core, Reader
from harness.clients.stream_steps import Follower, stream

BODY = b"0123456789"


@pytest.mark.parametrize("arguments", [{}, {"max_priority": 3}, {"queue_type": "quorum"}])
def test_ready_messages_in_memory_and_on_disk_and_those_that_are_out(core: Core, arguments: dict[str, object]) -> None:
    queue, reader = core.queue(**arguments), Reader()
    core.deposit(queue, *[BODY] * (SMALL.messages + 2))
    core.commit()
    reader.get(queue)
    assert depth(queue) == Depth(6, 5, 1, 6, 4, 3, 1, 2, 60, 50, 10, 60, 40, 20)
    reader.requeue()
    assert depth(queue) == Depth(6, 6, 0, 6, 4, 4, 0, 2, 60, 60, 0, 60, 40, 20)
    assert reader.drain(queue) == [BODY] * 6
    core.commit()
    assert depth(queue) == Depth(*[0] * 14)


def test_a_stream_keeps_what_is_out(core: Core) -> None:
    queue = stream(core)
    core.deposit(queue, *[BODY] * (SMALL.messages + 2))
    core.commit()
    Follower().follow(queue, prefetch=2)
    core.end_turn()
    assert depth(queue)[:6] == (6, 6, 2, 6, 4, 4)
    assert depth(queue)[8:] == (60, 60, 20, 60, 40, 20)


def test_the_timestamp_of_the_first_message_where_it_is_in_memory(core: Core) -> None:
    queue, reader = core.queue(), Reader()
    assert head_timestamp(queue) is None
    core.deposit(queue, BODY, timestamp=12)
    core.deposit(queue, *[BODY] * SMALL.messages, timestamp=13)
    assert head_timestamp(queue) == 12
    reader.get(queue)
    assert head_timestamp(queue) == 13
    reader.requeue()
    assert head_timestamp(queue) == 12
    core.restart()
    assert head_timestamp(core.queue()) is None, "nothing is read back for it"
