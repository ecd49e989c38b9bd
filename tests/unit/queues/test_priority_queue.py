"""Queues with priorities: levels in memory and on disk, restarts, and what each level costs."""

from __future__ import annotations

import pytest

from broker.entities.queues.ordered_queue import LOAD_MESSAGES
from broker.entities.queues.priority_queue import PriorityQueue
from harness.brokers.broker_core import SMALL, Core, Reader, message


def prioritized(core: Core, name: str = "q", **arguments: object) -> PriorityQueue:
    """A queue with ten priorities above nothing."""
    queue = core.queue(name, **{"max_priority": 10, **arguments})
    assert isinstance(queue, PriorityQueue)
    return queue


def named(core: Core) -> PriorityQueue:
    """The queue, as it came back from a restart."""
    queue = core.queue_named("q")
    assert isinstance(queue, PriorityQueue)
    return queue


def deposit(core: Core, queue: PriorityQueue, *bodies: str, persistent: bool = True) -> None:
    """Publish each body with the priority it begins with."""
    for body in bodies:
        level = int(body.split(".", maxsplit=1)[0])
        core.deposit(queue, body.encode(), persistent=persistent, priority=level)


def drained(queue: PriorityQueue) -> list[str]:
    """Take everything out."""
    reader, bodies = Reader(), []
    while (body := reader.get(queue, no_ack=True)) is not None:
        bodies.append(body.decode())
    return bodies


def many(count: int) -> list[str]:
    """Bodies of all priorities, taking turns."""
    return [f"{(number * 7) % 11}.{number:04}" for number in range(count)]


def in_order(bodies: list[str]) -> list[str]:
    """Highest first, in publish order within a priority: as sorting is stable, the number alone does not matter."""
    return sorted(bodies, key=lambda body: -int(body.split(".", maxsplit=1)[0]))


# On disk


@pytest.mark.parametrize("persistent", [True, False])
def test_order_holds_beyond_the_window(core: Core, persistent: bool) -> None:
    queue, bodies = prioritized(core), many(300)
    for number, body in enumerate(bodies):
        deposit(core, queue, body, persistent=persistent)
        if number % 23 == 0:
            core.commit()
    assert drained(queue) == in_order(bodies)


def test_a_message_behind_many_others_comes_first(core: Core) -> None:
    queue = prioritized(core)
    deposit(core, queue, *(f"0.{number}" for number in range(200)))
    core.commit()
    deposit(core, queue, "9.late")
    reader = Reader()
    assert reader.get(queue) == b"9.late"
    assert reader.get(queue) == b"0.0"


def test_order_outlasts_a_restart(core: Core) -> None:
    bodies = many(100)
    deposit(core, prioritized(core), *bodies)
    core.restart()
    deposit(core, named(core), "3.new", "10.new")
    assert drained(named(core)) == in_order([*bodies, "3.new", "10.new"])
    core.restart()
    assert len(named(core).ready_messages) == 0


def test_a_restart_knows_what_was_delivered_by_level(core: Core) -> None:
    """Messages published before what was delivered from another level have not been delivered."""
    queue, reader = prioritized(core), Reader()
    deposit(core, queue, "1.a", "5.b", "5.c", "1.d")
    for body in (b"5.b", b"5.c", b"1.a"):
        assert reader.get(queue) == body
    reader.ack(b"5.b")
    core.restart()
    reader.consume(named(core))
    core.end_turn()
    assert reader.take() == [(b"5.c", True), (b"1.a", True), (b"1.d", False)]


def test_a_crash_keeps_what_was_committed_of_each_level(core: Core) -> None:
    queue = prioritized(core)
    deposit(core, queue, "2.a", "7.b")
    core.commit()
    deposit(core, queue, "7.lost", "3.lost")
    core.crash()
    assert drained(named(core)) == ["7.b", "2.a"]


def test_a_purge_reaches_every_level_and_spares_what_is_out(core: Core) -> None:
    queue, reader = prioritized(core), Reader()
    deposit(core, queue, *many(60))
    core.commit()
    deposit(core, queue, "10.new", "0.new")
    first, second = reader.get(queue), reader.get(queue)
    assert queue.purge() == 60
    deposit(core, queue, "4.after")
    core.restart()
    left = drained(named(core))
    assert left == [*(body.decode() for body in (first, second) if body), "4.after"]
    core.commit()
    while core.store.reclaim():
        pass
    assert sum(lane.messages for lane in core.store.lanes()[named(core).store.queue_id].values()) == 0


def test_a_deleted_queue_leaves_no_lane_behind(core: Core) -> None:
    queue = prioritized(core)
    deposit(core, queue, *many(60))
    core.commit()
    core.vhost.delete_queue(queue)
    core.commit()
    while core.store.reclaim():
        pass
    assert core.store.lanes() == {}
    assert core.store.statistics().entries == 1, "the store's identity"


