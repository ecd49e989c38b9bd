"""The crash explorer from the command line: run on and on, explore one record, replay one state."""

from __future__ import annotations

import argparse
import math
import os
import signal
import sys
from pathlib import Path

from tests.durability.crash.campaign import Campaign, run_seed
from tests.durability.crash.explorer import Place, Search, explore, replay, shown
from tests.durability.crash.recording.recorder import Recording
from tests.durability.crash.subjects import SUBJECTS

DIRECTORY = Path("crash-states")


def main() -> int:
    """Do what the command line says; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.durability.crash", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    run = verbs.add_parser("run", help="explore seed after seed; goes on where it was interrupted")
    run.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many seeds at a time")
    run.add_argument("--states", type=int, help="end after so many states more; without: never")
    run.add_argument("--minutes", type=float, default=math.inf, help="begin no seed after so many")
    seed = verbs.add_parser("seed", help="record and explore one seed")
    seed.add_argument("seed", type=int)
    for verb in (run, seed):
        verb.add_argument("--directory", type=Path, default=DIRECTORY, help="where progress and failures are kept")
        verb.add_argument("--steps", type=int, default=0, help="how long a life to record; without: some twelve steps")
    search = verbs.add_parser("explore", help="explore a record")
    search.add_argument("record", type=Path)
    search.add_argument("--states", type=int, default=0, help="about how many; at least a few after each event")
    search.add_argument("--share", type=int, default=0, help="which share of them")
    search.add_argument("--shares", type=int, default=1)
    search.add_argument("--first", action="store_true", help="end at the first failure")
    again = verbs.add_parser("replay", help="recover one state of a record, and judge it")
    again.add_argument("record", type=Path)
    again.add_argument("place", type=Place.parse, help="EVENT/ATTEMPT, as a failure names it")
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # so that nothing is left behind
    return _do(parser.parse_args())


def _do(given: argparse.Namespace) -> int:
    if given.verb == "run":
        return Campaign(given.directory, given.jobs, given.states, given.steps, given.minutes).run()
    if given.verb == "seed":
        print(shown(run_seed(given.directory, given.seed, steps=given.steps)[0]))
        return 0
    recording = Recording(given.record)
    subject = SUBJECTS[recording.about.subject]
    if given.verb == "explore":
        print(shown(explore(recording, subject, Search(given.states, given.share, given.shares, given.first))))
        return 0
    failure = replay(recording, subject, given.place)
    print(f"{failure.place} {failure.mark} {failure.problem or 'as promised'}")
    return 1 if failure.problem else 0


if __name__ == "__main__":
    raise SystemExit(main())
