"""Do to brokers' data what operators do, round after round: `python -m tests.durability.operators --minutes 10`.

Each round is a data directory of its own, and follows from its seed: how its broker lives and ends, what is done to the
directory then, and how it is started again. A failure prints what was done, what was expected, and the command that
repeats it, and keeps the directory. The last line says what was tried.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from functools import partial
from itertools import islice
from pathlib import Path

from harness.campaign_options import campaign_parser, exit_on_sigterm, first_seed, numbered
from tests.durability.kills.cycle import BrokenPromiseError
from tests.durability.operators.operator_round import prepared
from tests.planted.planted_catalogue import with_mistake


def main() -> None:
    """Run the rounds; exit with 1 when one has failed."""
    parser = campaign_parser("tests.durability.operators", __doc__, rounds=100)
    parser.add_argument("--steps", default="", help="the names of the steps, with semicolons between them; else drawn")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many rounds at a time")
    parser.add_argument("--keep-going", action="store_true", help="go on after a failure")
    parser.add_argument("--planted", metavar="MISTAKE", help="plant a mistake of the catalogue in every process")
    parser.add_argument("--directory", type=Path, help="where data directories are made; the system's for such things")
    options = parser.parse_args()
    exit_on_sigterm()
    logging.disable(logging.CRITICAL)  # what is found in stores is logged by what looks into them
    begun, done = time.monotonic(), Counter[str]()
    environment = with_mistake(options.planted) if options.planted else dict(os.environ)
    seeds = numbered(options, first_seed(options))
    rounds = partial(run, within=options.directory, environment=environment, steps=names(options.steps))
    for outcome, problem in outcomes(seeds, options.jobs, rounds):
        done += outcome
        if problem:
            print(problem, flush=True)
            if not options.keep_going:
                break
    print(summary(done, begun))
    sys.exit(1 if done["failed"] else 0)


def names(text: str) -> tuple[str, ...]:
    """The names of steps, without the spaces around them."""
    return tuple(name.strip() for name in text.split(";") if name.strip())


Outcome = tuple[Counter[str], str]


def outcomes(seeds: Iterator[int], jobs: int, one: Callable[[int], Outcome]) -> Iterator[Outcome]:
    """Yield the outcome of each round, several rounds at a time."""
    with ProcessPoolExecutor(jobs) as pool:
        running: set[Future[Outcome]] = set()
        while True:
            running |= {pool.submit(one, seed) for seed in islice(seeds, jobs - len(running))}
            if not running:
                return
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                yield future.result()


def run(seed: int, within: Path | None, environment: Mapping[str, str], steps: Sequence[str] = ()) -> Outcome:
    """One round: what was done in it, and what was wrong, with the command that repeats it."""
    home = Path(tempfile.mkdtemp(prefix="leveret-operators-", dir=within))
    began = time.monotonic()
    try:
        with prepared(home, seed, environment, steps) as one:
            one.go_through()
    except BrokenPromiseError as error:
        planted = f" --planted '{environment['PLANTED']}'" if "PLANTED" in environment else ""
        named = f" --steps '{'; '.join(steps)}'" if steps else ""
        command = f"python -m tests.durability.operators --rounds 1 --seed {seed}{named}{planted}"
        head = f"round {seed}, {time.monotonic() - began:.0f} s"
        return Counter(rounds=1, failed=1), "\n".join([head, str(error), f"data: {home}", command])
    shutil.rmtree(home)
    return Counter(rounds=1, **one.done), ""


def summary(done: Counter[str], begun: float) -> str:
    """Return a line on what was tried."""
    return (
        f"{done['rounds']:,} rounds in {time.monotonic() - begun:.0f} s: {done['lives']:,} lives, "
        f"{done['steps']:,} steps, {done['refused']:,} starts refused and mended, {done['failed']:,} rounds failed"
    )


if __name__ == "__main__":
    main()
