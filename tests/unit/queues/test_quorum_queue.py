"""Quorum queues over a real store, in virtual time: counts and letters across crashes at any batch, and paging."""

from __future__ import annotations

import random
from typing import Any

import pytest

from broker.entities.messages.message import Entry
from broker.entities.queues.at_least_once import RETRY_MILLISECONDS, TRIED_AT_ONCE
from broker.entities.queues.quorum_queue import QuorumEntry, QuorumQueue
from broker.wire.properties import decode_properties
from harness.brokers.broker_core import Core, Reader

AT_LEAST_ONCE = {"dead_letter_strategy": "at-least-once", "overflow": "reject-publish", "dead_letter_exchange": ""}


def quorum(core: Core, name: str = "q", **arguments: Any) -> QuorumQueue:
    queue = core.queue(name, queue_type="quorum", **arguments)
    assert isinstance(queue, QuorumQueue)
    return queue


def again(core: Core, name: str = "q") -> QuorumQueue:
    queue = core.queue_named(name)
    assert isinstance(queue, QuorumQueue)
    return queue


def bodies(count: int, start: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(start, start + count)]


def take_all(queue: QuorumQueue, reader: Reader) -> list[tuple[bytes, int]]:
    """Every ready message, with how often it went out before; all stay out."""
    found = []
    while (body := reader.get(queue)) is not None:
        found.append((body, deliveries_of(reader.held[-1]) - 1))
    return found


def deliveries_of(entry: Entry) -> int:
    assert isinstance(entry, QuorumEntry)
    return entry.deliveries


def shown_count(entry: Entry) -> int | None:
    assert entry.message is not None
    field = (decode_properties(entry.message.header).headers or {}).get("x-delivery-count")
    return None if field is None else field.value


@pytest.mark.parametrize("limit", [None, 100])
def test_what_lies_on_disk_alone_is_counted_too(core: Core, limit: int | None) -> None:
    queue = quorum(core, **({} if limit is None else {"delivery_limit": limit}))
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
    assert sorted(take_all(again(core), Reader())) == sorted((body, 3) for body in bodies(20))


def test_a_count_goes_on_after_each_crash(core: Core) -> None:
    queue = quorum(core, delivery_limit=100)
    core.deposit(queue, *bodies(3))
    for round_ in range(4):
        reader = Reader()
        assert reader.get(queue) == b"0"
        assert shown_count(reader.held[0]) == round_
        core.commit()
        core.crash()
        queue = again(core)
    assert take_all(queue, Reader()) == [(b"0", 4), (b"1", 0), (b"2", 0)]


def test_a_message_that_was_out_too_often_when_the_process_died_is_dead_at_the_start(core: Core) -> None:
    core.queue("dead")
    queue = quorum(core, delivery_limit=0, dead_letter_exchange="", dead_letter_routing_key="dead")
    core.deposit(queue, *bodies(3))
    reader = Reader()
    reader.get(queue)
    reader.get(queue)
    core.restart()
    core.advance(5000)
    assert len(core.queue_named("dead").ready_messages) == 2
    assert take_all(again(core), Reader()) == [(b"2", 0)]


def _second_out_too_often(core: Core, queue: QuorumQueue) -> None:
    """Hand out the first message once and the second one twice, and have the process die of it."""
    reader = Reader()
    assert [reader.get(queue), reader.get(queue)] == bodies(2)
    reader.requeue(b"1")
    assert reader.get(queue) == b"1"
    core.commit()


def test_behind_one_that_was_out_too_often_nothing_is_delivered_after_its_time(core: Core) -> None:
    queue = quorum(core, delivery_limit=1)
    core.deposit(queue, *bodies(2))
    core.deposit(queue, b"brief", expiration="1000")
    core.deposit(queue, b"last")
    _second_out_too_often(core, queue)
    core.clock.time += 1001
    core.crash()
    reader = Reader()
    reader.consume(again(core))
    core.end_turn()
    assert reader.bodies == [b"0", b"last"]


def test_one_that_was_out_too_often_makes_room_like_any_other(core: Core) -> None:
    queue = quorum(core, delivery_limit=1, max_length=2)
    core.deposit(queue, *bodies(2))
    _second_out_too_often(core, queue)
    core.deposit(queue, *bodies(2, start=2))
    core.commit()
    core.crash()
    queue = again(core)
    queue.limits.resume()
    core.end_turn()
    assert [body for body, _ in take_all(queue, Reader())] == [b"2", b"3"]


