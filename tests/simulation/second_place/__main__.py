"""Worlds of brokers that share a second place: `python -m tests.simulation.second_place --minutes 5`.

A failure prints what happened and the command that repeats it. The last line says what was tried.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import islice

from harness.campaign_options import campaign_parser, exit_on_sigterm, first_seed, numbered
from tests.simulation.second_place.fenced_world import Failed, FencedWorld

MODULE = "tests.simulation.second_place"


def main() -> None:
    """Run the worlds; exit with 1 when one has found something."""
    parser = campaign_parser(MODULE, __doc__, rounds=20)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--verbose", action="store_true", help="tell everything that happens, in one process")
    options = parser.parse_args()
    exit_on_sigterm()
    begun, totals, found = time.monotonic(), Counter[str](), 0
    for counts, failure in _outcomes(options):
        totals.update(counts)
        found += bool(failure)
        if failure:
            print(failure, flush=True)
    rest = ", ".join(f"{name} {number:,}" for name, number in sorted(totals.items()))
    print(f"{totals['runs']:,} worlds in {time.monotonic() - begun:,.0f} s, found {found}: {rest}")
    sys.exit(bool(found))


Outcome = tuple[Counter[str], str]


def _outcomes(options: argparse.Namespace) -> Iterator[Outcome]:
    seeds = numbered(options, first_seed(options))
    if options.verbose:
        yield from (_outcome(seed, verbose=True) for seed in seeds)
        return
    with ProcessPoolExecutor(options.jobs) as pool:
        while batch := list(islice(seeds, options.jobs * 4)):
            yield from pool.map(_outcome, batch)


def _outcome(seed: int, *, verbose: bool = False) -> Outcome:
    world = FencedWorld(seed, print if verbose else None)
    try:
        world.run()
    except Failed as error:
        return world.counts, f"{error}\npython -m {MODULE} --rounds 1 --seed {seed} --verbose"
    return world.counts, ""


if __name__ == "__main__":
    main()
