"""The audit of made-up histories: it finds exactly what was planted, and concludes nothing across a gap.

Each story is that of a broker of its own. All are judged at once, as a log with many nodes would be.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec
import pyarrow as pa
import pytest

from broker.entities.queues.events.event_recording import ACK, CONFIRM, ROUTE
from harness.event_logs.made_up_log import NODE, VIOLATIONS, Made, write
from leveret_events.segment_blocks import START, encode_block
from leveret_events.segment_names import SegmentName, node_name
from pipeline.audit.audit import audit, reduce
from pipeline.audit.log_coverage import Gap as LogGap
from pipeline.audit.verdict_counts import causes_of, found_in, tally_of
from pipeline.event_parts import PART_EVENTS, Part, parts_of
from pipeline.file_target import Target
from pipeline.jobs.engines import engine
from pipeline.spark_audit.judgement import Cut, Tables, judged_by_spark
from tests.pipeline.inputs.made_up_events import History, export_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Place = tuple[str, int]
Gap = tuple[str, int, int, int | None, bool]
"""Kind, boot, after, lost, doubtful."""


class Story(History):
    """A broker that begins with an empty queue `q`; the verdict, and violations behind it, that each copy must get."""

    def __init__(self, node: str) -> None:
        super().__init__(node)
        self.verdicts: dict[Place, tuple[str, ...]] = {}
        self.gaps: list[Gap] = []
        self.start()
        self.declare()
        self.recorded()

    def message(self, *verdict: str, queue: str = "q", confirmed: bool = True, kept: bool = True) -> int:
        """A message is published into a queue; its number."""
        number = self.publish(queue, confirmed=confirmed, kept=kept)
        self.verdicts[queue, number] = verdict
        return number


STORIES: dict[str, Callable[[Story], None]] = {}


def story(events: Callable[[Story], None]) -> Callable[[Story], None]:
    """Have the audit judge these events too."""
    STORIES[events.__name__] = events
    return events


def history_of(name: str) -> Story:
    """All events of a story, and what must be found in them."""
    history = Story(name)
    STORIES[name](history)
    return history


class Found(NamedTuple):
    """The audit's findings in one story."""

    rows: dict[Place, Any]
    gaps: list[Gap]


class Judged(NamedTuple):
    """Stories with what the audit found in them; a made-up log, and the verdicts and violations found in that."""

    stories: dict[str, tuple[Story, Found]]
    made: Made
    verdicts: Counter[str]
    violations: int


class Read(NamedTuple):
    """By which engine stories are read, and how many events are in a part at the most: of a story, and of the log."""

    engine: Literal["local", "spark"]
    of_story: int = PART_EVENTS
    of_log: int = PART_EVENTS


