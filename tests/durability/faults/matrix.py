"""The whole matrix of faults against the real broker: `python -m tests.durability.faults.matrix`.

Prints a line for each column (a kind of operation, an error, some files, from when on): how often the fault was met,
and what became of the broker. Exit code 1 when anything was not as promised. With `--minutes` no column is begun after
that time; the next run with it goes on with the next column, and after the last one with the first.
"""

from __future__ import annotations

import argparse
import errno
import math
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

from leveret.testing.power.preload import library
from tests.durability.faults.injector import (
    ANYTHING,
    DEFINITIONS,
    JOURNAL,
    KINDS,
    LMDB,
    LOG,
    MESSAGES,
    SHORT,
    SOURCE,
    Fault,
)
from tests.durability.faults.life import Ending, live

PROGRESS = Path("build/disk-faults-next")
"""Number of the first column that a run with `--minutes` has not begun."""
NTH_MAX = 50
WHEN = ("creation", "start", "work")


class Column(NamedTuple):
    """Everything of a fault but its number, and from when on the disk is broken."""

    kind: str
    error: int
    files: str
    when: str
    forever: bool

    def __str__(self) -> str:
        lasting = "from then on" if self.forever else "once"
        return f"{self.kind:8} {errno.errorcode.get(self.error, 'short'):6} {lasting:12} {self.files:22} {self.when:8}"

    def fault(self, nth: int) -> Fault:
        return Fault(self.kind, self.error, self.files, nth, self.forever)


def columns() -> Iterator[Column]:
    """Every kind, error and time; files by store for what the stores do, all of them together for names."""
    for when in WHEN:
        for kind in KINDS:
            for files in (MESSAGES, LMDB, JOURNAL, DEFINITIONS, LOG) if kind in ("write", "sync") else (ANYTHING,):
                for error in (errno.EIO, errno.ENOSPC, *([SHORT] if kind == "write" else [])):
                    for forever in (False, True):
                        if not (forever and error == SHORT):
                            yield Column(kind, error, files, when, forever)


class Outcome(NamedTuple):
    """Columns that were begun, faults that were met, lives that did not end as promised."""

    columns: int
    met: int
    wrong: int


def run(column: Column, directory: Path, injector: Path, numbers: range, until: float) -> list[Ending] | None:
    """The faults of a column, up to the first that was not met; None if the monotonic clock is past `until`."""
    if time.monotonic() > until:
        return None
    endings = []
    for nth in numbers:
        ending = live(directory / str(nth), injector, column.fault(nth), column.when)
        endings.append(ending)
        if not ending.met:
            break
    return endings


def summary(column: Column, endings: list[Ending]) -> str:
    met = [ending for ending in endings if ending.met]
    how = Counter("ended" if ending.line else "refused" if ending.refused else "went on" for ending in met)
    wrong = [ending for ending in endings if ending.problems]
    counts = "  ".join(f"{word} {how[word]:3}" for word in ("went on", "refused", "ended"))
    return f"{column} met {len(met):3}: {counts}" + "".join(f"\n  WRONG {ending}" for ending in wrong)


def run_columns(chosen: list[Column], workers: int, numbers: range, until: float) -> Outcome:
    """Run columns in their order, several at a time, the first of them in any case; print a line for each."""
    begun = met = wrong = 0
    with tempfile.TemporaryDirectory(prefix="disk-faults-") as name, ProcessPoolExecutor(workers) as pool:
        injector = library(SOURCE)
        started = [
            pool.submit(run, column, Path(name) / str(place), injector, numbers, until if place else math.inf)
            for place, column in enumerate(chosen)
        ]
        for column, future in zip(chosen, started, strict=True):
            endings = future.result()
            if endings is None:
                break
            print(summary(column, endings), flush=True)
            begun += 1
            met += sum(ending.met for ending in endings)
            wrong += sum(bool(ending.problems) for ending in endings)
    return Outcome(begun, met, wrong)


def main() -> int:
    """Run every column, or those that are begun in time; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.durability.faults.matrix", description=__doc__)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--upto", type=int, default=NTH_MAX, help="the highest N")
    parser.add_argument("--only", default="", help="columns whose line contains this")
    parser.add_argument("--minutes", type=float, help="begin no column after this time; the next run goes on there")
    parser.add_argument("--progress", type=Path, default=PROGRESS, help="the file that says where")
    wanted = parser.parse_args()
    began = time.monotonic()
    chosen = [column for column in columns() if wanted.only in str(column)]
    first, until = 0, math.inf
    if wanted.minutes is not None:
        first = int(wanted.progress.read_text()) % len(chosen) if wanted.progress.exists() else 0
        until = began + wanted.minutes * 60
    outcome = run_columns(chosen[first:] + chosen[:first], wanted.workers, range(1, wanted.upto + 1), until)
    if wanted.minutes is not None:
        wanted.progress.parent.mkdir(parents=True, exist_ok=True)
        wanted.progress.write_text(f"{(first + outcome.columns) % len(chosen)}\n")
    print(
        f"{outcome.columns} of {len(chosen)} columns, from column {first + 1} on: "
        f"{outcome.met:,} faults met, {outcome.wrong} not as promised; {time.monotonic() - began:.0f} s"
    )
    return 1 if outcome.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
