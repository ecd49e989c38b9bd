"""Throughput, depth and latency of queues by minute, of made-up histories, each a broker's own; all in one log.

Depths over kills of a real broker are in tests/pipeline/event_log/test_kill_audit.py.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any, NamedTuple

import numpy as np
import pytest

from leveret_events.segment_names import node_name
from pipeline.audit.reduction import Stretch
from pipeline.latency import durations, latency, latency_in_all
from pipeline.packed_events import SECOND, between, bin_seconds, merged, packed
from pipeline.throughput import throughput
from tests.pipeline.inputs.made_up_events import EPOCH, History, begun, export_of

CONFIRM, DELIVER, ACK = "publish_to_confirm", "publish_to_deliver", "deliver_to_ack"
Minute = tuple[str, int]
"""A queue and the number of a minute."""
Stage = tuple[str | None, str]
"""A queue and a stage."""


class Tables(NamedTuple):
    """By node: rows of the throughput; of the latency by minute; of the latency in all."""

    throughput: dict[str, dict[Minute, Any]]
    latency: dict[str, dict[tuple[str | None, int, str], Any]]
    in_all: dict[str, dict[Stage, Any]]


class Story(NamedTuple):
    """Events in a queue `q`, of a kind, and what the tables must have of them.

    All stages that have durations are in `waits`; `waits_by_minute` has some of them by queue, minute and stage.
    """

    kind: str
    events: Callable[[History], None]
    minutes: dict[Minute, dict[str, Any]]
    waits: dict[Stage, dict[str, Any]] | None
    waits_by_minute: dict[tuple[str, int, str], dict[str, Any]]

    def history(self, node: str) -> History:
        """All events, with the beginning of a broker."""
        history = begun(node, kind=self.kind)
        self.events(history)
        return history


STORIES: dict[str, Story] = {}


def story(
    kind: str = "classic",
    *,
    minutes: dict[Minute, dict[str, Any]] | None = None,
    waits: dict[Stage, dict[str, Any]] | None = None,
    waits_by_minute: dict[tuple[str, int, str], dict[str, Any]] | None = None,
) -> Callable[[Callable[[History], None]], Callable[[History], None]]:
    """Have the tables made of these events too."""

    def of(events: Callable[[History], None]) -> Callable[[History], None]:
        STORIES[events.__name__] = Story(kind, events, minutes or {}, waits, waits_by_minute or {})
        return events

    return of


def minute_of(row: dict[str, Any]) -> int:
    """The number of the minute that a row of a table is about."""
    return int((row["begin"] - EPOCH) // timedelta(minutes=1))


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    histories = {node_name(name): (name, story.history(name)) for name, story in STORIES.items()}
    parts = export_of(tmp_path_factory.mktemp("stories"), [history for _, history in histories.values()])
    nodes = [replace(node, width=60 * SECOND) for node in merged(map(packed, parts))]
    measured = [durations(node) for node in nodes]
    found = Tables(defaultdict(dict), defaultdict(dict), defaultdict(dict))
    for row in throughput(nodes).to_pylist():
        found.throughput[histories[row["node"]][0]][row["queue"], minute_of(row)] = row
    for row in latency(measured).to_pylist():
        found.latency[histories[row["node"]][0]][row["queue"], minute_of(row), row["stage"]] = row
    for row in latency_in_all(measured).to_pylist():
        found.in_all[histories[row["node"]][0]][row["queue"], row["stage"]] = row
    return found


ENDS = {"acked": 1, "rejected": 1, "expired": 1, "dropped": 1, "dead_lettered": 1, "requeued": 1}
PUT_OUT = {"published": 5, "bytes_in": 5, "delivered": 4, "redelivered": 1, "redelivery_rate": 0.25}


@story(minutes={("q", 0): {**PUT_OUT, **ENDS, "depth": 1}})
def everything_that_becomes_of_messages(history: History) -> None:
    acked, rejected, expired, dropped, _left = [history.publish() for _ in range(5)]
    history.consume(acked)
    history.deliver(rejected)
    history.of("requeue", rejected)
    history.deliver(rejected, redelivered=True)
    history.of("deadletter", rejected, reason="rejected", exchange="")
    history.of("reject", rejected)
    history.of("expire", expired)
    history.deliver(dropped)
    history.of("drop", dropped)


@story(minutes={("q", 0): {"depth": 1}, ("q", 1): {"depth": 0}, ("q", 2): {"published": 1, "depth": 1}})
def a_purge_and_a_deletion(history: History) -> None:
    """A purge leaves what consumers hold; a queue that is declared again begins empty."""
    held, _, last = [history.publish() for _ in range(3)]
    history.deliver(held)
    history.tell("purge", queue="q", detail=f'{{"below": {last + 1}, "kept": [{held}]}}')
    history.wait(60)
    history.tell("delete", queue="q", detail='{"below": 1, "kept": []}')
    history.wait(60)
    history.declare()
    history.publish()


@story(minutes={("q", 0): {"depth": 2}, ("q", 1): {"depth": 2}, ("q", 2): {"depth": 1}, ("q", 3): {"depth": 1}})
def an_orderly_stop_and_a_kill_of_which_nothing_is_missing(history: History) -> None:
    """At the start some is consumed before all that was there is recorded."""
    first, second = history.publish(), history.publish()
    history.stop(first, second)
    history.start()
    history.wait(60)
    history.recorded(first, second)
    history.wait(60)
    history.start()
    history.deliver(first, redelivered=True)
    history.of("ack", first)
    history.recorded(second)
    history.wait(60)
    history.consume(history.publish())


@story(minutes={("q", 0): {"depth": 2}, ("q", 1): {"depth": None}, ("q", 2): {"depth": 1}})
def a_stop_before_all_that_was_there_is_recorded(history: History) -> None:
    """Messages not recorded at the stop have ended, and the log has its end."""
    first, second = history.publish(), history.publish()
    history.stop(first, second)
    history.start()
    history.wait(60)
    history.consume(first)
    history.wait(60)
    history.stop(second)


@story(minutes={("q", 0): {"depth": 1}, ("q", 1): {"depth": None}, ("q", 2): {"depth": 1}})
def a_kill_of_which_the_last_events_are_missing(history: History) -> None:
    """Nobody knows what was there from the last minute on, until what is there is recorded."""
    there = history.publish()
    history.wait(60)
    history.publish()
    history.start(known=100)
    history.wait(60)
    history.recorded(there)


@story(minutes={("q", minute): {"depth": depth} for minute, depth in enumerate((1, None, None, 0))})
def events_that_were_not_written(history: History) -> None:
    """Nobody knows what was there, until it is purged."""
    history.publish()
    history.wait(60)
    history.publish()
    history.lose(3)
    history.publish()
    history.wait(60)
    last = history.publish()
    history.wait(60)
    history.tell("purge", queue="q", detail=f'{{"below": {last + 1}, "kept": []}}')


@story("quorum", minutes={("q", 0): {"depth": 1, "published": 2}, ("q", 1): {"depth": 1, "published": 2}})
def a_dead_letter_that_waits(history: History) -> None:
    """It is still there, until somebody takes it; it is not the message's way to the end."""
    place = history.publish()
    history.deliver(place)
    history.of("requeue", place)
    moved = history.move(place)
    history.deliver(moved, redelivered=True)
    history.of("reject", moved)
    dead_letter = history.move(place)  # names the message's first place, as the broker does
    history.wait(60)
    history.of("release", dead_letter)
    back = history.publish()
    history.deliver(back)
    history.of("requeue", back, reason="abandoned")
    history.of("reject", back)
    history.move(back)


