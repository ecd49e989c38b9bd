"""How long the event log takes to export and to audit, and how that grows: `python -m bench.pipeline.audit_times`.

The log is made up (harness/event_logs/made_up_log.py), and the number of mistakes in it is known. It is exported, and
audited by Spark over the segments and over the export, and by programs that do the same without Spark: plain Python
(harness/event_logs/plain_audit.py) and DuckDB over the export (bench/pipeline/duckdb_audit.py, if it is installed).
Each is a process of its own, timed from its start to its end, memory being that of all its processes together
(RssAnon), at the most. All must come to the same verdicts, and find what was planted. One line of JSON for each.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from bench.load.measured_broker import mib, report
from harness.event_logs.made_up_log import VIOLATIONS, Made, write
from harness.process_figures import own_memory
from harness.project import ROOT

EVENTS = (1_000_000, 3_000_000, 10_000_000)
LOOK_SECONDS = 0.25


class Ran(NamedTuple):
    """What a process said, how long it took, and bytes that it and its children held at the most."""

    said: str
    seconds: float
    memory: int


class Places(NamedTuple):
    """Where a log is, its export, and what audits leave."""

    log: Path
    export: Path
    out: Path


Outcome = tuple[dict[str, int], int]
"""How many copies have which verdict; how many have violations."""


def ran(module: str, *arguments: str) -> Ran:
    """Run a module to its end. Raises CalledProcessError when it fails; 1 says that an audit has found something."""
    begun, memory = time.monotonic(), 0
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            stdout=said,
        )
        while process.poll() is None:
            memory = max(memory, _memory(process.pid))
            time.sleep(LOOK_SECONDS)
        if process.returncode not in (0, 1):
            raise subprocess.CalledProcessError(process.returncode, process.args)
        seconds = time.monotonic() - begun
        said.seek(0)
        return Ran(said.read(), seconds, memory)


def _memory(pid: int) -> int:
    total = 0
    try:
        for process in (psutil.Process(pid), *psutil.Process(pid).children(recursive=True)):
            total += own_memory(process.pid)
    except (psutil.Error, OSError, ValueError):  # one that has just ended
        pass
    return total


def exported(places: Places, made: Made) -> None:
    """Rows a second of `leveret export events`, its start included."""
    found = ran("broker", "export", "events", "--from", str(places.log), "--to", str(places.export))
    size = sum(path.stat().st_size for path in places.export.iterdir())
    report(
        "export",
        events=made.events,
        seconds=round(found.seconds, 1),
        rows_per_s=round(made.events / found.seconds),
        mib=mib(size),
        memory_mib=mib(found.memory),
    )


def by_spark(where: Path, places: Places) -> tuple[Ran, dict[str, Any], Outcome]:
    """`leveret pipeline audit`. Its results say when it had a session and began."""
    out = places.out / where.name
    found = ran("broker", "pipeline", "audit", "--from", str(where), "--out", str(out), "--json")
    run = json.loads((out / "audit" / "_run.json").read_text())
    worked = datetime.fromisoformat(run["ended"]) - datetime.fromisoformat(run["began"])
    said = json.loads(found.said)
    return found, {"without_session_s": round(worked.total_seconds(), 1)}, (said["verdicts"], said["violations"])


def by_program(module: str, where: Path) -> tuple[Ran, dict[str, Any], Outcome]:
    """A program that prints verdicts and violations."""
    found = ran(module, str(where))
    said = json.loads(found.said)
    return found, {}, (said["verdicts"], said["violations"])


AUDITS: dict[str, Callable[[Places], tuple[Ran, dict[str, Any], Outcome]]] = {
    "segments": lambda places: by_spark(places.log, places),
    "export": lambda places: by_spark(places.export, places),
    "python": lambda places: by_program("harness.event_logs.plain_audit", places.log),
    "duckdb": lambda places: by_program("bench.pipeline.duckdb_audit", places.export),
}


def measure(directory: Path, events: int, audits: list[str]) -> None:
    """Everything about a log of so many events. Raises AssertionError when two audits disagree."""
    places = Places(*(directory / name for name in Places._fields))
    places.log.mkdir(parents=True)
    begun = time.monotonic()
    made = write(places.log, events)
    size = sum(path.stat().st_size for path in places.log.iterdir())
    report("log", events=made.events, mib=mib(size), seconds=round(time.monotonic() - begun, 1))
    exported(places, made)
    outcomes: dict[str, Outcome] = {}
    for audit in audits:
        found, further, outcomes[audit] = AUDITS[audit](places)
        figures = {"seconds": round(found.seconds, 1), **further, "memory_mib": mib(found.memory)}
        report(f"audit, {audit}", events=made.events, **figures)
        check(made, *outcomes[audit])
        assert outcomes[audit] == outcomes[audits[0]], outcomes
    report("verdicts", events=made.events, **outcomes[audits[0]][0], violations=outcomes[audits[0]][1])


def check(made: Made, verdicts: dict[str, int], violations: int) -> None:
    """Exactly what was planted was found. Raises AssertionError."""
    found = {verdict: verdicts.get(verdict) for verdict in made.planted} | {VIOLATIONS: violations}
    assert found == made.planted, (found, made.planted)


def main() -> None:
    """Each number of events in turn."""
    installed = [audit for audit in AUDITS if audit != "duckdb" or importlib.util.find_spec("duckdb")]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--events", type=int, nargs="+", default=EVENTS)
    parser.add_argument("--audits", nargs="+", choices=list(AUDITS), default=installed)
    options = parser.parse_args()
    for events in options.events:
        with tempfile.TemporaryDirectory(prefix="bench-pipeline-") as directory:
            measure(Path(directory), events, options.audits)


if __name__ == "__main__":
    main()
