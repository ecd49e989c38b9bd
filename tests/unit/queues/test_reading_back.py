"""Contents that are on disk only: read when somebody needs them, in chunks, and passed over if they cannot be."""

from __future__ import annotations

import pytest

from broker.entities.queues.ordered_queue import LOAD_MESSAGES
from broker.entities.queues.queue import LOAD_BYTES, Queue
from harness.brokers.broker_core import Core, Reader


def given_back(core: Core, count: int, size: int = 0) -> Queue:
    """A queue to which so many messages have come back, with nothing of them in memory."""
    queue, reader = core.queue(), Reader()
    core.deposit(queue, *(b"%06d" % number + bytes(size) for number in range(count)))
    core.commit()
    reader.give_back_unread(queue)
    return queue


def in_memory(queue: Queue) -> list[int]:
    """The sizes of the contents of ready messages that are in memory."""
    return [entry.size for entry in queue.ready_messages.resident() if entry.message is not None]


def test_they_come_back_in_portions(core: Core) -> None:
    queue, reader = given_back(core, 3 * LOAD_MESSAGES), Reader()
    assert in_memory(queue) == []
    assert reader.get(queue) == b"000000"
    assert len(in_memory(queue)) == LOAD_MESSAGES
    bodies = []
    while (body := reader.get(queue)) is not None:
        bodies.append(body)
        assert len(in_memory(queue)) <= LOAD_MESSAGES
    assert bodies == [b"%06d" % number for number in range(1, 3 * LOAD_MESSAGES)]


@pytest.mark.parametrize("size", [LOAD_BYTES // 8, LOAD_BYTES * 2])
def test_large_ones_come_back_in_portions_of_few(core: Core, size: int) -> None:
    queue, reader = given_back(core, 20, size), Reader()
    for number in range(20):
        body = reader.get(queue)
        assert body is not None
        assert body.startswith(b"%06d" % number)
        assert sum(in_memory(queue)) <= LOAD_BYTES


def test_what_is_rejected_is_read_for_its_dead_letter_only(core: Core) -> None:
    graveyard = core.queue("dl")
    queue = core.queue(dead_letter_exchange="", dead_letter_routing_key="dl")
    reader = Reader()
    core.deposit(queue, b"one", b"two")
    core.commit()
    for _ in range(2):
        reader.get(queue)
    for entry in reader.held:
        entry.release()
    first, second = reader.held
    queue.reject((first,))
    assert second.message is None
    core.commit()
    assert reader.get(graveyard) == b"one"


def test_what_is_rejected_without_a_graveyard_goes_too(core: Core) -> None:
    queue, reader = core.queue(), Reader()
    core.deposit(queue, b"x")
    core.commit()
    reader.get(queue)
    (entry,) = reader.held
    entry.release()
    queue.reject((entry,))
    core.restart()
    assert len(core.queue_named("q").ready_messages) == 0


def test_what_the_disk_does_not_find_is_passed_over(damaged_core: Core) -> None:
    """The store's records of all but the last have been settled behind the queue's back, as damage would."""
    queue, reader = given_back(damaged_core, 4), Reader()
    queue.store.settle(queue.ready_messages.resident()[:3])
    damaged_core.commit()
    assert reader.get(queue) == b"000003"
    assert reader.get(queue) is None
    assert len(queue.ready_messages) == 0