@story(
    "stream",
    minutes={("q", 0): {"published": 2, "delivered": 4, "depth": None}},
    waits={("q", DELIVER): {"n": 2, "p50_ms": 1002, "max_ms": 2002}},
)
def a_stream(history: History) -> None:
    """One place, read twice, then used again by another message; nobody knows how much is in a stream."""
    for number in (1, 2):
        history.tell("publish", msg_id=1 << 40 | number, size_bytes=1)
        history.tell("route", queue="q", msg_id=1 << 40 | number, position=0, persistent=True)
        history.wait(number)
        for _ in range(2):
            history.tell("deliver", queue="q", position=0, redelivered=False)
            history.tell("ack", queue="q", position=0)
    history.wait(60)
    history.tell("delete", queue="q", detail='{"below": 1, "kept": []}')


@story(minutes={("q", 1): {"published": 1, "depth": 0}, ("q", 2): {"published": 2, "depth": 2}})
def a_minute_that_comes_twice(history: History) -> None:
    history.wait(120)
    history.publish()
    history.wait(-60)
    history.consume(history.publish())
    history.wait(60)
    history.publish()


@story(minutes={("q", 0): {"depth": None}, ("new", 0): {"depth": 1}})
def the_beginning_of_a_boot_is_missing(history: History) -> None:
    """Nobody knows the contents of a queue before the oldest segment left; those of a queue created later are known."""
    history.lose(10)
    history.events.clear()
    history.publish()
    history.declare("new")
    history.publish("new")


@story(minutes={("q", 0): {"published": 2, "bytes_in": 1000}, ("other", 0): {"published": 1, "bytes_in": 1000}})
def bytes_in_each_queue_that_a_message_reaches(history: History) -> None:
    """One message has only its way into the queue known, one is known whole."""
    history.tell("route", queue="q", msg_id=1 << 40 | 77, position=1 << 40 | 77, persistent=True)
    number = 1 << 40 | 78
    history.tell("publish", msg_id=number, size_bytes=1000, persistent=True)
    for queue in ("q", "other"):
        history.tell("route", queue=queue, msg_id=number, position=number, persistent=True)