@pytest.fixture(
    scope="module",
    params=[Read("local"), Read("local", 1, 50), pytest.param(Read("spark", 5, 50), marks=pytest.mark.slow)],
    ids=lambda read: f"{read.engine}-{read.of_story}",
)
def judged(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Judged:
    log, exported = tmp_path_factory.mktemp("log"), tmp_path_factory.mktemp("stories")
    made = write(log, 4000)
    stories = {node_name(name): (name, history_of(name), Found({}, [])) for name in STORIES}
    export_of(exported, [history for _, history, _ in stories.values()])
    parts = [*parts_of(str(exported), most=request.param.of_story), *parts_of(str(log), most=request.param.of_log)]
    if request.param.engine == "spark":
        rows, gaps = by_executors(request.getfixturevalue("spark"), parts, tmp_path_factory.mktemp("tables"))
    else:
        with engine("local", "audit") as read:
            rows, _, gaps, *_ = audit(read(reduce, parts))
    of_log = []
    for row in rows.to_pylist():
        if row["node"] == NODE:
            of_log.append(row)
        else:
            stories[row["node"]][2].rows[row["queue"], row["position"]] = row
    for gap in gaps:
        if gap.node != NODE:
            stories[gap.node][2].gaps.append((gap.kind, gap.boot, gap.after, gap.lost, gap.doubtful))
    of_stories = {name: (history, found) for name, history, found in stories.values()}
    verdicts = Counter(row["verdict"] for row in of_log)
    return Judged(of_stories, made, verdicts, sum(bool(row["violations"]) for row in of_log))


def by_executors(spark: SparkSession, parts: Sequence[Part], out: Path) -> tuple[pa.Table, list[LogGap]]:
    """Verdicts by tasks, each with a few messages: most copies have neighbours that are judged elsewhere."""
    tasks = [parts[begin : begin + 40] for begin in range(0, len(parts), 40)]
    found = judged_by_spark(spark, tasks, Tables(Target(str(out)), "run", 3), FINE)
    rows = Target(str(out)).table("run/audit")
    by_this_process = audit(map(reduce, parts))
    assert found[:4] == by_this_process[1:]
    assert sorted(map(repr, rows.to_pylist())) == sorted(map(repr, by_this_process.rows.to_pylist()))
    assert sorted(found.tally.to_pylist(), key=repr) == sorted(tally_of(rows).to_pylist(), key=repr)
    wrong = found_in(rows)
    assert sorted(found.causes.to_pylist(), key=repr) == sorted(causes_of(wrong).to_pylist(), key=repr)
    assert found_in(Target(str(out)).table("run/found")) == wrong
    assert found.found.slice(0, 3) == wrong.slice(0, 3)
    return rows, found.gaps


FINE = Cut(block_bits=1, share_rows=12)
KILLED = ("end of a boot", 1, 6, 0, False)
IN_DOUBT = ("end of a boot", 1, 6, 94, True)
# The start that left no log may have noted how far its own had come, over how far this one had.
KILLED_TWICE = [KILLED, ("boots without a log", 2, 0, None, False)]
NO_LOG = [("end of a boot", 1, 6, None, True), ("boots without a log", 2, 0, None, True)]


def gone_after_a_kill(history: Story, next_boot: dict[str, int], verdict: str, gaps: list[Gap]) -> None:
    history.message(verdict)
    history.start(**next_boot)
    history.recorded()
    history.gaps += gaps


STORIES |= {
    "the lost end had reached the disk": partial(
        gone_after_a_kill, next_boot={"known": 100}, verdict="unknown", gaps=[IN_DOUBT]
    ),
    "the lost end had not reached the disk": partial(
        gone_after_a_kill, next_boot={"known": 5}, verdict="lost", gaps=[KILLED]
    ),
    "the next boot left something on disk, and no log": partial(
        gone_after_a_kill, next_boot={"known": 0, "after": 2}, verdict="unknown", gaps=NO_LOG
    ),
    "the next start was killed too": partial(
        gone_after_a_kill, next_boot={"known": 5, "after": 2, "idle": True}, verdict="lost", gaps=KILLED_TWICE
    ),
}


@story
def sound(history: Story) -> None:
    history.consume(history.message("settled"))
    waiting, both = history.message("queued"), history.publish("q", "other")
    history.consume(both)
    history.of("queued", both, "other")
    history.stop(waiting)
    history.verdicts.update({("q", both): ("settled",), ("other", both): ("queued",)})


@story
def gone_at_the_next_start(history: Story) -> None:
    history.message("lost")
    history.message("not confirmed", confirmed=False)
    history.message("not kept", kept=False)
    there = history.message("queued")
    history.start()
    history.recorded(there)
    history.gaps.append(("end of a boot", 1, 14, 0, False))


@story
def gone_at_an_orderly_stop(history: Story) -> None:
    history.deliver(history.message("lost"))
    history.stop()


@story
def stopped_without_time_to_record_everything(history: Story) -> None:
    history.message("queued")
    history.stop(complete=False)


@story
def events_that_were_not_written(history: Story) -> None:
    history.message("unknown")
    history.lose(3)
    history.message("lost")
    history.start()
    history.recorded()
    history.gaps += [("events not written", 1, 6, 3, True), ("end of a boot", 1, 12, 0, False)]


@story
def boots_without_a_log(history: Story) -> None:
    history.stop(history.message("unknown"))
    history.start(after=3)
    history.recorded()
    history.gaps.append(("boots without a log", 2, 0, None, True))


@story
def a_start_that_was_cut_short(history: Story) -> None:
    """It is no full record: the next one is."""
    there, _ = history.message("queued"), history.message("lost")
    history.start()
    history.start()
    history.recorded(there)
    history.gaps += [("end of a boot", 1, 9, 0, False), ("end of a boot", 2, 1, 0, False)]


@story
def an_ack_that_was_on_disk(history: Story) -> None:
    """It may not come undone."""
    twice, once = history.message("settled", "delivered after its end"), history.message("settled")
    history.consume(twice)
    history.consume(once)
    history.start()
    history.recorded()
    history.deliver(twice, redelivered=True)
    history.of("ack", twice)
    history.gaps.append(("end of a boot", 1, 13, 0, False))


@story
def an_ack_that_was_not_on_disk(history: Story) -> None:
    """It may come undone."""
    message, again = history.message("settled"), history.message("queued")
    history.consume(message)
    history.consume(again)
    history.start(known=9)
    history.recorded(message, again)
    history.deliver(message, redelivered=True)
    history.of("ack", message)
    history.stop(again)
    history.gaps.append(("end of a boot", 1, 13, 0, False))


@story
def new_twice(history: Story) -> None:
    twice = history.message("settled", "delivered twice as new", "two holders at once")
    history.deliver(twice)
    history.consume(twice)


@story
def behind_a_later_one(history: Story) -> None:
    first, second = history.message("settled", "out of order"), history.message("settled")
    for message in (second, first, history.message("settled")):
        history.consume(message)


@story
def no_order_is_asked_of_priorities_nor_of_what_came_back(history: Story) -> None:
    history.declare("levels", max_priority=9)
    low, high = history.message("settled", queue="levels"), history.message("settled", queue="levels")
    history.consume(high, "levels")
    history.consume(low, "levels")
    first, second = history.message("queued"), history.message("queued")
    history.deliver(first)
    history.deliver(second)
    history.of("requeue", first)
    history.deliver(first, redelivered=True)


@story
def purged(history: Story) -> None:
    """Messages held by consumers stay; later ones are not taken, nor those of another queue."""
    _, held = history.message("settled"), history.message("queued")
    history.deliver(held)
    history.tell("purge", queue="q", detail=f'{{"below": {held + 1}, "kept": [{held}]}}')
    history.message("lost")
    history.message("lost", queue="other")
    history.stop(held)


@story
def gone_before_its_queue_was_purged(history: Story) -> None:
    """A purge that came after its absence has not ended it."""
    _, there = history.message("lost"), history.message("settled")
    history.start()
    history.recorded(there)
    history.tell("purge", queue="q", detail=f'{{"below": {there + 1}, "kept": []}}')
    history.gaps.append(("end of a boot", 1, 9, 0, False))


@story
def to_the_end_of_a_quorum_queue(history: Story) -> None:
    history.declare("quorum", kind="quorum")
    place = history.message("settled", queue="quorum")
    for times in range(5):
        history.deliver(place, "quorum", redelivered=times > 0)
        history.of("requeue", place, "quorum")
        place = history.move(place, "quorum")
        history.verdicts["quorum", place] = ("settled",) if times < 4 else ("queued",)
    history.stop(place, queue="quorum")


def _move_that_came_undone(history: Story) -> int:
    """It was not on disk when the broker was killed: the message is where it was, and no other is lost."""
    history.declare("quorum", kind="quorum")
    place = history.message("settled", queue="quorum")
    history.deliver(place, "quorum")
    history.of("requeue", place, "quorum")
    history.verdicts["quorum", history.move(place, "quorum")] = ("not confirmed",)
    history.start(known=8)
    history.gaps.append(("end of a boot", 1, 10, 0, False))
    return place


@story
def a_move_that_came_undone(history: Story) -> None:
    place = _move_that_came_undone(history)
    history.recorded(place, queue="quorum")
    history.deliver(place, "quorum", redelivered=True)
    history.of("ack", place, "quorum")


@story
def a_move_that_came_undone_and_an_end_before_any_record(history: Story) -> None:
    """A start takes its time to record everything: the stop came sooner."""
    place = _move_that_came_undone(history)
    history.deliver(place, "quorum", redelivered=True)
    history.of("ack", place, "quorum")
    history.stop()


@story
def a_move_that_was_not_on_disk(history: Story) -> None:
    """But its message is gone from both places."""
    history.declare("quorum", kind="quorum")
    place = history.message("settled", queue="quorum")
    for verdict in ("settled", "lost"):
        history.deliver(place, "quorum")
        history.of("requeue", place, "quorum")
        place = history.move(place, "quorum")
        history.verdicts["quorum", place] = (verdict,)
    history.start(known=5)
    history.recorded()
    history.gaps.append(("end of a boot", 1, 13, 0, False))


@story
def a_dead_letter_that_is_gone(history: Story) -> None:
    """Nobody has confirmed it, but its message has left for it, and that was on disk."""
    message = history.message("settled")
    history.deliver(message)
    history.verdicts["dead", history.die(message, "q", "dead")] = ("lost",)
    history.start()
    history.recorded()
    history.gaps.append(("end of a boot", 1, 11, 0, False))


@story
def a_dead_letter_that_was_not_on_disk(history: Story) -> None:
    """Its message is there again."""
    message = history.message("settled")
    history.deliver(message)
    history.verdicts["dead", history.die(message, "q", "dead")] = ("not confirmed",)
    history.start(known=7)
    history.recorded(message)
    history.deliver(message, redelivered=True)
    history.of("ack", message)
    history.gaps.append(("end of a boot", 1, 11, 0, False))


@story
def there_again_and_nobody_is_given_it(history: Story) -> None:
    message = history.message("settled", "there again after its end")
    history.consume(message)
    history.start()
    history.recorded(message)
    history.gaps.append(("end of a boot", 1, 8, 0, False))


# Planted faults, each in a queue with innocents before and behind it: what is done with the message, and its verdict


def purge(history: Story, message: int) -> None:
    history.tell("purge", queue="q", detail=f'{{"below": {message + 1}, "kept": []}}')


def again(history: Story, message: int) -> None:
    """A delivery, marked as redelivered, and its acknowledgement."""
    history.deliver(message, redelivered=True)
    history.of("ack", message)


def restart(history: Story, *queued: int, **known: int) -> None:
    history.start(**known)
    history.recorded(*queued)


def _unacknowledged(history: Story, message: int) -> None:
    history.deliver(message)
    restart(history, message)
    history.deliver(message)


def _given_back(history: Story, message: int) -> None:
    history.deliver(message)
    history.of("requeue", message)
    again(history, message)


FAULTS: dict[str, tuple[Callable[[Story, int], None], tuple[str, ...]]] = {
    "purged, then delivered": (
        lambda h, m: (purge(h, m), h.deliver(m, redelivered=True)),
        ("settled", "delivered after its end"),
    ),
    "purged, then delivered and acknowledged": (
        lambda h, m: (purge(h, m), again(h, m)),
        ("settled", "delivered after its end"),
    ),
    "purged, and there after a restart": (
        lambda h, m: (purge(h, m), restart(h, m)),
        ("settled", "there again after its end"),
    ),
    "purged, which came undone": (
        lambda h, m: (purge(h, m), restart(h, m, known=1), again(h, m)),
        ("settled",),
    ),
    "deleted with its queue, then delivered": (
        lambda h, m: (h.tell("delete", queue="q", detail=f'{{"below": {m + 1}, "kept": []}}'), again(h, m)),
        ("settled", "delivered after its end"),
    ),
    "settled twice": (lambda h, m: (h.consume(m), h.of("ack", m)), ("settled", "settled twice")),
    "acknowledged, then expired": (
        lambda h, m: (h.consume(m), h.of("expire", m, reason="expired")),
        ("settled", "settled twice"),
    ),
    "with two consumers at once": (
        lambda h, m: (h.deliver(m), again(h, m)),
        ("settled", "two holders at once"),
    ),
    "with two consumers, where the first one's end may be missing": (
        lambda h, m: (h.deliver(m), h.lose(1), again(h, m)),
        ("settled",),
    ),
    "dead, and its dead letter never came": (
        lambda h, m: (h.deliver(m), h.reject(m)),
        ("settled", "its dead letter never came"),
    ),
    "dead, and its dead letter goes nowhere": (
        lambda h, m: (h.deliver(m), h.reject(m, queues=0)),
        ("settled",),
    ),
    "dead, where its dead letter may be missing": (lambda h, m: (h.deliver(m), h.reject(m), h.lose(2)), ("settled",)),
    "given back in between": (_given_back, ("settled",)),
    "new again after a restart": (_unacknowledged, ("queued", "delivered as new after a restart")),
    "new again, where its mark may not have been on disk": (
        lambda h, m: (h.deliver(m), restart(h, m, known=1), h.consume(m)),
        ("settled",),
    ),
}


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[int, tuple[str, ...]]]:
    """By fault what was found of the message, as number 0, and of the innocents."""
    stories, messages = [], {}
    for name, (fault, _) in FAULTS.items():
        history = Story(name)
        history.consume(history.publish("other"), "other")
        messages[node_name(name)] = name, history.publish()
        fault(history, messages[node_name(name)][1])
        if history.boot == 1:
            history.consume(history.publish("other"), "other")
        stories.append(history)
    found: dict[str, dict[int, tuple[str, ...]]] = {name: {} for name in FAULTS}
    rows = audit(map(reduce, export_of(tmp_path_factory.mktemp("faults"), stories))).rows.to_pylist()
    for row in rows:
        name, message = messages[row["node"]]
        found[name][row["position"] - message] = (row["verdict"], *row["violations"])
    return found


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found_and_the_innocent_are_not_blamed(
    faulty: dict[str, dict[int, tuple[str, ...]]], name: str
) -> None:
    assert faulty[name].pop(0) == FAULTS[name][1]
    assert set(faulty[name].values()) == {("settled",)}


