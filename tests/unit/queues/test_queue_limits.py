"""Time to live, length limits and leases of queues, with a clock that only the test moves."""

from __future__ import annotations

from typing import Any

import pytest

from harness.brokers.broker_core import Core, Reader, message


def bodies(core: Core, name: str = "q") -> list[bytes]:
    """Take everything out of a queue."""
    reader = Reader()
    taken = []
    while (body := reader.get(core.queue_named(name), no_ack=True)) is not None:
        taken.append(body)
    return taken


# Time to live


def test_a_message_goes_when_its_time_has_passed(core: Core) -> None:
    queue = core.queue(message_ttl=100)
    core.deposit(queue, b"a")
    core.advance(99)
    assert len(queue.ready_messages) == 1
    core.advance(1)
    assert len(queue.ready_messages) == 0


def test_the_shorter_of_both_times_to_live_counts(core: Core) -> None:
    queue = core.queue(message_ttl=100)
    core.deposit(queue, b"short", expiration="10")
    core.advance(10)
    assert len(queue.ready_messages) == 0
    core.deposit(queue, b"long", expiration="1000")
    core.advance(100)
    assert len(queue.ready_messages) == 0


def test_messages_go_at_the_head_only(core: Core) -> None:
    """One whose time has passed waits behind one whose time has not (RabbitMQ documentation, Time-to-Live)."""
    queue = core.queue()
    core.deposit(queue, b"lasting", expiration="1000")
    core.deposit(queue, b"brief", expiration="10")
    core.advance(500)
    assert len(queue.ready_messages) == 2
    core.advance(500)
    assert len(queue.ready_messages) == 0


def test_one_that_never_expires_keeps_those_behind_it(core: Core) -> None:
    queue = core.queue()
    core.deposit(queue, b"for ever")
    core.deposit(queue, b"brief", expiration="10")
    core.advance(1000)
    assert len(queue.ready_messages) == 2
    reader = Reader()
    assert reader.get(queue) == b"for ever"
    assert reader.get(queue) is None


def test_no_time_at_all_is_enough_for_a_waiting_consumer(core: Core) -> None:
    """x-message-ttl 0: delivered at once or never."""
    queue = core.queue(message_ttl=0)
    core.deposit(queue, b"nobody")
    assert len(queue.ready_messages) == 0
    reader = Reader()
    reader.consume(queue, prefetch=3)
    core.end_turn()
    for number in range(5):
        queue.publish(message(b"%d" % number))
    core.end_turn()
    assert reader.bodies == [b"0", b"1", b"2"]
    assert len(queue.ready_messages) == 0


@pytest.mark.parametrize("arguments", [{}, {"queue_type": "quorum"}, {"max_length": 3}], ids=str)
def test_a_waiting_consumer_gets_it_however_long_the_turn_takes(core: Core, arguments: dict[str, Any]) -> None:
    """RabbitMQ hands a message to a consumer that waits before it looks at the time."""
    queue = core.queue(message_ttl=0, **arguments)
    reader = Reader()
    reader.consume(queue, prefetch=2)
    core.end_turn()
    for number in range(3):
        queue.publish(message(b"%d" % number))
        core.clock.time += 1
    core.end_turn()
    assert reader.bodies == [b"0", b"1"]
    assert len(queue.ready_messages) == 0
    reader.ack()
    core.end_turn()
    assert reader.bodies == [b"0", b"1"], "what found no consumer is gone"


def test_a_requeued_message_keeps_its_time(core: Core) -> None:
    queue = core.queue(message_ttl=100)
    core.deposit(queue, b"a")
    reader = Reader()
    assert reader.get(queue) == b"a"
    core.advance(60)
    reader.requeue()
    core.end_turn()
    assert len(queue.ready_messages) == 1
    core.advance(40)
    assert len(queue.ready_messages) == 0


def test_what_is_out_with_a_consumer_does_not_expire(core: Core) -> None:
    queue = core.queue(message_ttl=100)
    core.deposit(queue, b"a")
    reader = Reader()
    reader.get(queue)
    core.advance(1000)
    assert queue.unacked == 1
    reader.requeue()
    core.end_turn()
    assert len(queue.ready_messages) == 0


def test_an_expired_message_is_never_delivered(core: Core) -> None:
    queue = core.queue()
    core.deposit(queue, *(b"%d" % number for number in range(10)), expiration="10")
    core.deposit(queue, b"fresh")
    core.clock.time += 20
    reader = Reader()
    reader.consume(queue)
    core.end_turn()
    assert reader.bodies == [b"fresh"]


def test_time_goes_on_while_the_broker_is_down(core: Core) -> None:
    queue = core.queue(message_ttl=100)
    core.deposit(queue, b"a", b"b")
    core.restart()
    core.clock.time += 50
    core.crash()
    core.advance(49)
    assert len(core.queue_named("q").ready_messages) == 2
    core.advance(1)
    assert len(core.queue_named("q").ready_messages) == 0, (
        "nobody has touched the queue, and its messages go all the same"
    )


def test_expiry_reaches_the_disk(core: Core) -> None:
    queue = core.queue(message_ttl=100)
    core.deposit(queue, *(b"%d" % number for number in range(20)))
    core.commit()
    core.advance(100)
    core.commit()
    core.crash()
    assert len(core.queue_named("q").ready_messages) == 0
    assert core.store.lanes()[queue.store.queue_id][0].messages == 0


