"""Explores seed after seed for as long as it is let, and keeps count of what it has done.

Each seed is recorded and explored by a process of its own. A finished seed is written down at once, so that a run that
is ended in any way goes on where it was. The record of a seed that fails is kept, because another recording of the
same seed would not be the same: the clients and the disk are never quite as fast again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import asdict, dataclass, field, fields
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from harness.waiting import begun_within
from tests.durability.crash.explorer import MEMORY, Findings, explore
from tests.durability.crash.recording.recorded import LIVES, record_broker

MISHAPS_MAX = 5
"""Seeds in a row that cannot be explored before the campaign ends."""


@dataclass
class Progress:
    """Counts of all runs so far."""

    states: int = 0
    judged: int = 0
    seeds_done: list[int] = field(default_factory=list)
    failures: list[dict[str, str]] = field(default_factory=list)

    @classmethod
    def read(cls, path: Path) -> Progress:
        """Read the progress written down, or begin."""
        if not path.exists():
            return cls()
        known = json.loads(path.read_text())
        return cls(**{each.name: known[each.name] for each in fields(cls)})

    def write(self, path: Path) -> None:
        """Write it down whole."""
        draft = path.with_suffix(".new")
        draft.write_text(json.dumps(asdict(self), indent=1) + "\n")
        draft.replace(path)

    def left(self, numbers: Iterator[int]) -> Iterator[int]:
        """A seed that nobody has done for each of the numbers. One that was begun and not finished is done again."""
        done, seed = set(self.seeds_done), 0
        for _ in numbers:
            seed += 1
            while seed in done:
                seed += 1
            yield seed

    def add(self, explored: Explored) -> None:
        """A seed is done."""
        findings = explored.findings
        self.states += findings.states
        self.judged += findings.judged
        self.seeds_done.append(explored.seed)
        for failure in findings.failures:
            command = f"python -m tests.durability.crash replay {explored.kept} {failure.place}"
            self.failures.append({"seed": str(explored.seed), **failure._asdict(), "replay": command})


class Explored(NamedTuple):
    """The result of a seed, and the place of its record if anything is wrong."""

    seed: int
    findings: Findings
    kept: Path | None


def run_seed(directory: Path, seed: int, planted: str = "", steps: int = 0) -> Explored:
    """Record and explore a seed; with `steps`, as a trial, one life of that many, at its decisive instants."""
    memory = MEMORY if os.access(MEMORY, os.W_OK) else None
    with TemporaryDirectory(prefix="leveret-record-", dir=memory) as temporary:
        lives = (steps,) if steps else LIVES
        recording = record_broker(Path(temporary) / "record", seed, lives, planted=planted, abrupt=bool(seed % 2))
        findings = explore(recording, decisive=steps > 0)
        if not findings.failed:
            return Explored(seed, findings, None)
        kept = directory / f"broker-{seed}"
        recording.keep(kept)
        return Explored(seed, findings, kept)


def run(directory: Path, jobs: int, minutes: float, steps: int = 0) -> int:
    """Several seeds at a time, none begun after `minutes`; the exit code."""
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / "progress.json"
    progress, here = Progress.read(file), Progress()
    seeds = progress.left(begun_within(minutes))
    mishaps = in_a_row = 0
    with ProcessPoolExecutor(jobs, max_tasks_per_child=1) as pool:
        running: set[Future[Explored]] = set()
        while True:
            running |= {
                pool.submit(run_seed, directory, seed, steps=steps) for seed in islice(seeds, jobs - len(running))
            }
            if not running:
                break
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                try:
                    explored = future.result()
                except (AssertionError, OSError, EOFError) as error:  # a client on a busy machine has lost patience
                    print(f"a seed could not be explored, and is left for the next run: {error!r}", flush=True)
                    mishaps, in_a_row = mishaps + 1, in_a_row + 1
                    if in_a_row == MISHAPS_MAX:
                        raise
                    continue
                in_a_row = 0
                for each in (progress, here):
                    each.add(explored)
                progress.write(file)
                print(_line(explored, progress), flush=True)
    print(
        f"{here.states:,} states of {len(here.seeds_done)} seeds recovered, judged {here.judged:,} times: "
        f"{len(here.failures)} failures kept, {mishaps} seeds could not be explored; in all runs {progress.states:,}"
    )
    return 1 if here.failures else 0


def _line(explored: Explored, progress: Progress) -> str:
    findings = explored.findings
    line = f"seed {explored.seed}: {findings.states} states, {findings.failed} failed; {progress.states:,} in all runs"
    for failure in findings.failures[:1]:
        line += f"\n  {failure.problem}\n  python -m tests.durability.crash replay {explored.kept} {failure.place}"
    return line
