"""The whole matrix of faults against the real broker: `python -m tests.durability.faults.matrix`.

Prints a line for each column (a kind of operation, an error, some files, from when on): how often the fault was met,
and what became of the broker. Exit code 1 when anything was not as promised.
"""

from __future__ import annotations

import argparse
import errno
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

from harness.brokers.preload import library
from tests.durability.faults.injector import ANYTHING, DEFINITIONS, KINDS, LOG, MESSAGES, SHORT, SOURCE, Fault
from tests.durability.faults.life import Ending, live

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
            for files in (MESSAGES, DEFINITIONS, LOG) if kind in ("write", "sync") else (ANYTHING,):
                for error in (errno.EIO, errno.ENOSPC, *([SHORT] if kind == "write" else [])):
                    for forever in (False, True):
                        if not (forever and error == SHORT):
                            yield Column(kind, error, files, when, forever)


def run(column: Column, directory: Path, injector: Path, numbers: range) -> list[Ending]:
    """The faults of a column, up to the first that was not met."""
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


def main() -> None:
    """Run every column, several at a time."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--upto", type=int, default=NTH_MAX, help="the highest N")
    parser.add_argument("--step", type=int, default=1, help="every so-manieth N")
    parser.add_argument("--only", default="", help="columns whose line contains this")
    wanted = parser.parse_args()
    begun = time.monotonic()
    met = wrong = 0
    with tempfile.TemporaryDirectory(prefix="disk-faults-") as name, ProcessPoolExecutor(wanted.workers) as pool:
        injector, numbers = library(SOURCE), range(1, wanted.upto + 1, wanted.step)
        chosen = [column for column in columns() if wanted.only in str(column)]
        places = [Path(name) / str(number) for number in range(len(chosen))]
        started = [pool.submit(run, *each, injector, numbers) for each in zip(chosen, places, strict=True)]
        for column, future in zip(chosen, started, strict=True):
            endings = future.result()
            print(summary(column, endings), flush=True)
            met += sum(ending.met for ending in endings)
            wrong += sum(bool(ending.problems) for ending in endings)
    print(f"{met} faults met, {wrong} not as promised, {time.monotonic() - begun:.0f} s")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
