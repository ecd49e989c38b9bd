"""Cost of the levels of a queue with priorities, in memory and on disk, and the end of damaged ones.

Their order is asserted on the wire (tests/conformance/queues/test_priorities.py), across restarts
(tests/durability/restart/test_priorities_restart.py) and against lists (tests/models/test_queue_model.py).
"""

from __future__ import annotations

from broker.entities.queues.priority_queue import PriorityQueue
from harness.brokers.broker_core import SMALL, Core, Reader


def prioritized(core: Core, max_priority: int = 10) -> PriorityQueue:
    queue = core.queue(max_priority=max_priority)
    assert isinstance(queue, PriorityQueue)
    return queue


def deposit(core: Core, queue: PriorityQueue, *bodies: str) -> None:
    """Publish each body with the priority it begins with."""
    for body in bodies:
        core.deposit(queue, body.encode(), priority=int(body.split(".", maxsplit=1)[0]))


def test_levels_that_are_not_used_cost_nothing(core: Core) -> None:
    """A deletion clears every lane."""
    queue = prioritized(core, 255)
    deposit(core, queue, "0.a", "200.b", "0.c")
    core.commit()
    assert core.store.lanes()[queue.store.queue_id].keys() == {0, 200}
    core.restart()
    assert len(Reader().drain(core.queue_named("q"))) == 3
    core.commit()
    assert core.store.lanes()[queue.store.queue_id].keys() == {0, 200}
    restored = core.queue_named("q")
    assert isinstance(restored, PriorityQueue)
    deposit(core, restored, *(f"{(number * 7) % 11}.{number}" for number in range(60)))
    core.commit()
    core.vhost.delete_queue(restored)
    core.commit()
    while core.store.reclaim():
        pass
    assert core.store.lanes() == {}
    assert core.store.statistics().entries == 2, "the store's identity, and the mark of the journal"


def test_damage_costs_the_damaged_only(damaged_core: Core) -> None:
    """Messages that the store reports as lost are counted in their level."""
    queue, reader = prioritized(damaged_core), Reader()
    deposit(damaged_core, queue, "5.a", "5.b", "1.c", "1.d")
    damaged_core.commit()
    reader.drain(queue, no_ack=False)
    for entry in reader.held:
        entry.release()
    lost = [reader.held[0], reader.held[2]]
    reader.requeue()
    for entry in lost:
        queue.store.settle((entry,))
    damaged_core.commit()
    assert Reader().drain(queue) == [b"5.b", b"1.d"]
    assert len(queue.ready_messages) == 0
    deposit(damaged_core, queue, "5.a", "5.b", "1.c")
    queue.store.lost(5, 1, 3)
    assert (queue.store.lane(5).state.messages, queue.store.state.messages) == (1, 2)


def test_levels_share_the_window(core: Core) -> None:
    """With ten levels in use no more than three windows are in memory, whatever came when."""
    queue = prioritized(core, 9)
    for level in range(10):
        for number in range(20):
            deposit(core, queue, f"{level}.{number}")
            core.commit()
    assert len(queue.ready_messages) == 200
    assert len(queue.ready_messages.resident()) <= 3 * SMALL.messages + 10, "one each at least"
    while queue.pop() is not None:
        assert len(queue.ready_messages.resident()) <= 3 * SMALL.messages + 10
