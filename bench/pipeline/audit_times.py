"""Time of an event log's export and audit, and how it grows: `python -m bench.pipeline.audit_times`.

The log is made up (harness/event_logs/made_up_log.py), and the number of mistakes in it is known; or it is one that a
broker has written, with `--log DIRECTORY`. It is exported, and audited by each engine over the segments, and over the
export. Each is a process of its own, timed from its start to its end with CPU seconds of all its processes, memory
being that of them together (RssAnon), at the most. All must come to the same verdicts, and find what was planted. One
line of JSON for each.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import psutil

from bench.load.measured_broker import mib, report
from harness.event_logs.made_up_log import VIOLATIONS, Made, write
from harness.process_figures import own_memory
from harness.project import ROOT
from pipeline.event_parts import parts_of
from pipeline.jobs.engines import events_in

EVENTS = (1_000_000, 3_000_000, 10_000_000)
LOOK_SECONDS = 0.05


class Ran(NamedTuple):
    """A process's output, seconds, CPU seconds and most bytes that it and its children took."""

    said: str
    seconds: float
    cpu: float
    memory: int


class Places(NamedTuple):
    """Places of a log, its export, and the audits' results."""

    log: Path
    export: Path
    out: Path


Outcome = tuple[dict[str, int], int]
"""Count of copies by verdict; count of copies with violations."""


def ran(module: str, *arguments: str) -> Ran:
    """Run a module to its end. Raises CalledProcessError when it fails; 1 says that an audit has found something."""
    begun, memory, cpu = time.monotonic(), 0, dict[int, float]()
    with tempfile.TemporaryFile("w+") as said:
        process = psutil.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            stdout=said,
        )
        while process.poll() is None:
            memory = max(memory, _look(process, cpu))
            time.sleep(LOOK_SECONDS)
        if process.returncode not in (0, 1):
            raise subprocess.CalledProcessError(process.returncode, process.args)
        seconds = time.monotonic() - begun
        said.seek(0)
        return Ran(said.read(), seconds, sum(cpu.values()), memory)


def _look(process: psutil.Process, cpu: dict[int, float]) -> int:
    """Bytes that a process and its children hold; the CPU seconds of each are noted."""
    total = 0
    with suppress(psutil.Error):  # it has just ended
        for each in (process, *process.children(recursive=True)):
            with suppress(psutil.Error, OSError, ValueError):  # one that has ended, and hides none of the others
                cpu[each.pid] = sum(each.cpu_times()[:2])
                total += own_memory(each.pid)
    return total


def exported(places: Places, events: int) -> None:
    """Rows a second of `leveret export events`, its start included."""
    found = ran("broker", "export", "events", "--from", str(places.log), "--to", str(places.export))
    size = sum(path.stat().st_size for path in places.export.iterdir())
    report(
        "export",
        events=events,
        seconds=round(found.seconds, 1),
        cpu_s=round(found.cpu, 1),
        rows_per_s=round(events / found.seconds),
        mib=mib(size),
        memory_mib=mib(found.memory),
    )


def audited(audit: str, places: Places, events: int, spark: list[str]) -> Outcome:
    """`leveret pipeline audit` by an engine over the segments, or over the export; `spark`: options for Spark."""
    engine, where = AUDITS[audit]
    out = places.out / audit.replace(" ", "-")
    further = spark if engine == "spark" else []
    arguments = ("--from", str(getattr(places, where)), "--out", str(out), "--engine", engine, "--json", *further)
    found = ran("broker", "pipeline", "audit", *arguments)
    figures = {"seconds": round(found.seconds, 1), "cpu_s": round(found.cpu, 1), "memory_mib": mib(found.memory)}
    report(f"audit, {audit}", events=events, **figures)
    said = json.loads(found.said)
    return said["verdicts"], said["violations"]


AUDITS = {
    "local": ("local", "log"),
    "local export": ("local", "export"),
    "spark": ("spark", "log"),
    "spark export": ("spark", "export"),
}
"""Engines, and what they read."""


def measure(directory: Path, events: int, audits: list[str], log: Path | None, spark: list[str]) -> None:
    """All figures of a log of `events` events. Raises AssertionError when two audits disagree."""
    places = Places(*(directory / name for name in Places._fields))
    made = None
    if log is None:
        places.log.mkdir(parents=True)
        made = write(places.log, events)
        events = made.events
    else:
        places = places._replace(log=log)
        events = events_in(parts_of(str(log)))
    report("log", events=events, mib=mib(sum(path.stat().st_size for path in places.log.iterdir())))
    if any(AUDITS[audit][1] == "export" for audit in audits):
        exported(places, events)
    outcomes = {audit: audited(audit, places, events, spark) for audit in audits}
    for outcome in outcomes.values():
        assert outcome == outcomes[audits[0]], outcomes
    verdicts, violations = outcomes[audits[0]]
    report("verdicts", events=events, **verdicts, violations=violations)
    if made is not None:
        check(made, verdicts, violations)


def check(made: Made, verdicts: dict[str, int], violations: int) -> None:
    """Exactly what was planted was found. Raises AssertionError."""
    found = {verdict: verdicts.get(verdict) for verdict in made.planted} | {VIOLATIONS: violations}
    assert found == made.planted, (found, made.planted)


def main() -> None:
    """Each number of events in turn."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--events", type=int, nargs="+", default=EVENTS)
    parser.add_argument("--log", type=Path, help="a directory of segments, in place of made-up ones")
    parser.add_argument("--audits", nargs="+", choices=list(AUDITS), default=list(AUDITS))
    parser.add_argument("--master", help="Spark's master; figures are then those of the driver alone")
    parser.add_argument("--conf", action="append", default=[], metavar="KEY=VALUE", help="a setting of Spark")
    options = parser.parse_args()
    spark = [] if options.master is None else ["--master", options.master]
    spark += [word for setting in options.conf for word in ("--conf", setting)]
    for events in options.events if options.log is None else (0,):
        with tempfile.TemporaryDirectory(prefix="bench-pipeline-") as directory:
            measure(Path(directory), events, options.audits, options.log, spark)


if __name__ == "__main__":
    main()
