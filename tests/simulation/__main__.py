"""`python -m tests.simulation`: run a seed and see it, or many seeds on all cores and count."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import chain, count, islice

from harness.waiting import begun_within
from tests.simulation.seeds import FOUND_ONCE, TESTED_MINUTES_MAX, replay, shrink


def arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, help="the seed of one run")
    parser.add_argument("--seeds", type=int, default=20, help="how many runs, when no seed is given; 0: for ever")
    parser.add_argument("--minutes", type=float, help="runs begun within this time, instead of --seeds")
    parser.add_argument(
        "--first",
        type=int,
        help="the first of these seeds; if not given, those known to have found something late, then random ones",
    )
    parser.add_argument("--hours", type=float, default=10.0, help="virtual hours of each run")
    parser.add_argument("--without", type=int, action="append", default=[], help="a client that stays away")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--verbose", action="store_true", help="tell everything that happens")
    parser.add_argument("--audited", action="store_true", help="log events, and have the audit judge each run")
    parser.add_argument("--shrink", action="store_true", help="look for a smaller run that fails as well")
    return parser.parse_args()


def main() -> int:
    """Run, and tell what came of it; the exit code is 1 when something was found."""
    said = arguments()
    if said.seed is not None:
        tell = print if said.verbose else None
        outcome = replay(said.seed, said.hours, frozenset(said.without), tell, audited=said.audited)
        print(outcome.line())
        if outcome.failure and said.shrink:
            print(shrink(said.seed, said.hours).line())
        return bool(outcome.failure)
    first = said.first if said.first is not None else int.from_bytes(os.urandom(4), "big")
    numbers: Iterator[int] = islice(count(), said.seeds or None)
    if said.minutes is not None:
        numbers = begun_within(said.minutes)
    known = [seed for seed, minutes in FOUND_ONCE if minutes > TESTED_MINUTES_MAX] if said.first is None else []
    seeds = (seed for _, seed in zip(numbers, chain(known, count(first)), strict=False))
    print(f"seeds from {first}, {said.hours:g} virtual hours each, {said.jobs} processes", flush=True)
    return run_many(seeds, said.hours, said.jobs, audited=said.audited)


def run_many(seeds: Iterator[int], hours: float, jobs: int, *, audited: bool) -> int:
    """Run seeds as long as there are any."""
    totals: Counter[str] = Counter()
    started, found = time.monotonic(), 0
    with ProcessPoolExecutor(jobs) as pool:
        while batch := list(islice(seeds, jobs * 5)):
            for outcome in pool.map(partial(replay, hours=hours, audited=audited), batch):
                totals.update(outcome.counts)
                found += bool(outcome.failure)
                if outcome.failure:
                    print(outcome.failure, flush=True)
            print(summary(totals, found, time.monotonic() - started), flush=True)
    return bool(found)


def summary(totals: Counter[str], found: int, seconds: float) -> str:
    """All counts in a line."""
    hours = totals["milliseconds"] / 3_600_000
    rest = ", ".join(f"{name} {number:,}" for name, number in sorted(totals.items()) if name != "milliseconds")
    return f"{hours:,.0f} virtual hours in {seconds:,.0f} s, found {found}: {rest}"


if __name__ == "__main__":
    sys.exit(main())
