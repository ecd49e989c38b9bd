"""Quorum queues over a real store, in virtual time: counts and dead letters across crashes at any batch, and paging."""

from __future__ import annotations

from typing import Any

import pytest

from broker.entities.queues.quorum.at_least_once import RETRY_MILLISECONDS, TRIED_AT_ONCE
from broker.entities.queues.quorum.quorum_queue import QuorumEntry, QuorumQueue
from broker.wire.properties import decode_properties
from harness.brokers.broker_core import Core, Reader

AT_LEAST_ONCE = {
    "dead_letter_strategy": "at-least-once",
    "overflow": "reject-publish",
    "dead_letter_exchange": "",
    "dead_letter_routing_key": "dead",
}


def quorum(core: Core, **arguments: Any) -> QuorumQueue:
    """Declare the queue q, or find it as it came back from a crash."""
    queue = core.vhost.queues.get("q") or core.queue("q", queue_type="quorum", **arguments)
    assert isinstance(queue, QuorumQueue)
    return queue


def bodies(count: int, start: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(start, start + count)]


def take_all(queue: QuorumQueue, reader: Reader) -> list[tuple[bytes, int]]:
    """Every ready message, with how often it went out before; all stay out."""
    found = []
    while (body := reader.get(queue)) is not None:
        entry = reader.held[-1]
        assert isinstance(entry, QuorumEntry)
        found.append((body, entry.deliveries - 1))
    return found


@pytest.mark.parametrize("limit", [{}, {"delivery_limit": 100}], ids=["no limit", "limit"])
def test_what_lies_on_disk_alone_is_counted_too(core: Core, limit: dict[str, int]) -> None:
    queue = quorum(core, **limit)
    core.deposit(queue, *bodies(20), persistent=False)
    core.commit()
    reader = Reader()
    for round_ in range(3):
        assert sorted(take_all(queue, reader)) == sorted((body, round_) for body in bodies(20))
        core.commit()
        for entry in reader.held:
            entry.release()
        assert all(entry.message is None for entry in reader.held)
        reader.requeue()
        core.commit()
    core.crash()
    assert sorted(take_all(quorum(core), Reader())) == sorted((body, 3) for body in bodies(20))


@pytest.mark.parametrize("limit", [{}, {"max_length": 2}], ids=["time", "room"])
def test_one_that_was_out_too_often_when_the_process_died_hides_nothing_behind_it(
    core: Core, limit: dict[str, int]
) -> None:
    """The first message was out once, the second too often; what is behind them expires and makes room as ever."""
    queue, reader = quorum(core, delivery_limit=1, **limit), Reader()
    core.deposit(queue, *bodies(2))
    assert [reader.get(queue), reader.get(queue)] == bodies(2)
    reader.requeue(b"1")
    assert reader.get(queue) == b"1"
    core.deposit(queue, b"brief", expiration=None if limit else "1000")
    core.deposit(queue, b"last")
    core.commit()
    core.clock.time += 1001
    core.crash()
    if limit:
        quorum(core).limits.resume()
        core.end_turn()
    reader = Reader()
    reader.consume(quorum(core))
    core.end_turn()
    assert reader.bodies == ([b"brief", b"last"] if limit else [b"0", b"last"])


def test_dead_letters_wait_and_go_in_their_order(core: Core) -> None:
    """More than are tried at once, more than the window holds, over a crash."""
    queue, count = quorum(core, **AT_LEAST_ONCE), TRIED_AT_ONCE + 10
    core.deposit(queue, *bodies(count))
    reader = Reader()
    take_all(queue, reader)
    reader.reject()
    core.commit()
    assert (len(queue.dead_letters), len(queue.ready_messages), queue.unacked) == (count, 0, 0)
    core.crash()
    queue = quorum(core)
    assert (len(queue.dead_letters), len(queue.ready_messages)) == (count, 0)
    core.advance(RETRY_MILLISECONDS)
    assert len(queue.dead_letters) == count
    core.queue("dead")
    core.advance(RETRY_MILLISECONDS)
    core.advance(10)
    assert len(queue.dead_letters) == 0
    core.commit()
    core.crash()
    reader = Reader()
    assert [reader.get(core.queue_named("dead")) for _ in range(count + 1)] == [*bodies(count), None]
    assert len(quorum(core).dead_letters) == 0
    assert reader.held[0].message is not None
    headers = decode_properties(reader.held[0].message.header).headers or {}
    assert headers["x-first-death-reason"].value == b"rejected"


@pytest.mark.parametrize("deleted", [False, True])
def test_a_dead_letter_overtakes_none_that_waits_and_goes_with_its_queue(core: Core, deleted: bool) -> None:
    queue, reader = quorum(core, **AT_LEAST_ONCE), Reader()
    core.deposit(queue, *bodies(2))
    take_all(queue, reader)
    reader.reject(b"0")
    dead = core.queue("dead")
    reader.reject(b"1")
    core.commit()
    assert len(dead.ready_messages) == 0
    if deleted:
        core.vhost.delete_queue(queue)
        core.commit()
    core.advance(2 * RETRY_MILLISECONDS)
    assert [Reader().get(dead), Reader().get(dead)] == ([None, None] if deleted else bodies(2))
