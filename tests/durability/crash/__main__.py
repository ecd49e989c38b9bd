"""The crash explorer from the command line: run on and on, explore one record, replay one state."""

from __future__ import annotations

import argparse
import math
import os
from pathlib import Path

from harness.campaign_options import exit_on_sigterm
from leveret.testing.power.disk_states import Chance
from tests.durability.crash.campaign import run
from tests.durability.crash.explorer import Place, explore, replay, shown
from tests.durability.crash.recording.recorder import Recording

DIRECTORY = Path("crash-states")


def main() -> int:
    """Do what the command line says; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.durability.crash", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    seeds = verbs.add_parser("run", help="explore seed after seed; goes on where it was interrupted")
    seeds.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many seeds at a time")
    seeds.add_argument("--minutes", type=float, default=math.inf, help="begin no seed after this time")
    seeds.add_argument("--directory", type=Path, default=DIRECTORY, help="where progress and failures are kept")
    seeds.add_argument("--steps", type=int, default=0, help="how long a life to record; without: some twelve steps")
    search = verbs.add_parser("explore", help="explore a record")
    search.add_argument("record", type=Path)
    search.add_argument("--decisive", action="store_true", help="only where something is about to become certain")
    search.add_argument("--kinds", nargs="+", default=Chance.KINDS, choices=Chance.KINDS, help="kinds of disks left")
    search.add_argument("--until", metavar="SYMPTOM", help="end at the first failure that has this regular expression")
    again = verbs.add_parser("replay", help="recover one state of a record, and judge it")
    again.add_argument("record", type=Path)
    again.add_argument("place", type=Place.parse, help="EVENT/ATTEMPT, as a failure names it")
    exit_on_sigterm()
    return _do(parser.parse_args())


def _do(given: argparse.Namespace) -> int:
    if given.verb == "run":
        return run(given.directory, given.jobs, given.minutes, given.steps)
    recording = Recording(given.record)
    if given.verb == "explore":
        print(shown(explore(recording, decisive=given.decisive, until=given.until, kinds=given.kinds)))
        return 0
    failure = replay(recording, given.place)
    print(f"{failure.place} {failure.mark} {failure.problem or 'as promised'}")
    return 1 if failure.problem else 0


if __name__ == "__main__":
    raise SystemExit(main())
