"""Whose turn it is: rotation, credit, priorities, a single active consumer, and consumers that come and go."""

from __future__ import annotations

import pytest

from broker.entities.queues.consumers import Consumer
from broker.entities.queues.queue import RUN_BYTES
from harness.brokers.broker_core import Core, Reader


def by_tag(reader: Reader) -> dict[str, list[bytes]]:
    """What each of a reader's consumers was given."""
    tags: dict[str, list[bytes]] = {}
    for tag, body, _ in reader.seen:
        tags.setdefault(tag, []).append(body)
    return tags


def numbers(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


# In turn


def test_consumers_take_turns(core: Core) -> None:
    """Round-robin among consumers with credit (RabbitMQ's consumers guide)."""
    queue, reader = core.queue(), Reader()
    for tag in ("a", "b", "c"):
        reader.consume(queue, tag)
    core.deposit(queue, *numbers(7))
    assert by_tag(reader) == {"a": [b"0", b"3", b"6"], "b": [b"1", b"4"], "c": [b"2", b"5"]}


def test_the_turn_goes_on_where_it_stopped(core: Core) -> None:
    queue, reader = core.queue(), Reader()
    reader.consume(queue, "a")
    reader.consume(queue, "b")
    core.deposit(queue, b"0")
    core.deposit(queue, b"1")
    assert by_tag(reader) == {"a": [b"0"], "b": [b"1"]}


def test_a_backlog_is_shared_out_one_by_one(core: Core) -> None:
    queue, reader = core.queue(), Reader()
    core.deposit(queue, *numbers(6))
    reader.consume(queue, "a")
    reader.consume(queue, "b")
    core.end_turn()
    assert by_tag(reader) == {"a": [b"0", b"2", b"4"], "b": [b"1", b"3", b"5"]}


def test_one_consumer_alone_gets_a_run(core: Core) -> None:
    queue, reader = core.queue(), Reader()
    core.deposit(queue, *numbers(50))
    reader.consume(queue)
    core.end_turn()
    assert reader.bodies == numbers(50)


def test_a_consumer_that_goes_is_left_out(core: Core) -> None:
    queue, reader = core.queue(), Reader()
    reader.consume(queue, "a")
    gone = reader.consume(queue, "b")
    reader.consume(queue, "c")
    queue.consumers.remove(gone)
    core.deposit(queue, *numbers(4))
    assert by_tag(reader) == {"a": [b"0", b"2"], "c": [b"1", b"3"]}


def test_a_consumer_that_has_gone_is_not_enlisted_by_its_last_acks(core: Core) -> None:
    """What it was given stays outstanding; acknowledging that brings it nothing."""
    queue, reader = core.queue(), Reader()
    consumer = reader.consume(queue, prefetch=1)
    core.deposit(queue, b"1", b"2")
    queue.consumers.remove(consumer)
    reader.ack(b"1")
    core.end_turn()
    assert reader.bodies == [b"1"]
    assert not consumer.waiting
    assert (len(queue.ready_messages), queue.unacked) == (1, 0)


# Credit


def test_a_prefetch_limit_holds(core: Core) -> None:
    queue, reader = core.queue(), Reader()
    consumer = reader.consume(queue, prefetch=2)
    core.deposit(queue, *numbers(5))
    assert (reader.bodies, consumer.unacked) == ([b"0", b"1"], 2)
    reader.ack(b"1")
    core.end_turn()
    assert (reader.bodies, consumer.unacked) == ([b"0", b"1", b"2"], 2)
    assert (queue.unacked, len(queue.ready_messages)) == (2, 2)


def test_without_acknowledgements_there_is_no_limit(core: Core) -> None:
    """RabbitMQ's consumer prefetch: the limit is on what is unacknowledged."""
    queue, reader = core.queue(), Reader(allowance=0)
    reader.consume(queue, prefetch=1, no_ack=True)
    core.deposit(queue, *numbers(5))
    assert (reader.bodies, queue.unacked) == (numbers(5), 0)


def test_what_nobody_acknowledges_is_gone_from_disk(core: Core) -> None:
    queue, reader = core.queue(), Reader()
    core.deposit(queue, *numbers(9))
    core.commit()
    reader.consume(queue, no_ack=True)
    core.end_turn()
    core.restart()
    assert len(core.queue_named("q").ready_messages) == 0


@pytest.mark.parametrize("settle", [Reader.ack, Reader.requeue, Reader.reject])
def test_any_settlement_gives_credit(core: Core, settle: object) -> None:
    queue, reader = core.queue(), Reader()
    reader.consume(queue, prefetch=1)
    core.deposit(queue, b"1", b"2")
    assert callable(settle)
    settle(reader, b"1")
    core.end_turn()
    assert len(reader.seen) == 2


def test_those_without_credit_are_passed_over(core: Core) -> None:
    queue, reader = core.queue(), Reader()
    reader.consume(queue, "full", prefetch=1)
    reader.consume(queue, "free")
    core.deposit(queue, *numbers(4))
    assert by_tag(reader) == {"full": [b"0"], "free": [b"1", b"2", b"3"]}


def test_the_allowance_of_a_channel_holds_for_all_its_consumers(core: Core) -> None:
    """basic.qos with `global`, in RabbitMQ's reading."""

    class Limited(Reader):
        def allowance(self) -> int:
            return 3 - len(self.held)

    queue, reader = core.queue(), Limited()
    reader.consume(queue, "a")
    reader.consume(queue, "b", prefetch=1)
    core.deposit(queue, *numbers(6))
    assert by_tag(reader) == {"a": [b"0", b"2"], "b": [b"1"]}
    reader.ack(b"0")
    core.end_turn()
    assert by_tag(reader) == {"a": [b"0", b"2", b"3"], "b": [b"1"]}


def test_a_slow_channel_waits_and_is_resumed(core: Core) -> None:
    queue, slow, fast = core.queue(), Reader(room=0), Reader()
    consumer = slow.consume(queue, "slow")
    fast.consume(queue, "fast", prefetch=1)
    core.deposit(queue, b"1", b"2")
    assert (slow.bodies, fast.bodies) == ([], [b"1"])
    slow.space = 1
    consumer.resume()
    core.end_turn()
    assert slow.bodies == [b"2"]


def test_one_consumer_does_not_take_all_the_room_at_once(core: Core) -> None:
    """A run ends at its size, and credit is looked at again: a slow client is noticed between two runs."""

    class Narrow(Reader):
        """The output of the channel is full as soon as something is in it."""

        def room(self) -> int:
            return 0 if self.seen else 100

    queue, narrow = core.queue(), Narrow()
    core.deposit(queue, *[bytes(RUN_BYTES // 2)] * 5)
    consumer = narrow.consume(queue, no_ack=True)
    core.end_turn()
    assert len(narrow.seen) == 2
    assert not consumer.waiting


# Priorities


def test_higher_priorities_come_first(core: Core) -> None:
    """RabbitMQ's consumer priorities: lower ones get messages only while the higher ones cannot take any."""
    queue, reader = core.queue(), Reader()
    reader.consume(queue, "low", priority=-5)
    reader.consume(queue, "normal", prefetch=1)
    reader.consume(queue, "high", prefetch=2, priority=10)
    core.deposit(queue, *numbers(6))
    assert by_tag(reader) == {"high": [b"0", b"1"], "normal": [b"2"], "low": [b"3", b"4", b"5"]}
    reader.ack(b"0")
    core.deposit(queue, b"again")
    assert by_tag(reader)["high"] == [b"0", b"1", b"again"]


def test_equals_take_turns(core: Core) -> None:
    queue, reader = core.queue(), Reader()
    reader.consume(queue, "a", priority=3)
    reader.consume(queue, "low")
    reader.consume(queue, "b", priority=3)
    core.deposit(queue, *numbers(4))
    assert by_tag(reader) == {"a": [b"0", b"2"], "b": [b"1", b"3"]}


def test_a_line_that_has_emptied_is_forgotten(core: Core) -> None:
    queue, reader = core.queue(), Reader()
    for priority in range(50):
        queue.consumers.remove(reader.consume(queue, str(priority), priority=priority))
    reader.consume(queue, "last")
    core.deposit(queue, b"x")
    assert by_tag(reader) == {"last": [b"x"]}
    assert len(queue.consumers) == 1


# One at a time


def test_only_the_first_is_active(core: Core) -> None:
    """RabbitMQ's single active consumer: the others stand by until it goes; order of arrival decides."""
    queue, reader = core.queue(single_active_consumer=True), Reader()
    consumers = [reader.consume(queue, tag, prefetch=1) for tag in ("a", "b", "c")]
    core.deposit(queue, *numbers(4))
    assert by_tag(reader) == {"a": [b"0"]}
    assert [queue.consumers.active(consumer) for consumer in consumers] == [True, False, False]
    queue.consumers.remove(consumers[1])
    core.end_turn()
    assert by_tag(reader) == {"a": [b"0"]}
    queue.consumers.remove(consumers[0])
    core.end_turn()
    assert by_tag(reader) == {"a": [b"0"], "c": [b"1"]}
    reader.ack(b"0", b"1")
    core.end_turn()
    assert by_tag(reader) == {"a": [b"0"], "c": [b"1", b"2"]}


def test_what_the_active_one_gives_back_goes_to_its_heir(core: Core) -> None:
    queue, first, second = core.queue(single_active_consumer=True), Reader(), Reader()
    active = first.consume(queue, "a")
    second.consume(queue, "b")
    core.deposit(queue, *numbers(6))
    assert first.bodies == numbers(6)
    queue.consumers.remove(active)
    first.requeue()
    core.end_turn()
    assert second.take() == [(body, True) for body in numbers(6)]


def test_priority_does_not_unseat_the_active_one(core: Core) -> None:
    """Classic queues of 3.10: the first consumer stays, whatever the priority of the next."""
    queue, reader = core.queue(single_active_consumer=True), Reader()
    reader.consume(queue, "first")
    reader.consume(queue, "important", priority=10)
    core.deposit(queue, b"x")
    assert by_tag(reader) == {"first": [b"x"]}


def test_the_heir_is_the_most_important_one(core: Core) -> None:
    """RabbitMQ 3.10.8 on the wire; among equals the first to have come."""
    queue, reader = core.queue(single_active_consumer=True), Reader()
    active = reader.consume(queue, "active")
    for tag, priority in (("low", 0), ("high", 5), ("late", 5)):
        reader.consume(queue, tag, priority=priority)
    queue.consumers.remove(active)
    core.deposit(queue, b"x")
    assert by_tag(reader) == {"high": [b"x"]}


# Ends


def test_an_exclusive_consumer_is_known(core: Core) -> None:
    queue, reader = core.queue(), Reader()
    assert not queue.consumers.exclusive
    consumer = reader.consume(queue, exclusive=True)
    assert queue.consumers.exclusive
    queue.consumers.remove(consumer)
    assert not queue.consumers.exclusive


def test_consumers_of_a_deleted_queue_are_told_at_the_end_of_the_turn(core: Core) -> None:
    queue, reader = core.queue(), Reader()
    consumers: list[Consumer] = [reader.consume(queue, tag) for tag in ("a", "b")]
    core.deposit(queue, b"1")
    core.vhost.delete_queue(queue)
    assert reader.ended == []
    core.end_turn()
    assert reader.ended == ["a", "b"]
    assert all(consumer.ended for consumer in consumers)
    reader.ack(b"1")
    core.commit()
    assert queue.unacked == 0


def test_what_came_back_is_delivered_in_its_place(core: Core) -> None:
    """0-9-1 of RabbitMQ: requeued messages go to their original position if possible."""
    queue, reader = core.queue(), Reader()
    consumer = reader.consume(queue, prefetch=4)
    core.deposit(queue, *numbers(8))
    queue.consumers.remove(consumer)
    reader.requeue(b"2")
    reader.requeue(b"0", b"3")
    reader.take()
    reader.consume(queue, "again")
    core.end_turn()
    assert reader.take() == [
        (b"0", True),
        (b"2", True),
        (b"3", True),
        *((b"%d" % number, False) for number in range(4, 8)),
    ]
