"""How long messages waited, beside the same worked out event by event."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from leveret_spark.events.event_log_reader import Event
from tests.pipeline.inputs.made_up_events import History, begun, table_of
from tests.pipeline.inputs.random_brokers import MINUTE_US, Commotion, commotions_of, minute_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

SEEDS = (1, 2)
CONFIRM, DELIVER, ACK = "publish_to_confirm", "publish_to_deliver", "deliver_to_ack"

Key = tuple[str, str | None, int, str]
"""Node, queue, number of the minute, stage."""


class Found(NamedTuple):
    """The two tables: by minute, and in all with 0 for the minute."""

    by_minute: dict[Key, Any]
    in_all: dict[Key, Any]


def durations_of(events: list[Event]) -> dict[Key, list[int]]:
    """Event by event, in microseconds."""
    found: dict[Key, list[int]] = defaultdict(list)
    published: dict[int | None, int] = {}
    reached: dict[int | None, set[str | None]] = defaultdict(set)
    new: dict[tuple[Any, ...], int | None] = {}
    out: dict[tuple[Any, ...], tuple[str, int, int]] = {}

    def note(stage: str, queue: str | None, event: Event, began_us: int) -> None:
        found[event.node, queue, event.ts_us // MINUTE_US, stage].append(event.ts_us - began_us)

    for event in events:
        place = event.queue, event.position
        match event.kind:
            case "publish":
                published[event.msg_id] = event.ts_us
            case "route":
                reached[event.msg_id].add(event.queue)
                new[place] = event.msg_id
            case "confirm":
                for queue in reached[event.msg_id]:
                    note(CONFIRM, queue, event, published[event.msg_id])
            case "deliver":
                number = new.pop(place, None)
                if not event.redelivered and number in published:
                    note(DELIVER, event.queue, event, published[number])
            case "ack" if event.reason is None:
                kind, boot, began_us = out.get(place, ("", 0, 0))
                if (kind, boot) == ("deliver", event.boot):
                    note(ACK, event.queue, event, began_us)
        if event.kind in ("deliver", "requeue"):
            out[place] = event.kind, event.boot, event.ts_us
    return found


def nearest_rank(ordered: list[int], percent: int) -> float:
    return ordered[math.ceil(len(ordered) * percent / 100) - 1] / 1000


def stories() -> list[History]:
    return [clock_set_back(), no_queue(), redeliveries(), streams(), beyond_a_restart(), many()]


@pytest.fixture(scope="module")
def commotions() -> list[Commotion]:
    return commotions_of(SEEDS)


@pytest.fixture(scope="module")
def told(spark: SparkSession, commotions: list[Commotion]) -> Found:
    from pipeline.audit.log_coverage import deduplicated
    from pipeline.latency import durations, latency, latency_in_all

    table = table_of(spark, [*(each.history for each in commotions), *stories()])
    measured = durations(deduplicated(table)).cache()

    return Found(
        {(row.node, row.queue, minute_of(row), row.stage): row for row in latency(measured).collect()},
        {(row.node, row.queue, 0, row.stage): row for row in latency_in_all(measured).collect()},
    )


def test_durations_are_what_they_are_event_by_event(commotions: list[Commotion], told: Found) -> None:
    for commotion in commotions:
        expected = durations_of(commotion.history.events)
        found = {key: row for key, row in told.by_minute.items() if key[0] == commotion.history.node}
        assert {key[3] for key in found} == {CONFIRM, DELIVER, ACK}
        assert {key: row.n for key, row in found.items()} == {key: len(each) for key, each in expected.items()}
        for key, row in found.items():
            ordered = sorted(expected[key])
            assert (row.negative, row.max_ms) == (0, ordered[-1] / 1000)
            assert [row.p50_ms, row.p95_ms, row.p99_ms] == [nearest_rank(ordered, each) for each in (50, 95, 99)]


def test_in_all_means_over_all_minutes(commotions: list[Commotion], told: Found) -> None:
    in_all: dict[Key, list[int]] = defaultdict(list)
    for commotion in commotions:
        for (node, queue, _, stage), each in durations_of(commotion.history.events).items():
            in_all[node, queue, 0, stage] += each
    for key, durations in in_all.items():
        row = told.in_all[key]
        assert (row.n, row.p95_ms, row.max_ms) == (
            len(durations),
            nearest_rank(sorted(durations), 95),
            max(durations) / 1000,
        )


def of_story(told: Found, node: str) -> dict[tuple[str | None, str], Any]:
    return {(queue, stage): row for (at, queue, _, stage), row in told.in_all.items() if at == node}


def clock_set_back() -> History:
    history = begun("clock")
    first, second = history.publish(), history.publish()
    history.deliver(first)
    history.wait(-10)
    history.deliver(second)
    history.of("ack", first)
    history.of("ack", second)
    return history


def test_what_the_clock_spoils_is_counted_and_not_measured(told: Found) -> None:
    rows = of_story(told, "clock")
    assert [(rows["q", stage].n, rows["q", stage].negative) for stage in (DELIVER, ACK)] == [(1, 1), (1, 1)]
    assert [rows["q", DELIVER].max_ms, rows["q", ACK].max_ms] == [6, 2]


def no_queue() -> History:
    history = begun("no queue")
    history.tell("publish", msg_id=1 << 40 | 5, size_bytes=1)
    history.wait(2)
    history.tell("confirm", msg_id=1 << 40 | 5)
    return history


def test_a_message_that_reaches_no_queue_is_confirmed_too(told: Found) -> None:
    rows = of_story(told, "no queue")
    assert {key: row.max_ms for key, row in rows.items()} == {(None, CONFIRM): 2001}


def redeliveries() -> History:
    """Out, back, and out again; what was delivered without an acknowledgement; a second delivery that was missed."""
    history = begun("redeliveries")
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
    return history


def test_an_acknowledgement_is_of_the_last_delivery(told: Found) -> None:
    rows = of_story(told, "redeliveries")
    assert (rows["q", DELIVER].n, rows["q", DELIVER].max_ms) == (3, 3)
    assert (rows["q", ACK].n, rows["q", ACK].max_ms) == (1, 1001)


def streams() -> History:
    """One place, read twice; then used again by another message."""
    history = begun("stream", kind="stream")
    for number in (1, 2):
        history.tell("publish", msg_id=1 << 40 | number, size_bytes=1)
        history.tell("route", queue="q", msg_id=1 << 40 | number, position=0, persistent=True)
        history.wait(number)
        for _ in range(2):
            history.tell("deliver", queue="q", position=0, redelivered=False)
            history.tell("ack", queue="q", position=0)
    return history


def test_of_a_stream_first_deliveries_are_measured(told: Found) -> None:
    rows = of_story(told, "stream")
    assert rows.keys() == {("q", DELIVER)}
    assert (rows["q", DELIVER].n, rows["q", DELIVER].p50_ms, rows["q", DELIVER].max_ms) == (2, 1002, 2002)


def beyond_a_restart() -> History:
    """The time without a broker counts for who waited; an acknowledgement is of no delivery before it."""
    history = begun("restart")
    waiting, out = history.publish(), history.publish()
    history.deliver(out)
    history.wait(100)
    history.start()
    history.recorded(waiting, out)
    history.deliver(waiting)
    history.of("ack", out)
    return history


def test_durations_go_on_over_a_restart(told: Found) -> None:
    rows = of_story(told, "restart")
    assert rows["q", DELIVER].max_ms > 100_000
    assert ("q", ACK) not in rows


def many() -> History:
    """Enough that percentiles are not all the same."""
    history = begun("many")
    for each in range(1, 1001):
        history.tell("publish", msg_id=1 << 40 | each, size_bytes=1)
        history.tell("route", queue="q", msg_id=1 << 40 | each, position=1 << 40 | each, persistent=True)
        history.clock_us += each * 1000 - 2000
        history.tell("confirm", msg_id=1 << 40 | each)
    return history


def test_percentiles_are_durations_that_occurred(told: Found) -> None:
    row = of_story(told, "many")["q", CONFIRM]
    assert (row.n, row.p50_ms, row.p95_ms, row.p99_ms, row.max_ms) == (1000, 500, 950, 990, 1000)