def test_timers_do_not_grow_with_the_messages_that_pass(core: Core) -> None:
    """With a time to live of a day, a timer for each message at the head would fill the memory by the evening."""
    queue = core.queue(message_ttl=86_400_000)
    reader = Reader()
    reader.consume(queue, prefetch=1)
    before = len(core.broker.timers._due)
    for number in range(200):
        queue.publish(message(b"%d" % number))
        core.clock.time += 1
        if number > 2:
            reader.ack()
        core.end_turn()
    assert len(core.broker.timers._due) - before <= 2


# Length


def test_the_oldest_goes_when_there_are_too_many(core: Core) -> None:
    queue = core.queue(max_length=3)
    core.deposit(queue, b"a", b"b", b"c", b"d", b"e")
    assert bodies(core) == [b"c", b"d", b"e"]


def test_the_oldest_goes_when_there_is_too_much(core: Core) -> None:
    queue = core.queue(max_length_bytes=10)
    core.deposit(queue, b"1234", b"5678", b"90", b"x")
    assert bodies(core) == [b"5678", b"90", b"x"]


def test_a_message_larger_than_the_limit_does_not_stay(core: Core) -> None:
    queue = core.queue(max_length_bytes=10)
    core.deposit(queue, b"x" * 11)
    assert len(queue.ready_messages) == 0


def test_whichever_limit_is_reached_first_counts(core: Core) -> None:
    queue = core.queue(max_length=2, max_length_bytes=10)
    core.deposit(queue, b"a", b"b", b"c")
    assert len(queue.ready_messages) == 2
    core.deposit(queue, b"123456789")
    assert bodies(core) == [b"c", b"123456789"]


def test_what_is_out_with_consumers_does_not_count(core: Core) -> None:
    queue = core.queue(max_length=2)
    reader = Reader()
    core.deposit(queue, b"a", b"b")
    reader.get(queue)
    reader.get(queue)
    core.deposit(queue, b"c", b"d")
    assert (queue.unacked, len(queue.ready_messages)) == (2, 2)


def test_a_consumer_with_credit_comes_before_the_limit(core: Core) -> None:
    """Nine messages in one read, a limit of two, a consumer that takes all: it gets all nine (3.10.8 on the wire)."""
    queue = core.queue(max_length=2)
    reader = Reader()
    reader.consume(queue, no_ack=True)
    core.end_turn()
    for number in range(9):
        queue.publish(message(b"%d" % number))
    core.end_turn()
    assert reader.bodies == [b"%d" % number for number in range(9)]


def test_a_limit_of_nothing_still_serves_consumers(core: Core) -> None:
    """x-max-length 0 with a consumer waiting: delivered (3.10.8 on the wire)."""
    queue = core.queue(max_length=0)
    reader = Reader()
    reader.consume(queue, no_ack=True)
    core.end_turn()
    core.deposit(queue, b"a")
    assert reader.bodies == [b"a"]


@pytest.mark.parametrize(("overflow", "letters"), [("reject-publish", 0), ("reject-publish-dlx", 1)])
def test_what_is_turned_away(core: Core, overflow: str, letters: int) -> None:
    graveyard = core.queue("dl")
    queue = core.queue(max_length=1, overflow=overflow, dead_letter_exchange="", dead_letter_routing_key="dl")
    core.deposit(queue, b"a")
    queue.limits.turn_away(message(b"b"))
    assert (len(queue.ready_messages), len(graveyard.ready_messages)) == (1, letters)
    assert bodies(core, "dl") == [b"b"] * letters


def test_length_limits_hold_over_the_window(core: Core) -> None:
    """The window holds four messages; the limit is five times that."""
    queue = core.queue(max_length=20)
    for number in range(50):
        core.deposit(queue, b"%d" % number)
        if number % 7 == 0:
            core.commit()
    assert len(queue.ready_messages) == 20
    assert bodies(core) == [b"%d" % number for number in range(30, 50)]


# Leases


def test_a_queue_nobody_uses_goes(core: Core) -> None:
    core.queue(expires=1000)
    core.advance(999)
    assert "q" in core.vhost.queues
    core.advance(1)
    assert "q" not in core.vhost.queues


def test_declaring_and_getting_renew_the_expiry(core: Core) -> None:
    core.queue(expires=1000)
    core.advance(900)
    core.queue(expires=1000)
    core.advance(900)
    assert Reader().get(core.queue_named("q")) is None
    core.advance(900)
    assert "q" in core.vhost.queues
    core.advance(100)
    assert "q" not in core.vhost.queues


def test_publishing_does_not_renew_the_expiry(core: Core) -> None:
    queue = core.queue(expires=1000)
    core.advance(900)
    core.deposit(queue, b"a")
    core.advance(100)
    assert "q" not in core.vhost.queues


def test_a_queue_that_expires_leaves_no_dead_letters(core: Core) -> None:
    graveyard = core.queue("dl")
    core.deposit(core.queue(expires=1000, dead_letter_exchange="", dead_letter_routing_key="dl"), b"a")
    core.advance(1000)
    assert len(graveyard.ready_messages) == 0


def test_a_restart_renews_the_expiry(core: Core) -> None:
    core.queue(expires=1000)
    core.advance(900)
    core.restart()
    core.advance(900)
    assert "q" in core.vhost.queues
    core.advance(100)
    assert "q" not in core.vhost.queues
