"""What went through queues and how many messages were in them, beside what made-up brokers know of it."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from leveret_spark.events.event_log_reader import Event
from tests.pipeline.inputs.made_up_events import EPOCH, History, begun, table_of
from tests.pipeline.inputs.random_brokers import MINUTE_US, Commotion, commotions_of, minute_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

SEEDS = (1, 2, 3)
COUNTED = {
    "deliver": "delivered",
    "ack": "acked",
    "requeue": "requeued",
    "reject": "rejected",
    "expire": "expired",
    "drop": "dropped",
    "deadletter": "dead_lettered",
}

Rows = dict[tuple[str, str, int], Any]


def rows_of(spark: SparkSession, histories: list[History]) -> Rows:
    """The table, by node, queue and number of the minute."""
    from pipeline.audit.log_coverage import boots, deduplicated, gaps
    from pipeline.throughput import throughput

    events = deduplicated(table_of(spark, histories)).cache()
    lives = boots(events)
    rows = throughput(events, lives, gaps(events, lives)).collect()
    return {(row.node, row.queue, minute_of(row)): row for row in rows}


@pytest.fixture(scope="module")
def commotions() -> list[Commotion]:
    return commotions_of(SEEDS)


@pytest.fixture(scope="module")
def told(spark: SparkSession, commotions: list[Commotion]) -> Rows:
    stories = [letters(), stream(), clock_set_back(), beginning_missing(), sizes()]
    return rows_of(spark, [*(each.history for each in commotions), *stories])


def counted(events: list[Event]) -> Counter[tuple[str, int, str]]:
    """How many events of each kind a queue has had in a minute. A second route of a message to a queue is a move."""
    counts: Counter[tuple[str, int, str]] = Counter()
    for event in events:
        if event.queue is None:
            continue
        place = event.queue, event.ts_us // MINUTE_US
        if event.kind in COUNTED:
            counts[*place, COUNTED[event.kind]] += 1
        if event.kind == "deliver" and event.redelivered:
            counts[*place, "redelivered"] += 1
        if event.kind == "route" and event.position == event.msg_id:
            counts[*place, "published"] += 1
            counts[*place, "bytes_in"] += 1
    return counts


def test_depths_are_what_the_broker_had(commotions: list[Commotion], told: Rows) -> None:
    for commotion in commotions:
        node = commotion.history.node
        found = {(queue, minute): row.depth for (at, queue, minute), row in told.items() if at == node}
        assert found == commotion.depths
        known = [depth for depth in commotion.depths.values() if depth is not None]
        assert len(known) > len(commotion.depths) / 4
        assert len(known) < len(commotion.depths)


def test_events_are_counted_by_queue_and_minute(commotions: list[Commotion], told: Rows) -> None:
    for commotion in commotions:
        expected = counted(commotion.history.events)
        found: Counter[tuple[str, int, str]] = Counter()
        for (node, queue, minute), row in told.items():
            if node == commotion.history.node:
                names = ("published", "bytes_in", "redelivered", *COUNTED.values())
                found.update({(queue, minute, name): row[name] for name in names if row[name]})
                rate = row.redelivered / row.delivered if row.delivered else None
                assert row.redelivery_rate == rate
        assert found == expected


def letters() -> History:
    """A dead letter that nobody takes is still there, until somebody does; it is not the message's way to the end."""
    history = begun("letters", kind="quorum")
    place = history.publish()
    history.deliver(place)
    history.of("requeue", place)
    moved = history.move(place)
    history.deliver(moved, redelivered=True)
    history.of("reject", moved)
    letter = history.move(place)  # names the message's first place, as the broker does
    history.wait(60)
    history.of("release", letter)
    back = history.publish()
    history.deliver(back)
    history.of("requeue", back, reason="abandoned")
    history.of("reject", back)
    history.move(back)
    return history


def test_a_dead_letter_that_waits_is_there(told: Rows) -> None:
    rows = told["letters", "q", 0], told["letters", "q", 1]
    assert [(row.depth, row.published) for row in rows] == [(1, 2), (1, 2)]


def stream() -> History:
    history = begun("stream", kind="stream")
    history.tell("route", queue="q", msg_id=1 << 40 | 1, position=0, persistent=True)
    history.tell("deliver", queue="q", position=0, redelivered=False)
    history.wait(60)
    history.tell("delete", queue="q", detail='{"below": 1, "kept": []}')
    return history


def test_nobody_knows_how_much_is_in_a_stream(told: Rows) -> None:
    row = told["stream", "q", 0]
    assert (row.published, row.delivered, row.depth) == (1, 1, None)


def clock_set_back() -> History:
    history = begun("clock")
    history.wait(120)
    history.publish()
    history.wait(-60)
    history.consume(history.publish())
    history.wait(60)
    history.publish()
    return history


def test_a_minute_that_comes_twice_is_one(told: Rows) -> None:
    assert [(told["clock", "q", minute].published, told["clock", "q", minute].depth) for minute in (1, 2)] == [
        (1, 0),
        (2, 2),
    ]


def beginning_missing() -> History:
    """Where the oldest segments have gone nobody knows what was there; of what comes into being later one does."""
    history = begun("oldest gone")
    history.lose(10)
    history.events.clear()
    history.publish()
    history.declare("new")
    history.publish("new")
    return history


def test_without_the_beginning_of_a_boot_only_new_queues_are_known(told: Rows) -> None:
    assert (told["oldest gone", "q", 0].depth, told["oldest gone", "new", 0].depth) == (None, 1)


def sizes() -> History:
    """A message of which only the way into the queue is known, and one that is known whole."""
    history = begun("sizes")
    history.tell("route", queue="q", msg_id=1 << 40 | 77, position=1 << 40 | 77, persistent=True)
    number = 1 << 40 | 78
    history.tell("publish", msg_id=number, size_bytes=1000, persistent=True)
    for queue in ("q", "other"):
        history.tell("route", queue=queue, msg_id=number, position=number, persistent=True)
    return history


def test_bytes_count_in_each_queue_that_a_message_reaches(told: Rows) -> None:
    rows = told["sizes", "q", 0], told["sizes", "other", 0]
    assert [(row.published, row.bytes_in) for row in rows] == [(2, 1000), (1, 1000)]


def test_times_select_whole_minutes(spark: SparkSession) -> None:
    from pipeline.minutes import between

    rows = spark.createDataFrame(
        [(EPOCH + timedelta(minutes=each), each) for each in range(5)], "minute timestamp, id int"
    )

    def found(since: float | None, until: float | None) -> list[int]:
        moments = [None if each is None else EPOCH + timedelta(minutes=each) for each in (since, until)]
        return [row.id for row in between(rows, *moments).orderBy("id").collect()]

    assert found(None, None) == [0, 1, 2, 3, 4]
    assert found(1.5, 3) == [1, 2]
    assert found(None, 3.1) == [0, 1, 2, 3]
