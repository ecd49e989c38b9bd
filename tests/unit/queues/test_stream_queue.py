"""Streams: where readers are, what is kept, what outlasts a crash - with a clock moved by hand."""

from __future__ import annotations

import re

import pytest

from broker.entities.arguments.policies import Policy
from broker.entities.queues.streams.stream_queue import DISK_READS, READ
from broker.wire.field_tables import Field
from harness.brokers.broker_core import START, Core, Reader, message
from harness.clients.stream_steps import Follower, stream
from storage.messages.message_store import MessageStore

PART = 1000
"""A segment's size in these tests: with 64 bytes that a message counts beside its body, four of 186 bytes fill it."""


def fill(core: Core, name: str, first: int, end: int) -> None:
    """Publish numbered messages, four to a segment of `PART`, and have them on disk."""
    core.deposit(core.queue_named(name), *(b"%0186d" % number for number in range(first, end)))
    core.commit()


def bodies(follower: Follower) -> list[int]:
    """The numbers in what it was given since last asked."""
    numbers = [int(body) for _, body in follower.read]
    follower.read.clear()
    return numbers


def test_nobody_reads_what_is_not_on_disk(core: Core) -> None:
    """Else an offset that somebody has seen would be another message's after a crash."""
    log = stream(core)
    follower = Follower().follow(log)
    core.deposit(log, b"0", b"1")
    assert follower.offsets == []
    core.crash()
    log = stream(core)
    follower = Follower().follow(log)
    core.deposit(log, b"other")
    core.commit()
    assert follower.read == [(0, b"other")]


def test_offsets_go_on_after_a_crash(core: Core) -> None:
    log = stream(core)
    core.deposit(log, b"0", b"1")
    core.commit()
    core.crash()
    log = stream(core)
    core.deposit(log, b"2")
    core.commit()
    follower = Follower().follow(log)
    core.end_turn()
    assert follower.read == [(0, b"0"), (1, b"1"), (2, b"2")]
    assert log.ready == 3


def test_transient_messages_outlast_a_crash_too(core: Core) -> None:
    core.deposit(stream(core), b"0", persistent=False)
    core.commit()
    core.crash()
    follower = Follower().follow(stream(core))
    core.end_turn()
    assert follower.read == [(0, b"0")]


def test_an_ack_is_credit_and_nothing_else(core: Core) -> None:
    log = stream(core)
    follower = Follower().follow(log, prefetch=2)
    fill(core, "s", 0, 5)
    assert follower.offsets == [0, 1]
    follower.ack()
    core.end_turn()
    assert follower.offsets == [2, 3]
    assert (log.ready, log.unacked, log.messages) == (5, 2, 5)


def test_a_channel_that_ends_gives_nothing_back(core: Core) -> None:
    log = stream(core)
    gone, other = Follower().follow(log), Follower().follow(log)
    fill(core, "s", 0, 2)
    assert gone.consumer is not None
    log.consumers.remove(gone.consumer)
    gone.requeue()
    core.end_turn()
    assert other.offsets == [0, 1]
    assert log.unacked == 2


def test_a_slow_reader_costs_nobody_else(core: Core) -> None:
    log = stream(core)
    slow, full, quick = Follower().follow(log, prefetch=1), Follower(room=0).follow(log), Follower().follow(log)
    fill(core, "s", 0, 50)
    assert slow.offsets == [0]
    assert full.offsets == []
    assert quick.offsets == list(range(50))


