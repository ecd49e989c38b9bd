"""The audit of made-up histories: it finds exactly what was planted, and concludes nothing across a gap.

Each story is that of a broker of its own. All are judged by one job, as a table with many nodes would be.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from harness.event_logs import plain_audit
from harness.event_logs.made_up_log import write
from tests.pipeline.inputs.made_up_events import History, table_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

Place = tuple[str, int]
Gap = tuple[str, int, int, int | None, bool]
"""Kind, boot, after, lost, doubtful."""


class Expected(NamedTuple):
    """What the audit is to find: a verdict, and violations behind it, for each message in a queue; the gaps."""

    verdicts: dict[Place, tuple[str, ...]]
    gaps: tuple[Gap, ...] = ()


Story = Callable[[History], Expected]
STORIES: dict[str, Story] = {}


def story(told: Story) -> Story:
    """A history of a broker that begins empty, and what is to be found in it."""
    STORIES[told.__name__] = told
    return told


class Found(NamedTuple):
    """What the audit found in one story."""

    rows: dict[Place, Any]
    gaps: list[Gap]


@pytest.fixture(scope="module")
def audited(spark: SparkSession) -> tuple[dict[str, Expected], dict[str, Found]]:
    from pipeline.audit.log_coverage import boots, deduplicated, gaps
    from pipeline.audit.verdicts import judged

    expected, histories = {}, []
    for name, told in STORIES.items():
        history = History(name)
        history.start()
        history.declare()
        history.recorded()
        expected[name] = told(history)
        histories.append(history)
    events = deduplicated(table_of(spark, histories)).persist()
    lives = boots(events).persist()
    missing = gaps(events, lives).persist()
    found: dict[str, Found] = {name: Found({}, []) for name in STORIES}
    for row in judged(events, lives, missing).collect():
        found[row.node].rows[row.queue, row.position] = row
    for row in missing.orderBy("boot", "after").collect():
        found[row.node].gaps.append((row.kind, row.boot, row.after, row.lost, row.doubtful))
    return expected, found


KILLED = ("end of a boot", 1, 6, 0, False)


@story
def sound(history: History) -> Expected:
    consumed, waiting, both = history.publish(), history.publish(), history.publish("q", "other")
    history.consume(consumed)
    history.consume(both)
    history.of("queued", both, "other")
    history.stop(waiting)
    return Expected(
        {
            ("q", consumed): ("settled",),
            ("q", waiting): ("queued",),
            ("q", both): ("settled",),
            ("other", both): ("queued",),
        }
    )


@story
def gone_at_the_next_start(history: History) -> Expected:
    lost, unconfirmed, transient = history.publish(), history.publish(confirmed=False), history.publish(kept=False)
    kept = history.publish()
    history.start()
    history.recorded(kept)
    return Expected(
        {
            ("q", lost): ("lost",),
            ("q", unconfirmed): ("not confirmed",),
            ("q", transient): ("not kept",),
            ("q", kept): ("queued",),
        },
        (("end of a boot", 1, 14, 0, False),),
    )


@story
def gone_at_an_orderly_stop(history: History) -> Expected:
    lost = history.publish()
    history.deliver(lost)
    history.stop()
    return Expected({("q", lost): ("lost",)})


@story
def stopped_without_time_to_record_everything(history: History) -> Expected:
    waiting = history.publish()
    history.stop(complete=False)
    return Expected({("q", waiting): ("queued",)})


@story
def killed_and_the_lost_end_had_reached_the_disk(history: History) -> Expected:
    before = history.publish()
    history.start(known=100)
    history.recorded()
    return Expected({("q", before): ("unknown",)}, (("end of a boot", 1, 6, 94, True),))


@story
def killed_and_the_lost_end_had_not_reached_the_disk(history: History) -> Expected:
    before = history.publish()
    history.start(known=5)
    history.recorded()
    return Expected({("q", before): ("lost",)}, (KILLED,))


@story
def events_that_were_not_written(history: History) -> Expected:
    before = history.publish()
    history.lose(3)
    after = history.publish()
    history.start()
    history.recorded()
    return Expected(
        {("q", before): ("unknown",), ("q", after): ("lost",)},
        (("events not written", 1, 6, 3, True), ("end of a boot", 1, 12, 0, False)),
    )


@story
def boots_without_a_log(history: History) -> Expected:
    before = history.publish()
    history.stop(before)
    history.start(after=3)
    history.recorded()
    return Expected({("q", before): ("unknown",)}, (("boots without a log", 2, 0, None, True),))


@story
def killed_and_the_next_start_too(history: History) -> Expected:
    """That one may have noted how far its log had come, and with that overwritten how far this one had."""
    before = history.publish()
    history.start(known=0, after=2)
    history.recorded()
    gaps = ("end of a boot", 1, 6, None, True), ("boots without a log", 2, 0, None, True)
    return Expected({("q", before): ("unknown",)}, gaps)


@story
def a_start_that_was_cut_short(history: History) -> Expected:
    """It is no full record: the next one is."""
    there, lost = history.publish(), history.publish()
    history.start()
    history.start()
    history.recorded(there)
    gaps = ("end of a boot", 1, 9, 0, False), ("end of a boot", 2, 1, 0, False)
    return Expected({("q", there): ("queued",), ("q", lost): ("lost",)}, gaps)


@story
def an_ack_that_was_on_disk(history: History) -> Expected:
    """It may not come undone."""
    twice, once = history.publish(), history.publish()
    history.consume(twice)
    history.consume(once)
    history.start()
    history.recorded()
    history.deliver(twice, redelivered=True)
    history.of("ack", twice)
    return Expected(
        {("q", twice): ("settled", "delivered after its end"), ("q", once): ("settled",)},
        (("end of a boot", 1, 13, 0, False),),
    )


@story
def an_ack_that_was_not_on_disk(history: History) -> Expected:
    """It may come undone."""
    message, again = history.publish(), history.publish()
    history.consume(message)
    history.consume(again)
    history.start(known=9)
    history.recorded(message, again)
    history.deliver(message, redelivered=True)
    history.of("ack", message)
    history.stop(again)
    return Expected({("q", message): ("settled",), ("q", again): ("queued",)}, (("end of a boot", 1, 13, 0, False),))


@story
def new_twice(history: History) -> Expected:
    twice = history.publish()
    history.deliver(twice)
    history.deliver(twice)
    history.of("ack", twice)
    return Expected({("q", twice): ("settled", "delivered twice as new")})


@story
def behind_a_later_one(history: History) -> Expected:
    first, second, third = history.publish(), history.publish(), history.publish()
    for message in (second, first, third):
        history.consume(message)
    return Expected(
        {("q", first): ("settled", "out of order"), ("q", second): ("settled",), ("q", third): ("settled",)}
    )


@story
def no_order_is_asked_of_priorities_nor_of_what_came_back(history: History) -> Expected:
    history.declare("levels", max_priority=9)
    low, high = history.publish("levels"), history.publish("levels")
    history.consume(high, "levels")
    history.consume(low, "levels")
    first, second = history.publish(), history.publish()
    history.deliver(first)
    history.deliver(second)
    history.of("requeue", first)
    history.deliver(first, redelivered=True)
    return Expected(
        {
            ("levels", low): ("settled",),
            ("levels", high): ("settled",),
            ("q", first): ("queued",),
            ("q", second): ("queued",),
        }
    )


@story
def purged(history: History) -> Expected:
    """What consumers held stays; what came later is not taken, nor what is in another queue."""
    taken, held = history.publish(), history.publish()
    history.deliver(held)
    history.tell("purge", queue="q", detail=f'{{"below": {held + 1}, "kept": [{held}]}}')
    later, other = history.publish(), history.publish("other")
    history.stop(held)
    return Expected(
        {
            ("q", taken): ("settled",),
            ("q", held): ("queued",),
            ("q", later): ("lost",),
            ("other", other): ("lost",),
        }
    )


@story
def gone_before_its_queue_was_purged(history: History) -> Expected:
    """What came later than its absence has not ended it."""
    lost, there = history.publish(), history.publish()
    history.start()
    history.recorded(there)
    history.tell("purge", queue="q", detail=f'{{"below": {there + 1}, "kept": []}}')
    return Expected({("q", lost): ("lost",), ("q", there): ("settled",)}, (("end of a boot", 1, 9, 0, False),))


@story
def there_at_the_start_and_gone_at_the_stop(history: History) -> Expected:
    lost, there = history.publish(), history.publish()
    history.start()
    history.recorded(lost, there)
    history.stop(there)
    return Expected({("q", lost): ("lost",), ("q", there): ("queued",)}, (("end of a boot", 1, 9, 0, False),))


@story
def to_the_end_of_a_quorum_queue(history: History) -> Expected:
    history.declare("quorum", kind="quorum")
    places = [history.publish("quorum")]
    for _ in range(5):
        history.deliver(places[-1], "quorum", redelivered=len(places) > 1)
        history.of("requeue", places[-1], "quorum")
        places.append(history.move(places[-1], "quorum"))
    history.stop(places[-1], queue="quorum")
    ended: dict[Place, tuple[str, ...]] = {("quorum", place): ("settled",) for place in places}
    return Expected({**ended, ("quorum", places[-1]): ("queued",)})


@story
def a_move_that_came_undone(history: History) -> Expected:
    """It was not on disk when the broker was killed: the message is where it was, and no other is lost."""
    history.declare("quorum", kind="quorum")
    place = history.publish("quorum")
    history.deliver(place, "quorum")
    history.of("requeue", place, "quorum")
    moved = history.move(place, "quorum")
    history.start(known=8)
    history.recorded(place, queue="quorum")
    history.deliver(place, "quorum", redelivered=True)
    history.of("ack", place, "quorum")
    return Expected(
        {("quorum", place): ("settled",), ("quorum", moved): ("not confirmed",)},
        (("end of a boot", 1, 10, 0, False),),
    )


@story
def a_dead_letter_that_is_gone(history: History) -> Expected:
    """Nobody has confirmed it, but its message has left for it, and that was on disk."""
    message = history.publish()
    history.deliver(message)
    letter = history.die(message, "q", "dead")
    history.start()
    history.recorded()
    return Expected({("q", message): ("settled",), ("dead", letter): ("lost",)}, (("end of a boot", 1, 11, 0, False),))


@story
def a_dead_letter_that_was_not_on_disk(history: History) -> Expected:
    """Its message is there again."""
    message = history.publish()
    history.deliver(message)
    letter = history.die(message, "q", "dead")
    history.start(known=7)
    history.recorded(message)
    history.consume(message)
    return Expected(
        {("q", message): ("settled",), ("dead", letter): ("not confirmed",)},
        (("end of a boot", 1, 11, 0, False),),
    )


@story
def there_again_and_nobody_is_given_it(history: History) -> Expected:
    message = history.publish()
    history.consume(message)
    history.start()
    history.recorded(message)
    return Expected({("q", message): ("settled", "there again after its end")}, (("end of a boot", 1, 8, 0, False),))


@story
def told_twice(history: History) -> Expected:
    message = history.publish()
    history.consume(message)
    history.events += history.events[2:]
    return Expected({("q", message): ("settled",)})


Audited = tuple[dict[str, Expected], dict[str, Found]]


@pytest.mark.parametrize("name", STORIES)
def test_the_audit_finds_what_was_planted_and_nothing_else(audited: Audited, name: str) -> None:
    expected, found = audited[0][name], audited[1][name]
    assert {place: (row.verdict, *row.violations) for place, row in found.rows.items()} == expected.verdicts
    assert found.gaps == list(expected.gaps)


def test_a_message_keeps_its_number_in_all_its_places(audited: Audited) -> None:
    rows = audited[1]["to_the_end_of_a_quorum_queue"].rows
    places = sorted(rows)
    assert {rows[place].msg_id for place in places} == {places[0][1]}
    assert [rows[place].how for place in places] == ["move"] * 5 + [None]
    assert all(row.confirm_ts is not None for row in rows.values())


def test_the_evidence_says_where_to_look(audited: Audited) -> None:
    (row,) = audited[1]["killed_and_the_lost_end_had_not_reached_the_disk"].rows.values()
    assert row.evidence == "last: route in boot 1, event 5; absent from the record at boot 2, event 2"
    assert (row.boots, row.deliver_count, row.ack_count) == ([1], 0, 0)


def test_a_log_with_a_little_of_everything_comes_to_what_plain_python_makes_of_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    from pipeline.audit.audit_findings import tally
    from pipeline.audit.verdicts import audit

    made = write(tmp_path, 4000)
    events = spark.read.format("leveret-events").load(str(tmp_path)).cache()
    found = tally(audit(events)).groupBy("verdict").agg({"copies": "sum", "violations": "sum"}).collect()
    verdicts, violations = plain_audit.audit(plain_audit.logged(tmp_path))
    assert {row.verdict: row["sum(copies)"] for row in found} == verdicts
    assert sum(row["sum(violations)"] for row in found) == violations == made.planted["violations"]


def test_events_that_come_twice_are_judged_once(spark: SparkSession) -> None:
    from pipeline.audit.log_coverage import each_once

    history = History("twice")
    history.start()
    history.lose(2)
    history.publish()
    whole = history.table(spark).where("seq > 1")
    for events in (whole, history.table(spark), whole.where("seq <> 5").unionByName(whole.where("seq = 4"))):
        rows = each_once(events).collect()
        assert sorted(row.seq for row in rows) == sorted({row.seq for row in events.collect()})
