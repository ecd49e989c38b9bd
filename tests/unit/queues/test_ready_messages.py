"""The ready messages of a queue: what of them is in memory, and read back in portions.

That they come in their order, whatever was paged out and came back, is held against lists in
tests/models/test_queue_model.py; what is lost is passed over in tests/unit/server/test_engine.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.entities.queues.ordered_queue import LOAD_MESSAGES
from broker.entities.queues.queue import LOAD_BYTES, Queue
from broker.entities.queues.ready_messages import MemoryWindow
from harness.brokers.broker_core import Core, Reader

WINDOW = MemoryWindow(4, 100)


def test_memory_holds_a_window_however_long_the_queue(tmp_path: Path) -> None:
    """There are two while it is read: one that was read back, and the tail behind it. Large messages make a window of
    few."""
    core, bodies, reader = Core(tmp_path / "messages", WINDOW), [b"%d" % number for number in range(60)], Reader()
    core.deposit(core.queue(), *bodies[:10])
    core.restart()
    queue = core.queue_named("q")
    ready = queue.ready_messages
    for body in bodies[10:]:
        core.deposit(queue, body)
        core.commit()
        assert len(ready.resident()) <= WINDOW.messages
    for body in bodies:
        assert reader.get(queue, no_ack=True) == body
        assert len(ready.resident()) <= 2 * WINDOW.messages
    for size, kept in ((1, WINDOW.messages), (60, 2)):
        for _ in range(10):
            core.deposit(queue, bytes(size))
            core.commit()
        assert (len(ready), len(ready.resident())) == (10, kept)
        reader.drain(queue)
    core.close()


# Contents that are on disk only


def given_back(core: Core, count: int, size: int = 0) -> Queue:
    """A queue to which `count` messages have come back, with nothing of them in memory."""
    queue, reader = core.queue(), Reader()
    core.deposit(queue, *(b"%06d" % number + bytes(size) for number in range(count)))
    core.commit()
    reader.give_back_unread(queue)
    return queue


def in_memory(queue: Queue) -> list[int]:
    """The sizes of the contents of ready messages that are in memory."""
    return [entry.size for entry in queue.ready_messages.resident() if entry.message is not None]


@pytest.mark.parametrize(("count", "size"), [(2 * LOAD_MESSAGES + 1, 0), (10, LOAD_BYTES // 8), (10, LOAD_BYTES * 2)])
def test_they_come_back_in_portions(core: Core, count: int, size: int) -> None:
    """Portions of a large number of messages, or of few that are large."""
    queue, reader = given_back(core, count, size), Reader()
    assert in_memory(queue) == []
    for number in range(count):
        body = reader.get(queue)
        assert body is not None
        assert body.startswith(b"%06d" % number)
        assert sum(in_memory(queue)) <= LOAD_BYTES
        assert len(in_memory(queue)) <= LOAD_MESSAGES
