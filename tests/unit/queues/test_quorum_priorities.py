"""Priorities of quorum queues over a real store, in virtual time: 4.3 as measured on 4.3.6, 4.2 from its source."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from broker.entities.arguments.personality import PERSONALITIES
from broker.entities.queues.quorum.quorum_queue import QuorumQueue
from harness.brokers.broker_core import Core, Reader, message
from storage.offline.verify_messages import verify

Started = Callable[[str], Core]


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Started]:
    """A function that starts a broker of a series, on the same data each time."""
    cores: list[Core] = []

    def start(series: str) -> Core:
        before = cores[-1] if cores else None
        if before is not None:
            before.commit()
            before.close()
        definitions = None if before is None else before.definitions
        cores.append(Core(tmp_path / "messages", definitions=definitions, personality=PERSONALITIES[series]))
        return cores[-1]

    yield start
    cores[-1].commit()
    cores[-1].close()
    assert verify(tmp_path / "messages").problems == []


def quorum(core: Core, **arguments: Any) -> QuorumQueue:
    """Declare the queue q, or find it as it came back."""
    queue = core.vhost.queues.get("q") or core.queue("q", queue_type="quorum", **arguments)
    assert isinstance(queue, QuorumQueue)
    return queue


def fill(core: Core, queue: QuorumQueue, words: str, **properties: Any) -> None:
    """Publish messages: `a9` has priority 9, `a` none."""
    for word in words.split():
        core.deposit(queue, word.encode(), priority=int(word[1:]) if word[1:] else None, **properties)


def taken(queue: QuorumQueue) -> str:
    return b" ".join(Reader().drain(queue)).decode()


# Two levels


@pytest.mark.parametrize(
    ("published", "expected"),
    [
        ("a1 b2 c3 d9 e9 f9 g9", "d9 e9 a1 f9 g9 b2 c3"),
        ("a9 b9 c9 d1 e1", "a9 b9 c9 d1 e1"),
        ("a9 b1 c9 d9 e9 f1", "a9 c9 b1 d9 e9 f1"),
        ("a5 b4 c d255 e0", "a5 d255 b4 c e0"),
        ("a b c", "a b c"),
    ],
)
def test_two_of_high_priority_then_one_of_the_others(started: Started, published: str, expected: str) -> None:
    """An older high one goes first all the same."""
    core = started("4.2")
    queue = quorum(core)
    fill(core, queue, published)
    assert taken(queue) == expected


def test_messages_count_whichever_level_they_are_of(started: Started) -> None:
    core = started("4.2")
    queue = quorum(core)
    fill(core, queue, "a1 b1")
    assert taken(queue) == "a1 b1"
    fill(core, queue, "c1 d9 e9")
    assert taken(queue) == "c1 d9 e9"


def two_levels(published: Sequence[tuple[int, bool]]) -> list[int]:
    """Return the order in which rabbit_fifo_q of v4.2.9 hands out messages: their numbers, and whether each is high."""
    levels = {high: [number for number, is_high in published if is_high == high] for high in (True, False)}
    order, count = list[int](), 0
    while levels[True] or levels[False]:
        high = bool(levels[True])
        if levels[True] and levels[False] and count == 2:
            high = levels[True][0] < levels[False][0]
        order.append(levels[high].pop(0))
        count = (count + 1) % 3
    return order


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("consumed", [False, True])
def test_two_levels_whatever_comes(started: Started, seed: int, consumed: bool) -> None:
    chance, core = Random(seed), started("4.2")
    queue, reader = quorum(core), Reader()
    published = [(number, chance.random() < 0.4) for number in range(40)]
    for number, high in published:
        core.deposit(queue, b"%d" % number, priority=9 if high else 1)
    core.commit()
    if consumed:
        reader.consume(queue, no_ack=True)
        core.end_turn()
    found = reader.bodies if consumed else reader.drain(queue)
    assert list(map(int, found)) == two_levels(published)


# Other levels, on disk


def test_each_priority_is_paged_by_itself(started: Started) -> None:
    """The window is four messages; the highest is first over a restart, too."""
    core = started("4.3")
    queue = quorum(core)
    words = [f"{letter}{priority}" for letter in "abcdefgh" for priority in (0, 4, 31)]
    fill(core, queue, " ".join(words))
    assert queue.ready_by_priority == {0: 8, 4: 8, 31: 8}
    expected = " ".join(f"{letter}{priority}" for priority in (31, 4, 0) for letter in "abcdefgh")
    core.commit()
    core.crash()
    queue = quorum(core)
    assert (queue.ready, queue.ready_by_priority) == (24, {0: 8, 4: 8, 31: 8})
    assert taken(queue) == expected


def test_counts_are_kept_with_their_priorities(started: Started) -> None:
    core = started("4.3")
    queue, reader = quorum(core), Reader()
    fill(core, queue, "a0 b9 c31 d")
    for _ in range(2):
        reader.drain(queue, no_ack=False)
        reader.requeue()
    core.restart()
    queue, reader = quorum(core), Reader()
    assert b" ".join(reader.drain(queue, no_ack=False)).decode() == "c31 b9 d a0"
    assert [entry.deliveries for entry in reader.held] == [3] * 4


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("3.13", "4.3", "y9 a9 b z x1"),
        ("3.13", "4.2", "y9 a9 b x1 z"),
        ("4.2", "4.3", "a9 y9 b z x1"),
        ("4.3", "4.2", "a9 y9 b x1 z"),
        ("4.3", "3.13", "a9 b x1 y9 z"),
        ("4.2", "3.13", "a9 b x1 y9 z"),
    ],
)
def test_another_series_finds_every_message(started: Started, before: str, after: str, expected: str) -> None:
    """As an upgrade of RabbitMQ: messages of 3.13 have priority 4, high ones of 4.2 have 9."""
    core = started(before)
    fill(core, quorum(core), "a9 b")
    core = started(after)
    queue = quorum(core)
    fill(core, queue, "x1 y9 z")
    assert taken(queue) == expected


def test_high_ones_of_4_2_stay_high(started: Started) -> None:
    core = started("4.2")
    fill(core, quorum(core), "a5 b255 c1")
    core = started("4.3")
    queue = quorum(core)
    fill(core, queue, "x10 y8")
    assert taken(queue) == "x10 a5 b255 y8 c1"


# Limits


@contextmanager
def buried(core: Core, **arguments: Any) -> Iterator[tuple[QuorumQueue, Callable[[], str]]]:
    """A queue, and a function that takes its dead letters."""
    core.queue("dead")
    queue = quorum(core, dead_letter_exchange="", dead_letter_routing_key="dead", **arguments)
    yield queue, lambda: b" ".join(Reader().drain(core.queue_named("dead"))).decode()


@pytest.mark.parametrize(("series", "dead"), [("4.3", "d31 c9 b1"), ("4.2", ""), ("3.13", "")])
def test_the_first_of_each_priority_expires(started: Started, series: str, dead: str) -> None:
    """In 4.3; before, those behind one that stays are kept. Of those that expire a higher one is first."""
    core = started(series)
    with buried(core) as (queue, dead_letters):
        fill(core, queue, "x9" if series == "4.2" else "x")
        fill(core, queue, "b1 c9 d31", expiration="100")
        core.advance(99)
        assert dead_letters() == ""
        core.advance(1)
        assert dead_letters() == dead
        assert queue.ready == (1 if dead else 4)


def test_one_behind_another_of_its_priority_stays(started: Started) -> None:
    core = started("4.3")
    with buried(core) as (queue, dead_letters):
        fill(core, queue, "a9 b1")
        fill(core, queue, "c9 d1 e0", expiration="100")
        core.advance(100)
        assert dead_letters() == "e0"
        assert taken(queue) == "a9 b1"
        core.advance(1)
        assert dead_letters() == "c9 d1"


def test_the_first_returned_message_expires_too(started: Started) -> None:
    """And before those of priorities."""
    core = started("4.3")
    with buried(core) as (queue, dead_letters):
        fill(core, queue, "a1 b1 x1", expiration="100")
        reader = Reader()
        assert [reader.get(queue), reader.get(queue)] == [b"a1", b"b1"]
        fill(core, queue, "c31", expiration="100")
        reader.requeue()
        core.advance(100)
        assert dead_letters() == "a1 b1 c31 x1"


def test_messages_that_expire_are_looked_for_in_time(started: Started) -> None:
    """The next of any priority, also when it becomes the first."""
    core = started("4.3")
    with buried(core) as (queue, dead_letters):
        fill(core, queue, "a9", expiration="300")
        fill(core, queue, "b1", expiration="200")
        fill(core, queue, "c1", expiration="250")
        fill(core, queue, "d9", expiration="100")
        found = []
        for _ in range(8):
            core.advance(50)
            found.append(dead_letters())
        assert found == ["", "", "", "b1", "c1", "a9 d9", "", ""]


def test_excess_goes_from_the_head(started: Started) -> None:
    """4.2: as it would be delivered. Returned ones are first."""
    core = started("4.2")
    with buried(core, max_length=3) as (queue, dead_letters):
        fill(core, queue, "a1 b9 c9 d9")
        assert dead_letters() == "b9"
        reader = Reader()
        assert reader.get(queue) == b"c9"
        fill(core, queue, "e1")
        reader.requeue()
        assert dead_letters() == "c9"
        assert taken(queue) == "a1 d9 e1"


# Consumers


def test_a_message_goes_to_the_consumer_that_waits(started: Started) -> None:
    """Even if one of higher priority comes in the same turn; what finds no credit is overtaken."""
    core = started("4.3")
    queue, reader = quorum(core), Reader()
    reader.consume(queue, prefetch=2)
    core.end_turn()
    messages = [(b"a1", 1), (b"b1", 1), (b"c1", 1), (b"d9", 9)]

    for body, priority in messages:
        queue.publish(message(body, key="q", priority=priority))
    core.end_turn()
    assert reader.bodies == [b"a1", b"b1"]
    reader.ack(b"a1")
    core.end_turn()
    assert reader.bodies == [b"a1", b"b1", b"d9"]