def test_readers_that_are_up_to_date_read_no_disk(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    log = stream(core)
    followers = [Follower().follow(log, "next") for _ in range(20)]
    core.deposit(log, *(b"%d" % number for number in range(core.window.messages)))
    monkeypatch.delattr(MessageStore, "read")
    core.commit()
    assert all(follower.offsets == list(range(core.window.messages)) for follower in followers)


def test_memory_keeps_a_window(core: Core) -> None:
    log = stream(core)
    fill(core, "s", 0, 99)
    fill(core, "s", 99, 100)
    assert log.log.next - log.log.tail_first == core.window.messages
    follower = Follower().follow(log)
    core.end_turn()
    assert follower.offsets == list(range(100))


def test_a_turn_reads_only_so_much_from_disk(core: Core) -> None:
    log = stream(core)
    count = (DISK_READS + 1) * READ.messages
    for number in range(count - 1):
        log.publish(message(b"%d" % number, key="s"))
    core.commit()
    fill(core, "s", count - 1, count)  # memory keeps what is on its way to disk until then
    follower = Follower().follow(log, prefetch=count)
    core.broker.turn.end()
    assert len(follower.read) == DISK_READS * READ.messages
    core.end_turn()
    assert follower.offsets == list(range(count))


# Where to begin


def at(milliseconds: int) -> Field:
    """A timestamp, which counts seconds, as x-stream-offset."""
    return Field("T", milliseconds // 1000)


def test_beginning_at_a_time(core: Core) -> None:
    """Exactly at the first message that is not older, on disk or in memory."""
    log = stream(core)
    for number in range(30):
        fill(core, "s", number, number + 1)
        core.advance(10_000)
    for name in ("before", "after a restart"):
        for number in (0, 1, 13, 28, 29):
            assert first(core, at(START + number * 10_000)) == number, name
            assert first(core, at(START + number * 10_000 - 9_000)) == number, name
        assert first(core, at(START + 291_000)) is None
        assert first(core, "100s") == 20
        core.restart()
    assert log.log.next == 30


def first(core: Core, offset: object) -> int | None:
    """The offset a consumer gets first."""
    follower = Follower().follow(stream(core), offset, prefetch=1)
    core.end_turn()
    assert follower.consumer is not None
    stream(core).consumers.remove(follower.consumer)
    return follower.read[0][0] if follower.read else None


def test_a_time_finds_what_is_on_its_way_to_disk(core: Core) -> None:
    log = stream(core)
    fill(core, "s", 0, 2)
    core.advance(10_000)
    core.deposit(log, b"2", b"3")
    follower = Follower().follow(log, at(START + 5_000))
    core.commit()
    assert follower.offsets == [2, 3]


def test_time_does_not_go_back_in_a_stream(core: Core) -> None:
    """The wall clock may, between two starts."""
    stream(core)
    core.advance(60_000)
    fill(core, "s", 0, 10)
    core.restart()
    core.clock.time = START
    fill(core, "s", 10, 20)
    assert first(core, at(START + 60_000)) == 0
    assert first(core, at(START + 61_000)) is None


# What is kept


def test_segments_too_old_go_when_one_is_closed(core: Core) -> None:
    stream(core, max_age="60s", stream_max_segment_size_bytes=PART)
    fill(core, "s", 0, 8)
    core.advance(50_000)
    fill(core, "s", 8, 12)
    core.advance(20_000)
    assert first(core, "first") == 0
    fill(core, "s", 12, 13)
    assert first(core, "first") == 8
    core.advance(1_000_000)
    fill(core, "s", 13, 17)
    assert first(core, "first") == 12


def test_segments_too_many_go(core: Core) -> None:
    log = stream(core, max_length_bytes=3 * PART, stream_max_segment_size_bytes=PART)
    for number in range(40):
        fill(core, "s", number, number + 1)
        assert first(core, "first") == max(0, number // 4 - 3) * 4
        assert log.ready == number + 1 - max(0, number // 4 - 3) * 4
    assert log.ready_bytes == 186 * log.ready


def test_the_segment_being_written_stays(core: Core) -> None:
    stream(core, max_length_bytes=0, stream_max_segment_size_bytes=PART)
    fill(core, "s", 0, 8)
    assert first(core, "first") == 4
    fill(core, "s", 8, 9)
    assert first(core, "first") == 8


def test_segments_of_one_message(core: Core) -> None:
    stream(core, max_length_bytes=500, stream_max_segment_size_bytes=0)
    fill(core, "s", 0, 100)
    assert first(core, "first") == 97


def test_what_went_stays_gone_after_a_crash(core: Core) -> None:
    stream(core, max_length_bytes=3 * PART, stream_max_segment_size_bytes=PART)
    fill(core, "s", 0, 39)
    core.crash()
    log = stream(core)
    assert first(core, "first") == 24
    assert log.ready == 15
    fill(core, "s", 39, 45)
    assert first(core, "first") == 32
    follower = Follower().follow(log, 0)
    core.end_turn()
    assert bodies(follower) == list(range(32, 45))


def test_a_reader_is_moved_on_by_what_goes(core: Core) -> None:
    log = stream(core, max_length_bytes=3 * PART, stream_max_segment_size_bytes=PART)
    follower = Follower().follow(log, prefetch=1)
    fill(core, "s", 0, 4)
    assert follower.offsets == [0]
    fill(core, "s", 4, 40)
    for _ in range(50):
        follower.ack()
        core.end_turn()
    assert bodies(follower)[-16:] == list(range(24, 40))


def test_what_went_is_cleared_away_on_disk(core: Core) -> None:
    stream(core, max_length_bytes=3 * PART, stream_max_segment_size_bytes=PART)
    for number in range(200):
        fill(core, "s", number, number + 1)
    while core.store.reclaim(10):
        pass
    assert core.store.statistics().entries < 40


def test_deleting_leaves_nothing(core: Core) -> None:
    log = stream(core, stream_max_segment_size_bytes=PART)
    follower = Follower().follow(log)
    fill(core, "s", 0, 40)
    core.vhost.delete_queue(log)
    core.end_turn()
    core.commit()
    while core.store.reclaim(10):
        pass
    assert follower.ended == ["t"]
    assert core.store.statistics().entries == 1
    assert log.unacked == 40
    follower.ack()
    assert stream(core).log.next == 0


# Filters


def test_a_filter_passes_over_what_is_not_wanted(core: Core) -> None:
    """Also where a whole window of it is unwanted, and in memory as on disk."""
    log = stream(core)
    tail = Follower().follow(log, stream_filter=["b", "c"])
    for number in range(2000):
        value = "b" if number % 700 == 0 else "a"
        log.publish(message(b"%d" % number, key="s", headers={"x-stream-filter-value": value}))
        core.end_turn()
        if number % 100 == 0:
            core.commit()
    core.commit()
    late = Follower().follow(log, stream_filter="b", prefetch=2)
    core.end_turn()
    assert tail.offsets == [0, 700, 1400]
    assert late.offsets == [0, 700]
    late.ack()
    core.end_turn()
    assert late.offsets == [1400]


# Policies


def test_policies_win_over_the_declaration(core: Core) -> None:
    """RabbitMQ 3.10.8 on the wire; of other queues the smaller number counts. At once, for the segments that follow."""
    stream(core, max_length_bytes=100_000, stream_max_segment_size_bytes=PART)
    stream(core, "t", max_length_bytes=1, stream_max_segment_size_bytes=PART)
    fill(core, "s", 0, 20)
    core.vhost.policy_application.put(policy({"max-length-bytes": 2 * PART, "max-age": "60s"}), operator=False)
    fill(core, "s", 20, 21)
    fill(core, "t", 0, 21)
    assert first(core, "first") == 12
    assert stream(core, "t").log.first == 12
    core.vhost.policy_application.put(policy({"max-age": "60s"}), operator=False)
    fill(core, "s", 21, 41)
    assert first(core, "first") == 12
    core.advance(100_000)
    fill(core, "s", 41, 45)
    assert first(core, "first") == 40


def policy(definition: dict[str, object]) -> Policy:
    return Policy("p", re.compile(""), "queues", definition, 0)


def test_dead_letters_reach_a_stream(core: Core) -> None:
    log = stream(core)
    queue = core.queue("q", dead_letter_exchange="", dead_letter_routing_key="s")
    core.deposit(queue, b"dead")
    reader = Reader()
    assert reader.get(queue) == b"dead"
    reader.reject()
    core.commit()
    follower = Follower().follow(log)
    core.end_turn()
    assert follower.read == [(0, b"dead")]


def test_a_body_shared_with_queues_outlives_them(core: Core) -> None:
    """A large body is stored once for a queue and a stream; the stream keeps it when the queue is done with it."""
    body = b"x" * 5000
    log, queue = stream(core), core.queue("q")
    letter = message(body, key="q")
    core.vhost.share_body(letter, (log, queue))
    log.publish(letter)
    queue.publish(letter)
    core.commit()
    assert letter.body_id
    reader = Reader()
    assert reader.get(queue) == body
    reader.ack()
    core.restart()
    follower = Follower().follow(stream(core))
    core.end_turn()
    assert follower.read == [(0, body)]