@story(
    waits={
        ("q", CONFIRM): {"n": 2, "negative": 0},
        ("q", DELIVER): {"n": 1, "negative": 1, "max_ms": 6},
        ("q", ACK): {"n": 1, "negative": 1, "max_ms": 2},
    }
)
def what_the_clock_spoils_is_counted_and_not_measured(history: History) -> None:
    first, second = history.publish(), history.publish()
    history.deliver(first)
    history.wait(-10)
    history.deliver(second)
    history.of("ack", first)
    history.of("ack", second)


@story(waits={(None, CONFIRM): {"n": 1, "max_ms": 2001}})
def a_message_that_reaches_no_queue_is_confirmed_too(history: History) -> None:
    history.tell("publish", msg_id=1 << 40 | 5, size_bytes=1)
    history.wait(2)
    history.tell("confirm", msg_id=1 << 40 | 5)


@story(waits={("q", CONFIRM): {"n": 3}, ("q", DELIVER): {"n": 3, "max_ms": 3}, ("q", ACK): {"n": 1, "max_ms": 1001}})
def an_acknowledgement_is_of_the_last_delivery(history: History) -> None:
    """Out, back, and out again; what was delivered without an acknowledgement; a second delivery that was missed."""
    message = history.publish()
    history.deliver(message)
    history.wait(5)
    history.of("requeue", message)
    history.wait(5)
    history.deliver(message, redelivered=True)
    history.wait(1)
    history.of("ack", message)
    automatic = history.publish()
    history.deliver(automatic)
    history.of("ack", automatic, reason="automatic")
    missed = history.publish()
    history.deliver(missed)
    history.of("requeue", missed)
    history.lose(1)
    history.of("ack", missed)


@story(
    waits={("q", CONFIRM): {"n": 2}, ("q", DELIVER): {"n": 2, "max_ms": 100_011}},
    waits_by_minute={
        ("q", 0, DELIVER): {"n": 1, "negative": 0, "p50_ms": 3},
        ("q", 1, DELIVER): {"n": 1, "p99_ms": 100_011},
    },
)
def durations_go_on_over_a_restart(history: History) -> None:
    """The time without a broker counts for who waited; an acknowledgement is of no delivery before it."""
    waiting, out = history.publish(), history.publish()
    history.deliver(out)
    history.wait(100)
    history.start()
    history.recorded(waiting, out)
    history.deliver(waiting)
    history.of("ack", out)


@story(waits={("q", CONFIRM): {"n": 100, "p50_ms": 50, "p95_ms": 95, "p99_ms": 99, "max_ms": 100}})
def percentiles_are_durations_that_occurred(history: History) -> None:
    for each in range(1, 101):
        history.tell("publish", msg_id=1 << 40 | each, size_bytes=1)
        history.tell("route", queue="q", msg_id=1 << 40 | each, position=1 << 40 | each, persistent=True)
        history.clock_us += each * 1000 - 2000
        history.tell("confirm", msg_id=1 << 40 | each)


@pytest.mark.parametrize("name", STORIES)
def test_a_story_is_counted_and_measured(tables: Tables, name: str) -> None:
    _, _, minutes, waits, waits_by_minute = STORIES[name]
    for place, values in minutes.items():
        assert {column: tables.throughput[name][place][column] for column in values} == values
    for place, values in waits_by_minute.items():
        assert {column: tables.latency[name][place][column] for column in values} == values
    if waits is not None:
        assert tables.in_all[name].keys() == waits.keys()
        for stage, values in waits.items():
            assert {column: tables.in_all[name][stage][column] for column in values} == values


@pytest.mark.parametrize(
    ("since", "until", "chosen"),
    [(None, None, [0, 1, 2, 3, 4]), (1.5, 3, [1, 2]), (None, 3.1, [0, 1, 2, 3])],
)
def test_times_select_whole_bins(since: float | None, until: float | None, chosen: list[int]) -> None:
    times = [None if each is None else round(each * 60 * SECOND) for each in (since, until)]
    begin = np.arange(5) * 60 * SECOND
    assert np.flatnonzero(between(begin, 60 * SECOND, *times)).tolist() == chosen


@pytest.mark.parametrize(("seconds", "width"), [(0, 1), (360, 1), (361, 2), (7000, 20), (7200, 20), (90_000, 60)])
def test_bins_are_as_wide_as_the_log_is_long(seconds: int, width: int) -> None:
    assert bin_seconds([Stretch(1, 1, 2, 0, seconds * SECOND)]) == width
