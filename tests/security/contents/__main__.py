"""Tell brokers hostile contents, round after round: `python -m tests.security.contents --minutes 10`.

Each round is a broker and a data directory of its own and follows from its seed: what is said by whom, and how each
life of the broker ends. A failure prints the round, what was expected and found, and the command that repeats it, and
keeps the data directory. The last line says what was tried.
"""

from __future__ import annotations

import argparse
import secrets
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from harness.waiting import begun_within
from tests.durability.kills.cycle import BrokenPromiseError
from tests.security.contents.contents_round import LARGE, SMALL, Scale, prepared


def main() -> None:
    """Run the rounds; exit with 1 when one has failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.security.contents", description=__doc__)
    often = parser.add_mutually_exclusive_group()
    often.add_argument("--rounds", type=int, default=20, help="20 if not given")
    often.add_argument("--minutes", type=float, help="rounds begun within this time, instead of --rounds")
    parser.add_argument("--seed", type=int, help="of the first round; each has the next one")
    parser.add_argument("--small", action="store_true", help="short rounds, as in the tests")
    parser.add_argument("--without-journal", action="store_true", help="no pieces of the journal, no forged records")
    parser.add_argument("--directory", type=Path, help="where data directories are made; the system's for such things")
    options = parser.parse_args()
    first = secrets.randbelow(1 << 32) if options.seed is None else options.seed
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # so that no broker is left
    rounds = range(1, options.rounds + 1) if options.minutes is None else begun_within(options.minutes)
    begun, done = time.monotonic(), Counter[str]()
    for number in rounds:
        scale = SMALL if options.small else LARGE
        try:
            done += run(first + number - 1, scale, options.directory, of_the_journal=not options.without_journal)
        except BrokenPromiseError as error:
            sys.exit(f"{error}\n{summary(done, begun)}")
    print(summary(done, begun))


def run(seed: int, scale: Scale, within: Path | None, *, of_the_journal: bool) -> Counter[str]:
    """One round, and what was said in it. Raises BrokenPromiseError."""
    directory = Path(tempfile.mkdtemp(prefix="leveret-contents-", dir=within))
    print(f"seed {seed}, data in {directory}", flush=True)
    began = time.monotonic()
    with prepared(directory, seed, scale, of_the_journal=of_the_journal) as one:
        one.go_through()
    figures = ", ".join(f"{count:,} {name}" for name, count in sorted(one.said.items()))
    print(f"  {time.monotonic() - began:.0f} s: {figures}", flush=True)
    shutil.rmtree(directory)
    return one.said + Counter(rounds=1)


def summary(done: Counter[str], begun: float) -> str:
    """Return a line on what was tried."""
    seconds = time.monotonic() - begun
    return (
        f"{done['rounds']:,} rounds in {seconds:.0f} s: {done['hostile bodies']:,} hostile bodies, "
        f"{done['forged records']:,} full of forged records, {done['hostile queues']:,} hostile queues, "
        f"{done['kills']:,} kills and {done['stops']:,} stops; {done['messages read']:,} messages read back"
    )


if __name__ == "__main__":
    main()
