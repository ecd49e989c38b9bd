"""The report says what jobs have found, stands alone, and stays what it is whatever names clients think up."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from html.parser import HTMLParser
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from pipeline.file_target import Target
from pipeline.jobs.audit_job import Audited, run_audit
from pipeline.jobs.engines import engine
from pipeline.jobs.job_results import FinishedRun, Run, last_run
from pipeline.jobs.latency_job import run_latency
from pipeline.jobs.throughput_job import run_throughput
from pipeline.report import wording
from pipeline.report.charts import Time
from pipeline.report.page import PARTS, page, write_report
from pipeline.report.queue_section import _seconds
from pipeline.report.series import POINTS_MAX, WIDTHS, axis, carried_on, laid_out
from tests.pipeline.inputs.made_up_events import History, export_of

pytestmark = pytest.mark.slow  # loading Matplotlib takes long

WRITTEN = datetime(2026, 11, 22, tzinfo=UTC)
HOSTILE = '"><script src=//evil>alert(1)</script>{{ 7 * 7 }}<img onerror=x>$x$\x1b[31m\u202e\n'
QUEUES = 60
UNPUBLISHED = (2 << 40) + 5
NODE = "leveret@hare"


@pytest.mark.parametrize("width", [1, 20, 60])
@pytest.mark.parametrize("bins", [1, 2, POINTS_MAX, POINTS_MAX + 1, 1440, 10_000_000])
def test_an_axis_has_few_points_and_all_bins(bins: int, width: int) -> None:
    first = 1_795_284_060
    last = first + width * (bins - 1)
    found = axis(first, last, width)
    assert found.points <= POINTS_MAX + 1
    assert found.seconds % width == 0
    assert found.seconds in WIDTHS or bins * width > WIDTHS[-1] * POINTS_MAX
    begin = found.begin.timestamp()
    assert begin <= first
    assert begin + found.seconds * (found.points - 1) <= last < begin + found.seconds * found.points


def test_what_is_missing_is_missing_or_goes_on() -> None:
    values: dict[int, float | None] = {1: 5, 3: None, 5: 2}
    assert laid_out(values, 6) == [None, 5, None, None, None, 2]
    assert laid_out(values, 6, missing=0) == [0, 5, 0, None, 0, 2]
    assert carried_on(values, 7) == [None, 5, 5, None, None, 2, 2]


@pytest.mark.parametrize(
    ("word", "value", "said"),
    [
        (wording.duration, 0.42, "0.42 ms"),
        (wording.duration, 9.96, "10 ms"),
        (wording.duration, 120.4, "120 ms"),
        (wording.duration, 2500, "2.5 s"),
        (wording.duration, 5_400_000, "1.5 h"),
        (wording.duration, None, ""),
        (wording.share, 0.00001, "< 0.01 %"),
        (wording.share, 0.125, "12.5 %"),
        (wording.size, 1023, "1,023 B"),
        (wording.size, 5 << 20, "5 MiB"),
        (wording.number, None, "?"),
        (wording.short_number, 15_000, "15k"),
        (wording.moment, "2026-11-21T18:00:02.1+01:00", "2026-11-21 17:00:02"),
        (wording.seconds, 60, "minute"),
        (wording.seconds, 7200, "2 hours"),
        (wording.seconds, 90, "90 seconds"),
        (
            wording.span,
            {"from": "2026-11-21T17:00:02Z", "until": "2026-11-21T18:00:00Z"},
            "2026-11-21 17:00:02 to 18:00:00",
        ),
        (wording.name, "a\u202eb\n", "a\\u202eb\\n"),
        (wording.name, "x" * 500, "x" * 119 + "…"),
    ],
)
def test_numbers_times_and_names_are_said_as_people_do(word: Any, value: Any, said: str) -> None:
    assert word(value) == said


class Elements(HTMLParser):
    """The tags of a page, and the attributes by which it could load or run something."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.dangerous: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            inside = name.endswith("href") and (value or "").startswith("#")
            if name.startswith("on") or name in ("src", "action", "data") or (name.endswith("href") and not inside):
                self.dangerous.append((name, value))


def elements(page: str) -> Elements:
    found = Elements()
    found.feed(page)
    return found


def test_a_page_without_runs_says_what_to_do() -> None:
    told = page(dict.fromkeys(PARTS), WRITTEN)
    assert "Whether messages were lost has not been checked yet" in told
    assert "leveret pipeline throughput" in told
    assert told.startswith("<!DOCTYPE html>")
    assert elements(told).dangerous == []


def lost_and_hostile() -> History:
    """Many queues, one with a bad name; a confirmed message that is gone, one more where a gap leaves doubt; one that
    comes again after its end; one that is confirmed and was never published.
    """
    history = History(NODE)
    history.start()
    history.declare(HOSTILE)
    history.recorded()
    consumed = []
    for queue in (HOSTILE, *(f"queue {number}" for number in range(QUEUES - 1))):
        position = history.publish(queue)
        history.deliver(position, queue)
        history.of("ack", position, queue)
        consumed.append(position)
    history.publish("in doubt")
    history.lose(2)
    history.publish(HOSTILE, properties='{"message_id": "order-17", "type": "<b>"}', size_bytes=512)
    history.start()
    history.recorded()
    history.deliver(consumed[1], "queue 0", redelivered=True)
    history.answer(UNPUBLISHED)
    return history