@story
def a_dead_letter_that_came_twice(history: Story) -> None:
    message = history.message("settled", "its dead letter came twice")
    history.deliver(message)
    for dead_letter in (history.die(message, "q", "dead"), history.dead_letter(message, "q", "dead")):
        history.verdicts["dead", dead_letter] = ("queued",)


@story
def a_dead_letter_that_a_full_queue_refused(history: Story) -> None:
    """It was published, and is in no queue: that is no loss."""
    message = history.message("settled")
    history.deliver(message)
    history.reject(message)
    dead_letter = {"msg_id": (1 << 40) + 9, "queue": "q", "position": message, "connection": "", "channel": 0}
    history.tell("publish", size_bytes=1, persistent=True, detail='{"queues": 1}', **dead_letter)


@story
def one_queue_of_two_never_had_it(history: Story) -> None:
    """A message is lost where it never was, unless the log may have lost its way there."""
    history.verdicts[None, None] = ("lost",)  # type: ignore[index]
    for number, lost in enumerate((0, 1, 0), 1):
        message = history.boot << 40 | number
        routed = {"msg_id": message, "connection": "c", "channel": 1, "size_bytes": 1, "persistent": True}
        history.tell("publish", detail='{"queues": 2}', **routed)
        history.tell("route", queue="q", msg_id=message, position=message, persistent=True)
        history.verdicts["q", message] = ("settled",)
        history.lose(lost)
        if number != 3:
            history.tell("confirm", msg_id=message)
        history.consume(message)
    history.gaps.append(("events not written", 1, 10, 1, True))


