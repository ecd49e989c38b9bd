"""Jobs over the event log: each reads events, works out tables, writes them, and says in a few words what they come to.

A job can be run again at any time: what it writes takes the place of what its last run wrote, at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, NamedTuple

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession

from pipeline.audit.audit_findings import ORDER, found, in_doubt, tally, worst_first
from pipeline.audit.log_coverage import boots, each_once, gaps
from pipeline.audit.verdicts import NEEDED, judged
from pipeline.export import ManifestError
from pipeline.jobs.job_results import ResultsError, Run
from pipeline.spark.file_places import Place
from pipeline.spark.java import MissingError
from pipeline.spark.spark_session import session

SHOWN_MAX = 20
"""How many of those that were found are shown."""

SETTINGS = {
    "spark.sql.shuffle.partitions": "16",  # empty and small ones are put together as Spark goes
    "spark.driver.memory": "2g",
}


class JobError(Exception):
    """A job could not be done; the message says why, in a line."""


class Audited(NamedTuple):
    """What an audit found: verdicts with how many copies have them, the worst first; some of what should not be."""

    coverage: dict[str, Any]
    verdicts: dict[str, int]
    violations: int
    found: list[Row]
    gaps: list[Row]

    @property
    def clean(self) -> bool:
        """Nothing was lost and nothing happened that must not."""
        return not self.violations and not self.verdicts.get("lost")


@contextmanager
def spark_for(
    job: str, *, master: str = "local[*]", settings: Mapping[str, str] | None = None, progress: bool = False
) -> Iterator[SparkSession]:
    """Spark for a job. `progress` shows stages on standard error. Raises JobError for whatever goes wrong in Spark."""
    shown = {"spark.ui.showConsoleProgress": str(progress).lower()}
    try:
        with session(f"leveret {job}", master=master, settings={**SETTINGS, **shown, **(settings or {})}) as spark:
            yield spark
    except (PySparkException, Py4JJavaError) as error:
        raise JobError(_reason(str(error))) from error
    except (MissingError, ManifestError, ResultsError) as error:
        raise JobError(str(error)) from error


def run_audit(events: DataFrame, place: Place) -> Audited:
    """Judge every copy of every message: the tables audit, tally, found, gaps and boots."""
    run = Run(place, "audit")
    unique = each_once(events.select(*NEEDED))
    known_boots = run.write("boots", boots(unique), small=True)
    holes = gaps(unique, known_boots).persist()
    rows = run.write("audit", judged(unique, known_boots, holes))
    counts = run.write("tally", tally(rows), small=True)
    wrong = run.write("found", worst_first(found(rows)), small=True)
    missing = run.write("gaps", in_doubt(holes, rows), small=True)
    for each in (unique, holes):
        each.unpersist()
    counted, doubts = counts.collect(), missing.orderBy("node", "moment").collect()
    summary = Audited(
        coverage(known_boots.collect(), doubts),
        {verdict: copies for verdict in ORDER if (copies := _copies(counted, verdict))},
        sum(row.violations for row in counted),
        worst_first(wrong).limit(SHOWN_MAX).collect(),
        doubts,
    )
    run.publish({**summary.coverage, "verdicts": summary.verdicts, "violations": summary.violations})
    return summary


def coverage(known_boots: list[Row], missing: list[Row]) -> dict[str, Any]:
    """What was read, as JSON can say it, by its boots and gaps: nodes, boots, events, from, until, gaps, doubtful_gaps.

    Times are in UTC.
    """
    return {
        "nodes": sorted({boot.node for boot in known_boots}),
        "boots": len(known_boots),
        "events": sum(boot.events for boot in known_boots),
        "from": min((_timestamp(boot.first_ts) for boot in known_boots), default=None),
        "until": max((_timestamp(boot.last_ts) for boot in known_boots), default=None),
        "gaps": len(missing),
        "doubtful_gaps": sum(gap.doubtful for gap in missing),
    }


def _timestamp(moment: datetime) -> str:
    """A time of Spark's, which comes in this machine's zone, in UTC."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _copies(counted: list[Row], verdict: str) -> int:
    return sum(row.copies for row in counted if row.verdict == verdict)


def _reason(error: str) -> str:
    """The line of Spark's words that says what is wrong: behind a Python traceback the last, else Java's first."""
    lines = [line.strip(" :") for line in error.partition("\nJVM stacktrace")[0].splitlines() if line.strip()]
    raised = [line for line in lines if ": " in line and not line.startswith(("File ", "at ", "Caused by"))]
    if "Traceback (most recent call last):" in lines and raised:
        return raised[-1].removesuffix("SQLSTATE: 38000").strip()
    said = [line for line in lines if not line.startswith("An error occurred while calling")]
    return said[0] if said else "Spark failed without a word"
