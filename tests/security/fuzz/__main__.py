"""`make fuzz`: each target under libFuzzer for some seconds, and a line for each that says what came of it.

    python -m tests.security.fuzz [--seconds 60 | --minutes 7] [TARGET ...]

Inputs that reached something new are kept below ./fuzz-corpus and built upon by the next run; the lines too, in
./fuzz-corpus/log. What fails lies in ./fuzz-corpus/found; `python -m tests.security.fuzz --again FILE TARGET` shows it
again.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from tests.security.fuzz.broker_under_test import MEMORY_DIRECTORY
from tests.security.fuzz.choices import Choices
from tests.security.fuzz.target_table import TARGETS

KEPT = Path("fuzz-corpus")
LOG = KEPT / "log"
COMMITTED = Path(__file__).parent / "corpus"
WORDS_OF_THE_END = 40


class Outcome(NamedTuple):
    """The result of a run of one target. `memory` is in MiB, at the end."""

    target: str
    seconds: float
    inputs: int
    coverage: int
    memory: int
    failed: bool

    def __str__(self) -> str:
        return (
            f"{time.strftime('%Y-%m-%dT%H:%M:%S')} {self.target}: {self.inputs} inputs in {self.seconds:.0f} s, "
            f"coverage {self.coverage}, {self.memory} MiB; {'FAILED' if self.failed else 'nothing found'}"
        )


def run(target: str, seconds: int) -> Outcome:
    """Fuzz one target. libFuzzer's output is shown when it fails."""
    corpus, found, committed = KEPT / target, KEPT / "found", COMMITTED / target
    for directory in (corpus, found):
        directory.mkdir(parents=True, exist_ok=True)
    corpora = [str(corpus), *([str(committed)] if committed.is_dir() else [])]
    command = [sys.executable, "-m", "tests.security.fuzz.guided", target, str(seconds), f"{found}/{target}-", *corpora]
    memory = MEMORY_DIRECTORY if MEMORY_DIRECTORY.is_dir() else None
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="leveret-fuzz-", dir=memory) as scratch:
        environment = {**os.environ, "TMPDIR": scratch, "PYTHONPATH": "."}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, errors="replace")
    outcome = _read(target, time.monotonic() - started, done.stderr + done.stdout, failed=done.returncode != 0)
    if outcome.failed:
        print(*(done.stderr + done.stdout).splitlines()[-WORDS_OF_THE_END:], sep="\n")
    return outcome


def _read(target: str, seconds: float, said: str, *, failed: bool) -> Outcome:
    def last(pattern: str) -> int:
        return int((re.findall(pattern, said) or ["0"])[-1])

    inputs = last(r"stat::number_of_executed_units:\s+(\d+)")
    return Outcome(target, seconds, inputs, last(r"cov: (\d+)"), last(r"rss: (\d+)Mb"), failed)


def again(path: Path, target: str) -> None:
    """Run one input by itself: it raises what it raised."""
    with TARGETS[target]() as take:
        take(Choices(path.read_bytes()))


def main() -> None:
    """Fuzz the targets that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", metavar="TARGET", nargs="*", choices=[*TARGETS, []], default=[])
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--minutes", type=float, help="for all targets together")
    parser.add_argument("--again", type=Path, metavar="FILE")
    chosen = parser.parse_args()
    if chosen.again:
        again(chosen.again, chosen.targets[0])
        return
    targets = chosen.targets or list(TARGETS)
    seconds = chosen.seconds if chosen.minutes is None else max(1, int(chosen.minutes * 60 / len(targets)))
    outcomes = []
    for target in targets:
        outcomes.append(run(target, seconds))
        print(outcomes[-1], flush=True)
        with LOG.open("a") as log:
            print(outcomes[-1], file=log)
    failed = [outcome.target for outcome in outcomes if outcome.failed]
    inputs = ", ".join(f"{outcome.inputs:,} of {outcome.target}" for outcome in outcomes)
    print(f"{sum(outcome.inputs for outcome in outcomes):,} inputs: {inputs}; failed: {', '.join(failed) or 'none'}")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