# Routing mistakes: what is bound how when a message with key `eu` comes into `q` alone, and whether `other` lacks it

Bound = Callable[[Story], object]


def bound(*keys: str, **told: Any) -> Bound:
    return lambda history: [history.bind(key, queue="other", **told) for key in keys]


def both(*steps: Bound) -> Bound:
    return lambda history: [step(history) for step in steps]


LACKING: dict[str, tuple[Bound, dict[str, Any], bool]] = {
    "bound for its key": (bound("eu", kind="direct"), {}, True),
    "bound for another key": (bound("us", "eu.#.x", "", kind="direct"), {}, False),
    "bound by a fanout": (bound("us", kind="fanout"), {}, True),
    "bound by topics that match": (bound("eu.#"), {}, True),
    "bound by a topic of one word": (bound("*"), {}, True),
    "bound by topics that do not match": (bound("*.#.*", "eu.*", "e*", "eux", "Eu"), {}, False),
    "bound for the empty key, which has no word": (bound("*"), {"routing_key": ""}, False),
    "bound for any key, empty ones included": (bound("#"), {"routing_key": ""}, True),
    "bound for words that may be empty": (bound("a.*.b.#"), {"routing_key": "a..b"}, True),
    "bound by headers": (bound("eu", kind="headers"), {}, False),
    "bound for names that are no UTF-8": (bound("\\xff"), {"routing_key": "\\xff"}, False),
    "bound to an exchange whose name is no UTF-8": (
        bound("eu", exchange="\\xff", kind="fanout"),
        {"exchange": "\\xff"},
        False,
    ),
    "bound no longer": (both(bound("eu"), bound("eu", ends=True)), {}, False),
    "bound twice, once no longer": (both(bound("eu", "eu"), bound("eu", ends=True)), {}, True),
    "bound before its queue was deleted": (
        both(bound("eu"), lambda h: h.tell("delete", queue="other", detail='{"below": 1, "kept": []}')),
        {},
        False,
    ),
    "bound in a virtual host that has ended": (
        both(bound("eu"), lambda h: h.tell("unbind", queue="", exchange="", routing_key="", detail='{"type": ""}')),
        {},
        False,
    ),
    "bound in the boot before": (both(bound("eu"), lambda h: h.stop(), lambda h: restart(h)), {}, False),
    "bound where the end of it may be missing": (both(bound("eu"), lambda h: h.lose(1)), {}, False),
    "bound between publish and commit": (bound("eu"), {"detail": '{"queues": 1, "transaction": true}'}, False),
    "bound to the default exchange by its name": (bound(), {"exchange": "", "routing_key": "other"}, True),
}


