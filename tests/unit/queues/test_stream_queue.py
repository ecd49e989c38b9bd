"""Streams: what reading them costs, and what becomes of what they share and leave behind.

Offsets, retention, credit and crashes are held against a list in tests/models/test_stream_model.py.
"""

from __future__ import annotations

import pytest

from broker.entities.arguments.name_patterns import compiled
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


# What reading costs


def test_readers_that_are_up_to_date_read_no_disk(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    log = stream(core)
    followers = [Follower().follow(log, "next") for _ in range(20)]
    core.deposit(log, *(b"%d" % number for number in range(core.window.messages)))
    monkeypatch.delattr(MessageStore, "read")
    core.commit()
    assert all(follower.offsets == list(range(core.window.messages)) for follower in followers)


def test_memory_keeps_a_window_and_a_turn_reads_only_so_much_from_disk(core: Core) -> None:
    log, count = stream(core), (DISK_READS + 1) * READ.messages
    for number in range(count):
        log.publish(message(b"%d" % number, key="s"))
    core.commit()
    assert log.log.next - log.log.tail_first == core.window.messages
    follower = Follower().follow(log, prefetch=count)
    core.broker.turn.end()
    assert len(follower.read) == DISK_READS * READ.messages
    core.end_turn()
    assert follower.offsets == list(range(count))
    idle = Follower().follow(log, "next")
    core.end_turn()
    for _ in range(DISK_READS):
        Follower().follow(log)
    assert idle.consumer is not None
    idle.consumer.resume()
    core.broker.turn.end()
    log.check()  # the idle one has not had its turn yet


# What is kept


def first(core: Core, offset: object) -> int | None:
    """The offset a consumer gets first."""
    follower = Follower().follow(stream(core), offset, prefetch=1)
    core.end_turn()
    assert follower.consumer is not None
    stream(core).consumers.remove(follower.consumer)
    return follower.read[0][0] if follower.read else None


def test_time_does_not_go_back_in_a_stream(core: Core) -> None:
    """The wall clock may, between two starts."""
    stream(core)
    core.advance(60_000)
    fill(core, "s", 0, 10)
    core.restart()
    core.clock.time = START
    fill(core, "s", 10, 20)
    assert first(core, Field("T", START // 1000 + 60)) == 0
    assert first(core, Field("T", START // 1000 + 61)) is None


def test_what_went_is_cleared_away_on_disk(core: Core) -> None:
    """By retention or with the whole stream."""
    log = stream(core, max_length_bytes=3 * PART, stream_max_segment_size_bytes=PART)
    follower = Follower().follow(log)
    for number in range(100):
        fill(core, "s", number, number + 1)
    while core.store.reclaim(10):
        pass
    assert core.store.statistics().entries < 40
    core.vhost.delete_queue(log)
    core.end_turn()
    core.commit()
    while core.store.reclaim(10):
        pass
    assert core.store.statistics().entries == 2
    assert (follower.ended, log.unacked) == (["t"], 100)
    follower.ack()
    assert stream(core).log.next == 0


def test_a_filter_passes_over_what_is_not_wanted(core: Core) -> None:
    """Also where a whole window of it is unwanted, and in memory as on disk."""
    log, count = stream(core), 2 * READ.messages + 10
    tail = Follower().follow(log, stream_filter=["b", "c"])
    for number in range(count):
        wanted = number in (0, READ.messages // 2, count - 1)
        log.publish(message(b"%d" % number, key="s", headers={"x-stream-filter-value": "b" if wanted else "a"}))
        if number % 100 == 0:
            core.commit()
    core.commit()
    late = Follower().follow(log, stream_filter="b", prefetch=2)
    core.end_turn()
    assert tail.offsets == [0, READ.messages // 2, count - 1]
    assert late.offsets == [0, READ.messages // 2]
    late.ack()
    core.end_turn()
    assert late.offsets == [count - 1]


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
    return Policy("p", compiled(""), "queues", definition, 0)


def test_a_body_shared_with_queues_outlives_them(core: Core) -> None:
    """A large body is stored once for a queue and a stream; the stream keeps it when the queue is done with it."""
    body = b"x" * 5000
    log, queue = stream(core), core.queue("q")
    dead_letter = message(body, key="q")
    core.vhost.share_body(dead_letter, (log, queue))
    log.publish(dead_letter)
    queue.publish(dead_letter)
    core.commit()
    assert dead_letter.body_id
    reader = Reader()
    assert reader.get(queue) == body
    reader.ack()
    core.restart()
    follower = Follower().follow(stream(core))
    core.end_turn()
    assert follower.read == [(0, body)]
