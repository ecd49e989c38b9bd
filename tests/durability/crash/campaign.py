"""Explores seed after seed for as long as it is let, and keeps count of what it has done.

Each seed is recorded and explored by a process of its own. What is finished is written down at once, so that a run that
is ended in any way goes on where it was. The record of a seed that fails is kept, because another recording of
the same seed would not be the same: the clients and the disk are never quite as fast again.
"""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.durability.crash.explorer import MEMORY, Findings, Search, explore, read
from tests.durability.crash.recording.recorded import BATCHES, BROKER, LIVES, STORE, record_broker, record_store
from tests.durability.crash.recording.recorder import PROJECT, Recording
from tests.durability.crash.subjects import SUBJECTS

TARGET = 1_000_000
MISHAPS_MAX = 5

STORE_EVERY = 6
"""Every so many seeds the message store is recorded alone."""


@dataclass
class Progress:
    """What has been done so far, over all runs. `next_seed` has not been begun."""

    states: int = 0
    judged: int = 0
    seconds: float = 0.0
    next_seed: int = 1
    seeds_done: list[int] = field(default_factory=list)
    failures: list[dict[str, str]] = field(default_factory=list)

    @classmethod
    def read(cls, path: Path) -> Progress:
        """What is written down, or the beginning."""
        return cls(**json.loads(path.read_text())) if path.exists() else cls()

    def write(self, path: Path) -> None:
        """Write it down whole."""
        draft = path.with_suffix(".new")
        draft.write_text(json.dumps(asdict(self), indent=1) + "\n")
        draft.replace(path)

    def begin(self) -> int:
        """The next seed that nobody has done or is doing."""
        done = set(self.seeds_done)
        while self.next_seed in done:
            self.next_seed += 1
        self.next_seed += 1
        return self.next_seed - 1

    def add(self, seed: int, findings: Findings, kept: Path | None) -> None:
        """A seed is done."""
        self.states += findings.states
        self.judged += findings.judged
        self.seeds_done.append(seed)
        for failure in findings.failures:
            command = f"python -m tests.durability.crash replay {kept} {failure.place}"
            self.failures.append({"seed": str(seed), **failure._asdict(), "replay": command})


def subject_of(seed: int) -> str:
    """What is recorded with a seed."""
    return STORE if seed % STORE_EVERY == 0 else BROKER


def record(home: Path, seed: int, planted: str = "", steps: int = 0) -> Recording:
    """Record what a seed stands for; with `steps` one life of so many."""
    if subject_of(seed) == STORE:
        return record_store(home, seed, steps or BATCHES, planted=planted)
    return record_broker(home, seed, (steps,) if steps else LIVES, planted=planted, abrupt=bool(seed % 2))


def run_seed(directory: Path, seed: int, planted: str = "", steps: int = 0) -> tuple[Findings, Path | None]:
    """Record and explore a seed; where its record is kept, if anything is wrong."""
    memory = MEMORY if os.access(MEMORY, os.W_OK) else None
    with TemporaryDirectory(prefix="leveret-record-", dir=memory) as temporary:
        recording = record(Path(temporary) / "record", seed, planted, steps)
        findings = explore(recording, SUBJECTS[recording.about.subject], Search())
        if not findings.failed:
            return findings, None
        kept = directory / f"{recording.about.subject}-{seed}"
        recording.keep(kept)
        return findings, kept


class Campaign:
    """Several seeds at a time, until so many states more have been recovered; none is begun after so many minutes."""

    def __init__(
        self, directory: Path, jobs: int, states: int | None, steps: int = 0, minutes: float = math.inf
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._file = directory / "progress.json"
        self._jobs = jobs
        self._steps = steps
        self._progress = Progress.read(self._file)
        self._this_run = Progress()
        self._states_wanted = math.inf if states is None else states
        self._until = time.monotonic() + minutes * 60
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        self._interrupted = False
        self._mishaps_in_a_row = 0
        self._mishaps = 0

    def run(self) -> int:
        """Go on until there are enough states or the time is over, or until interrupted; the exit code."""
        # A seed that was begun and not finished is done again; `seeds_done` says which are.
        self._progress.next_seed = 1
        handlers = {number: signal.signal(number, self._interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            while self._wanted or self._running:
                while self._wanted and len(self._running) < self._jobs:
                    self._begin()
                self._await_one()
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
        done = self._this_run
        print(
            f"{done.states:,} states of {len(done.seeds_done)} seeds recovered, judged {done.judged:,} times: "
            f"{len(done.failures)} failures kept, {self._mishaps} seeds could not be explored; "
            f"in all runs {self._progress.states:,} of {TARGET:,}"
        )
        return 1 if done.failures else 0

    def _interrupt(self, _number: int, _frame: object) -> None:
        """End soon; what is running is given up."""
        self._interrupted = True
        for process in self._running.values():
            process.terminate()

    @property
    def _wanted(self) -> bool:
        over = self._this_run.states >= self._states_wanted or time.monotonic() >= self._until
        return not (self._interrupted or over)

    def _begin(self) -> None:
        seed = self._progress.begin()
        command = [
            sys.executable,
            "-m",
            "tests.durability.crash",
            "seed",
            str(seed),
            "--directory",
            str(self._directory),
        ]
        command += ["--steps", str(self._steps)]
        # In a session of its own it is not interrupted itself, and leaves nothing behind.
        self._running[seed] = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=PROJECT, start_new_session=True)
        if self._interrupted:
            self._running[seed].terminate()

    def _await_one(self) -> None:
        """Wait until some seed is done, and write it down."""
        started = time.monotonic()
        pid, status = os.wait()
        seed = next(seed for seed, process in self._running.items() if process.pid == pid)
        process = self._running.pop(seed)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.stdout is not None
        output = process.stdout.read()
        process.stdout.close()
        if process.returncode and self._interrupted:
            return
        if process.returncode:
            self._failed_to_explore(seed, process.returncode)
            return
        self._mishaps_in_a_row = 0
        self._progress.seconds += time.monotonic() - started
        self._add(seed, read(output))

    def _failed_to_explore(self, seed: int, code: int) -> None:
        """On a busy machine a client may run out of patience: the seed is left for the next run."""
        self._mishaps += 1
        self._mishaps_in_a_row += 1
        print(f"seed {seed} could not be explored: exit code {code}", flush=True)
        if self._mishaps_in_a_row == MISHAPS_MAX:
            raise SystemExit(f"{MISHAPS_MAX} seeds in a row could not be explored")

    def _add(self, seed: int, findings: Findings) -> None:
        kept = self._directory / f"{subject_of(seed)}-{seed}"
        self._progress.add(seed, findings, kept)
        self._this_run.add(seed, findings, kept)
        self._progress.write(self._file)
        done = self._progress
        print(
            f"seed {seed} ({subject_of(seed)}): {findings.states} states, {findings.failed} failed; "
            f"{done.states:,} of {TARGET:,} in {done.seconds / 3600:.1f} hours, {len(done.failures)} failures kept",
            flush=True,
        )
        for failure in findings.failures[:1]:
            print(f"  {failure.problem}\n  python -m tests.durability.crash replay {kept} {failure.place}", flush=True)