def lacking(history: Story, name: str) -> None:
    steps, told, found = LACKING[name]
    history.declare("other")
    steps(history)
    message = history.publish("q", **told)
    history.verdicts["q", message] = ("queued",)
    if found:
        history.verdicts["other", message] = ("lost",)
    if "missing" in name:
        history.gaps.append(("events not written", 1, 5, 1, True))


STORIES |= {name: partial(lacking, name=name) for name in LACKING}


@story
def delivered_and_never_published(history: Story) -> None:
    """It is beside others, which are not out of order for it."""
    phantom = (1 << 40) + 77
    history.verdicts["q", phantom] = ("settled", "delivered, never published")
    history.consume(phantom)
    for _ in range(2):
        history.consume(history.message("settled"))


@story
def delivered_and_published_where_the_log_does_not_reach(history: Story) -> None:
    """Before the oldest segment that is kept, or in a gap."""
    history.lose(2)
    unknown = (1 << 40) + 77
    history.verdicts["q", unknown] = ("settled",)
    history.consume(unknown)
    history.gaps.append(("events not written", 1, 3, 2, True))


@pytest.mark.parametrize("name", STORIES)
def test_the_audit_finds_what_was_planted_and_nothing_else(judged: Judged, name: str) -> None:
    history, found = judged.stories[name]
    assert {place: (row["verdict"], *row["violations"]) for place, row in found.rows.items()} == history.verdicts
    assert found.gaps == history.gaps


