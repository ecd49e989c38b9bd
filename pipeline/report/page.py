"""report.html, built from the results of the last run of each job in a place.

Each job rewrites it after its tables, and replaces it in one step: a reader sees one complete page or another. It
refers to nothing outside itself, and its content security policy forbids a browser to load or run anything, whatever
names clients have chosen.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from pipeline.file_target import Target
from pipeline.jobs.job_results import last_run
from pipeline.report import findings_section, queue_section, wording

REPORT = "report.html"

PARTS = {
    "audit": findings_section.audit,
    "latency": queue_section.waits,
    "throughput": queue_section.traffic,
    "dead_letters": findings_section.dead_letters,
}
"""Functions that build a part of the page from a job's last run."""


def write_report(target: Target) -> None:
    """Write report.html from the last runs of all jobs. Raises ResultsError and OSError."""
    runs = {job: last_run(target, job) for job in PARTS}
    parts = {job: None if run is None else PARTS[job](run) for job, run in runs.items()}
    target.put(REPORT, page(parts, datetime.now(UTC)).encode())


def page(parts: dict[str, Any], written: datetime) -> str:
    """Render the page of these parts; None for a job that has not run."""
    return _environment().get_template("report.html").render(**parts, written=written).lstrip()


def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("pipeline.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    words = wording.number, wording.size, wording.duration, wording.share, wording.moment, wording.name, wording.sample
    times = wording.instant, wording.span, wording.seconds, wording.counted
    made.filters |= {each.__name__: each for each in (*words, *times)}
    made.filters["drawing"] = Markup  # charts contain no text of clients
    return made
