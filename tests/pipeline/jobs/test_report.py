"""The report says what jobs have found, stands alone, and stays what it is whatever names clients think up."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from pipeline.report import wording
from pipeline.report.series import POINTS_MAX, WIDTHS, axis, carried_on, laid_out
from tests.pipeline.inputs.made_up_events import History

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipeline.jobs.audit_job import Audited
    from pipeline.spark.file_places import Place

WRITTEN = datetime(2026, 11, 22, tzinfo=UTC)
HOSTILE = '"><script src=//evil>alert(1)</script>{{ 7 * 7 }}<img onerror=x>$x$\x1b[31m\u202e\n'
QUEUES = 60
NODE = "leveret@hare"


@pytest.mark.parametrize("minutes", [1, 2, POINTS_MAX, POINTS_MAX + 1, 1440, 10_000_000])
def test_an_axis_has_few_points_and_all_minutes(minutes: int) -> None:
    first = 1_795_284_060
    last = first + 60 * (minutes - 1)
    found = axis(first, last)
    assert found.points <= POINTS_MAX + 1
    assert found.minutes in WIDTHS or minutes > WIDTHS[-1] * POINTS_MAX
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


@pytest.mark.slow
def test_a_page_without_runs_says_what_to_do() -> None:
    from pipeline.report.page import PARTS, page

    told = page(dict.fromkeys(PARTS), WRITTEN)
    assert "Whether messages were lost has not been checked yet" in told
    assert "leveret pipeline throughput" in told
    assert told.startswith("<!DOCTYPE html>")
    assert elements(told).dangerous == []


def lost_and_hostile() -> History:
    """Many queues, one with a bad name; a confirmed message that is gone, one more where a gap leaves doubt; one that
    comes again after its end.
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
    history.publish(HOSTILE)
    history.start()
    history.recorded()
    history.deliver(consumed[1], "queue 0", redelivered=True)
    return history


class Reported(NamedTuple):
    """The place of the jobs' results, what the audit said, and report.html behind all jobs."""

    place: Place
    audited: Audited
    page: str


@pytest.fixture(scope="module")
def reported(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Reported:
    from pipeline.jobs.audit_job import run_audit
    from pipeline.jobs.job_results import Run
    from pipeline.jobs.throughput_job import run_throughput
    from pipeline.report.page import write_report
    from pipeline.spark.file_places import Place

    where = tmp_path_factory.mktemp("report")
    place = Place(spark, str(where))
    lost = lost_and_hostile().table(spark).cache()
    run_throughput(lost, place)
    audited = run_audit(lost, place)
    dead_letters = Run(place, "dead_letters")
    columns = """reason string, death_queue string, death_exchange string, death_routing_key string,
        first_death_reason string, first_death_queue string, messages bigint, deaths bigint, first_at timestamp,
        last_at timestamp, samples array<string>"""
    row = ("rejected", HOSTILE, "", "key", "rejected", "q", 3, 3, WRITTEN, WRITTEN, [HOSTILE])
    dead_letters.write("dead_letters", spark.createDataFrame([row], columns))
    dead_letters.publish({"queue": "dead", "vhost": "/", "ready": 3, "looked": 3})
    write_report(place)
    assert [path.name for path in where.iterdir() if path.is_file()] == ["report.html"]
    return Reported(place, audited, (where / "report.html").read_text(encoding="utf-8"))


@pytest.mark.slow
def test_an_audit_leaves_its_tables_and_says_what_they_come_to(reported: Reported) -> None:
    from pipeline.jobs.job_results import last_run

    found, events = reported.audited, lost_and_hostile().events
    assert not found.clean
    assert found.verdicts == {"lost": 1, "unknown": 1, "settled": QUEUES}
    assert (found.violations, [(row.queue, row.verdict, row.violations) for row in found.found]) == (
        1,
        [(HOSTILE, "lost", []), ("queue 0", "settled", ["delivered after its end"])],
    )
    assert [(gap.boot, gap.lost, gap.in_doubt) for gap in found.gaps] == [(1, 2, 1), (1, 0, 0)]
    assert (found.coverage["from"], found.coverage["until"][:10]) == ("2026-11-21T00:00:00.000000Z", "2026-11-21")
    known = {name: value for name, value in found.coverage.items() if name not in ("from", "until")}
    assert known == {"nodes": [NODE], "boots": 2, "events": len(events), "gaps": 2, "doubtful_gaps": 1}
    run = last_run(reported.place, "audit")
    assert run is not None
    assert run.tables == ["boots", "audit", "tally", "found", "gaps"]
    assert run.facts == {**found.coverage, "verdicts": found.verdicts, "violations": 1}
    assert run.table("audit").where("verdict = 'lost'").count() == 1


@pytest.mark.slow
def test_the_verdict_comes_first_and_each_job_adds_what_it_has_found(reported: Reported) -> None:
    """A page behind the job `latency` alone is in tests/pipeline/jobs/test_pipeline_command.py."""
    page = reported.page
    assert re.findall(r"<h2>(.*?)</h2>", page) == [
        *("Every message", "Gaps and doubt", "Throughput and depth", "Dead letters")
    ]
    assert "<strong>1 confirmed message was lost</strong>" in page
    assert page.index("was lost") < page.index("<h2>")
    assert "last: confirm" not in page
    assert re.search(r"last: route in boot 1, event \d+; absent from the record at boot 2, event 2", page)


@pytest.mark.slow
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


@pytest.mark.slow
def test_rates_at_the_ends_are_of_what_the_log_knows() -> None:
    from pipeline.jobs.job_results import FinishedRun
    from pipeline.report.queue_section import _seconds

    told = {"from": "2026-11-21T18:00:40.000000Z", "until": "2026-11-21T18:02:15.000000Z"}
    run: Any = FinishedRun(None, "throughput", "run", WRITTEN, [], told)  # type: ignore[arg-type]
    first = int(datetime(2026, 11, 21, 18, 0, tzinfo=UTC).timestamp())
    assert _seconds(run, axis(first, first + 120)) == [20, 60, 15]