@pytest.mark.parametrize("most", [PART_EVENTS, 500, 300])
@pytest.mark.parametrize(
    ("damage", "gap"),
    [
        pytest.param(lambda data: data[:40] + b"x" + data[41:], ("damaged segment", 0, 500), id="block"),
        pytest.param(lambda data: b"x" + data[1:], ("damaged segment", 0, 1000), id="mark"),
        pytest.param(lambda data: data[:-1], ("damaged segment", 500, 500), id="end"),
    ],
)
def test_a_damaged_segment_is_a_gap_and_the_rest_is_audited(
    tmp_path: Path, damage: Callable[[bytes], bytes], gap: tuple[str, int, int], most: int
) -> None:
    """Two segments, of which the first has two blocks of 500 events: one part, two, or four that divide blocks."""
    first = 1 << 40

    def segment(begin: int, *records: list[tuple[object, ...]]) -> None:
        blocks = [encode_block(msgspec.msgpack.encode(each), begin + 500 * at, 500) for at, each in enumerate(records)]
        name = SegmentName("node", 1, begin, begin + 500 * len(records) - 1)
        (tmp_path / str(name)).write_bytes(START + b"".join(blocks))

    numbers = list(range(first, first + 500))
    segment(1, [(ROUTE, 1, b"/", b"q", first, first, 500, 1)], [(CONFIRM, 2, b"/", b"c", 1, [first, 500])])
    segment(1001, [(ACK, 3, b"/", b"q", numbers, 0)])
    victim = min(tmp_path.iterdir())
    victim.write_bytes(damage(victim.read_bytes()))
    found = audit(map(reduce, parts_of(str(tmp_path), most=most)))
    assert [(each.kind, each.after, each.lost) for each in found.gaps] == [gap]
    assert found.gaps[0].file == victim.name
    assert Counter(found.rows.column("verdict").to_pylist()) == {"settled": 500}


def test_a_message_keeps_its_number_in_all_its_places(judged: Judged) -> None:
    rows = judged.stories["to_the_end_of_a_quorum_queue"][1].rows
    places = sorted(rows)
    assert {rows[place]["msg_id"] for place in places} == {places[0][1]}
    assert [rows[place]["how"] for place in places] == ["move"] * 5 + [None]
    assert all(row["confirm_ts"] is not None for row in rows.values())


def test_the_evidence_says_where_to_look(judged: Judged) -> None:
    (row,) = judged.stories["the lost end had not reached the disk"][1].rows.values()
    assert row["evidence"] == "last: route in boot 1, event 5; absent from the record at boot 2, event 2"
    assert (row["boots"], row["deliver_count"], row["ack_count"]) == ([1], 0, 0)


def test_a_log_with_a_little_of_everything_comes_to_what_was_planted(judged: Judged) -> None:
    planted = dict(judged.made.planted)
    assert judged.violations == planted.pop(VIOLATIONS)
    assert {verdict: judged.verdicts[verdict] for verdict in planted} == planted