def test_letters_wait_and_go_in_their_order(core: Core) -> None:
    """More than are tried at once, more than the window holds, over a crash."""
    queue = quorum(core, **AT_LEAST_ONCE, dead_letter_routing_key="dead")
    count = TRIED_AT_ONCE + 10
    core.deposit(queue, *bodies(count))
    reader = Reader()
    take_all(queue, reader)
    reader.reject()
    core.commit()
    assert (len(queue.dead_letters), len(queue.ready_messages), queue.unacked) == (count, 0, 0)
    core.crash()
    queue = again(core)
    assert (len(queue.dead_letters), len(queue.ready_messages)) == (count, 0)
    core.advance(RETRY_MILLISECONDS)
    assert len(queue.dead_letters) == count
    dead = core.queue("dead")
    core.advance(RETRY_MILLISECONDS)
    core.advance(10)
    assert len(queue.dead_letters) == 0
    core.commit()
    core.crash()
    reader = Reader()
    dead = core.queue_named("dead")
    assert [reader.get(dead) for _ in range(count)] == bodies(count)
    assert reader.get(dead) is None
    assert len(again(core).dead_letters) == 0
    field = (decode_properties(reader.held[0].message.header).headers or {})["x-first-death-reason"]  # type: ignore[union-attr]
    assert field.value == b"rejected"


def test_a_letter_does_not_overtake_one_that_waits(core: Core) -> None:
    queue = quorum(core, **AT_LEAST_ONCE, dead_letter_routing_key="dead")
    core.deposit(queue, *bodies(2))
    reader = Reader()
    take_all(queue, reader)
    reader.reject(b"0")
    dead = core.queue("dead")
    reader.reject(b"1")
    assert len(dead.ready_messages) == 0
    core.advance(RETRY_MILLISECONDS)
    assert [Reader().get(dead), Reader().get(dead)] == bodies(2)


def test_deletion_takes_the_letters_along(core: Core) -> None:
    queue = quorum(core, **AT_LEAST_ONCE, dead_letter_routing_key="dead")
    core.deposit(queue, b"m")
    reader = Reader()
    take_all(queue, reader)
    reader.reject()
    core.commit()
    core.vhost.delete_queue(queue)
    core.commit()
    core.queue("dead")
    core.advance(2 * RETRY_MILLISECONDS)
    assert len(core.queue_named("dead").ready_messages) == 0


@pytest.mark.parametrize("seed", range(12))
def test_nothing_is_lost_or_doubled(core: Core, seed: int) -> None:
    """Any order of what clients do, crashes between any batches: what was on disk is then in exactly one place.

    Nothing but an acknowledgement takes a message away.
    """
    choose = random.Random(seed)
    queue = quorum(core, **AT_LEAST_ONCE, dead_letter_routing_key="dead", delivery_limit=choose.choice((1, 3)))
    reader, serial, acked, stored = Reader(), 0, set[bytes](), set[bytes]()
    for _ in range(150):
        what = choose.random()
        if what < 0.3:
            new = bodies(choose.choice((1, 3)), serial)
            serial += len(new)
            core.deposit(queue, *new, expiration=choose.choice((None, "1500")))
        elif what < 0.55:
            reader.get(queue)
        elif what < 0.75 and reader.held:
            body = _body(choose.choice(reader.held))
            how = choose.choice((reader.requeue, reader.reject, reader.ack))
            acked |= {body} if how == reader.ack else set()
            how(body)
        elif what < 0.8:
            core.queue("dead")
            core.advance(RETRY_MILLISECONDS)
        elif what < 0.95:
            core.commit()
            stored = _everywhere(core, queue)
            assert stored | acked == set(bodies(serial)), "something is gone"
        else:
            core.crash()
            queue, reader, acked = again(core), Reader(), set(bodies(serial)) - stored
            assert _everywhere(core, queue) == stored, "a crash changed what was on disk"


def _body(entry: Entry) -> bytes:
    assert entry.message is not None
    return entry.message.body


def _everywhere(core: Core, queue: QuorumQueue) -> set[bytes]:
    """The bodies that the store has of both queues, each of them once."""
    found: list[bytes] = []
    for name, lanes in (("q", (0, 1)), ("dead", (0,))):
        known = core.vhost.queues.get(name)
        for lane in lanes if known is not None else ():
            assert known is not None
            found += [m.body for m in core.store.read(known.store.queue_id, lane, 0, 1 << 64, 1 << 20, 1 << 30)]
    assert len(found) == len(set(found)), "a message is in two places"
    return set(found)