def test_given_back_messages_of_several_levels_are_read_again(core: Core) -> None:
    queue, reader = prioritized(core), Reader()
    bodies = many(3 * LOAD_MESSAGES)
    deposit(core, queue, *bodies)
    core.commit()
    reader.give_back_unread(queue)
    assert drained(queue) == in_order(bodies)


def test_damage_costs_the_damaged_only(damaged_core: Core) -> None:
    queue, reader = prioritized(damaged_core), Reader()
    deposit(damaged_core, queue, "5.a", "5.b", "1.c", "1.d")
    damaged_core.commit()
    while reader.get(queue) is not None:
        pass
    for entry in reader.held:
        entry.release()
    lost = [reader.held[0], reader.held[2]]
    reader.requeue()
    for entry in lost:
        queue.store.settle((entry,))
    damaged_core.commit()
    assert drained(queue) == ["5.b", "1.d"]
    assert len(queue.ready_messages) == 0


def test_what_the_store_reports_as_lost_is_counted_in_its_level(core: Core) -> None:
    queue = prioritized(core)
    deposit(core, queue, "5.a", "5.b", "1.c")
    queue.store.lost(5, 1, 3)
    assert (queue.store.lane(5).state.messages, queue.store.state.messages) == (1, 2)


# What levels cost


def test_levels_that_are_not_used_cost_nothing(core: Core) -> None:
    queue = prioritized(core, max_priority=255)
    deposit(core, queue, "0.a", "200.b", "0.c")
    core.commit()
    assert core.store.lanes()[queue.store.queue_id].keys() == {0, 200}
    core.restart()
    assert len(drained(named(core))) == 3
    core.commit()
    assert core.store.lanes()[named(core).store.queue_id].keys() == {0, 200}


def test_levels_share_the_window(core: Core) -> None:
    """With ten levels in use no more than three windows are in memory, whatever came when."""
    queue = prioritized(core, max_priority=9)
    for level in range(10):
        for number in range(50):
            deposit(core, queue, f"{level}.{number}")
            core.commit()
    assert len(queue.ready_messages) == 500
    assert len(queue.ready_messages.resident()) <= 3 * SMALL.messages + 10, "one each at least"
    while queue.pop() is not None:
        assert len(queue.ready_messages.resident()) <= 3 * SMALL.messages + 10


# Together with other arguments


def test_expired_messages_behind_the_head_go_when_they_get_there(core: Core) -> None:
    queue = prioritized(core, message_ttl=100)
    deposit(core, queue, "1.a")
    core.advance(60)
    deposit(core, queue, "5.b")
    core.advance(60)
    assert len(queue.ready_messages) == 2, (
        "RabbitMQ 3.10.8 on the wire: only the head of the highest level is looked at"
    )
    core.advance(40)
    assert len(queue.ready_messages) == 0


def test_a_message_in_front_brings_its_own_time(core: Core) -> None:
    queue = prioritized(core)
    core.deposit(queue, b"later", priority=1, expiration="1000")
    core.deposit(queue, b"sooner", priority=2, expiration="10")
    core.advance(10)
    assert len(queue.ready_messages) == 1
    core.advance(990)
    assert len(queue.ready_messages) == 0


def test_length_limits_hold_over_the_window(core: Core) -> None:
    """The head goes, and that is the oldest of the highest priority (RabbitMQ 3.10.8 on the wire)."""
    queue = prioritized(core, max_length=20)
    deposit(core, queue, *(f"{number % 3}.{number}" for number in range(60)))
    core.commit()
    assert drained(queue) == [f"0.{number}" for number in range(0, 60, 3)]


def test_a_letter_from_disk_keeps_its_priority(core: Core) -> None:
    """It is read from the properties: on disk a message of a plain queue has no level."""
    graveyard = prioritized(core)
    plain = core.queue("plain", dead_letter_exchange="", dead_letter_routing_key="q")
    for level in (1, 3, 2):
        core.deposit(plain, b"%d" % level, priority=level)
    core.restart()
    reader = Reader()
    while reader.get(core.queue_named("plain")) is not None:
        pass
    reader.reject()
    graveyard = named(core)
    assert drained(graveyard) == ["3", "2", "1"]


def test_a_consumer_that_waits_is_not_overtaken(core: Core) -> None:
    """RabbitMQ 3.10.8 on the wire: three messages in one turn, the first goes to the consumer at once."""
    queue, reader = prioritized(core), Reader()
    reader.consume(queue, prefetch=1)
    core.end_turn()
    for level in (1, 3, 9):
        queue.publish(message(b"%d" % level, priority=level))
    core.end_turn()
    assert reader.bodies == [b"1"]
    reader.ack()
    core.end_turn()
    assert reader.bodies == [b"1", b"9"]


def test_a_transient_queue_has_priorities_too(core: Core) -> None:
    queue = core.queue(durable=False, max_priority=3)
    for level in (0, 3, 1):
        core.deposit(queue, b"%d" % level, priority=level)
    assert [entry.size for entry in queue.ready_messages.resident()] == [1, 1, 1]
    reader = Reader()
    reader.consume(queue)
    core.end_turn()
    assert reader.bodies == [b"3", b"1", b"0"]