class Reported(NamedTuple):
    """The place of the jobs' results, what the audit said, and report.html behind all jobs."""

    target: Target
    audited: Audited
    page: str


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> Reported:
    where = tmp_path_factory.mktemp("report")
    target = Target(str(where))
    parts = export_of(tmp_path_factory.mktemp("log"), [lost_and_hostile()])
    with engine("local", "audit") as read:
        run_throughput(read, parts, target)
        run_latency(read, parts, target)
        audited = run_audit(read, parts, target)
    dead_letters = Run(target, "dead_letters")
    names = {"reason": "rejected", "death_queue": HOSTILE, "death_exchange": "", "death_routing_key": "key"}
    first = {"first_death_reason": "rejected", "first_death_queue": "q", "messages": 3, "deaths": 3}
    row = {**names, **first, "first_at": WRITTEN, "last_at": WRITTEN, "samples": [HOSTILE]}
    dead_letters.write("dead_letters", pa.Table.from_pylist([row]))
    dead_letters.publish({"queue": "dead", "vhost": "/", "ready": 3, "looked": 3})
    write_report(target)
    assert [path.name for path in where.iterdir() if path.is_file()] == ["report.html"]
    return Reported(target, audited, (where / "report.html").read_text(encoding="utf-8"))


def test_an_audit_leaves_its_tables_and_says_what_they_come_to(reported: Reported) -> None:
    found, events = reported.audited, lost_and_hostile().events
    assert not found.clean
    assert found.verdicts == {"lost": 1, "unknown": 1, "settled": QUEUES}
    assert (found.violations, [(row["queue"], row["verdict"], row["violations"]) for row in found.found]) == (
        2,
        [
            (HOSTILE, "lost", []),
            ("queue 0", "settled", ["delivered after its end"]),
            (None, "message", ["answered, never published"]),
        ],
    )
    assert [(gap["boot"], gap["lost"], gap["in_doubt"]) for gap in found.gaps] == [(1, 2, 1), (1, 0, 0)]
    assert (found.coverage["from"], found.coverage["until"][:10]) == ("2026-11-21T00:00:00.000000Z", "2026-11-21")
    known = {name: value for name, value in found.coverage.items() if name not in ("from", "until")}
    assert known == {"nodes": [NODE], "boots": 2, "events": len(events), "gaps": 2, "doubtful_gaps": 1}
    assert found.messages == {"published": QUEUES + 2, "confirmed": QUEUES + 2, "returned": 0, "unroutable": 0}
    run = last_run(reported.target, "audit")
    assert run is not None
    assert sorted(run.tables) == ["audit", "boots", "causes", "found", "gaps", "tally", "timelines"]
    more = {"verdicts": found.verdicts, "violations": 2, "messages": found.messages}
    assert run.facts == {**found.coverage, **more}
    assert run.table("audit").column("verdict").to_pylist().count("lost") == 1


def test_the_verdict_comes_first_and_each_job_adds_what_it_has_found(reported: Reported) -> None:
    page = reported.page
    assert re.findall(r"<h2[^>]*>(.*?)</h2>", page) == [
        *("Violations and losses", "By queue", "Boots and gaps", "Latency", "Throughput and depth", "Dead letters")
    ]
    assert "<strong>1 confirmed message was lost</strong>" in page
    assert f"Of {QUEUES + 2} confirmed, in {QUEUES + 1} queues, over 2 boots: 0 orderly stops, 1 kill." in page.replace(
        "\n", " "
    )
    assert page.index("was lost") < page.index("<h2")
    assert page.index('<span class="wrong">delivered after its end') < page.index('<span class="wrong">lost')


def test_a_confirm_without_a_message_is_told(reported: Reported) -> None:
    (found,) = [row for row in reported.audited.found if row["queue"] is None]
    assert (found["msg_id"], found["violations"]) == (UNPUBLISHED, ["answered, never published"])
    section = reported.page.partition('<span class="wrong">answered, never published</span>')[2].partition("<h3>")[0]
    assert re.search(r"<li class=\"sure\"><time>[^<]*</time> <span>confirmed</span></li>", section)


def test_what_happened_to_a_lost_message_is_told_step_by_step(reported: Reported) -> None:
    steps = [re.sub(r"<[^>]*>", "", step) for step in re.findall(r"<li class=.*?</li>", reported.page)]
    story = steps[next(at for at, step in enumerate(steps) if "published" in step and at > 4) :]
    shown = "512 B, message_id &#39;order-17&#39;, type &#39;&lt;b&gt;&#39;"
    assert [step[24:] for step in story] == [
        f"published by connection 127.0.0.1:5 to exchange &#39;orders&#39; with key &#39;eu&#39;, {shown}",
        f"into the queue, position {(1 << 40) + QUEUES + 2}",
        "confirmed",
        f"broker killed (boot 1, last event {6 + 5 * QUEUES + 3 + 2})",
        "absent: not among what the start of boot 2 recorded",
    ]


def test_the_page_loads_and_runs_nothing_and_many_queues_do_not_make_it_long(reported: Reported) -> None:
    page = reported.page
    found = elements(page)
    assert found.dangerous == []
    assert found.tags & {"script", "img", "iframe", "link", "object"} == set()
    assert "{{ 7 * 7 }}" in page
    assert "\u202e" not in page
    assert "\x1b" not in page
    assert f"Drawn are the 6 busiest of {QUEUES + 1} queues, listed the 50 busiest." in page
    assert len(page) < 1_000_000


def test_rates_at_the_ends_are_of_what_the_log_knows() -> None:
    told = {"from": "2026-11-21T18:00:40.000000Z", "until": "2026-11-21T18:02:15.000000Z"}
    run: Any = FinishedRun(None, "throughput", "run", WRITTEN, [], told)  # type: ignore[arg-type]
    first = int(datetime(2026, 11, 21, 18, 0, tzinfo=UTC).timestamp())
    assert _seconds(run, Time(axis(first, first + 120, 60))) == [20, 60, 15]
