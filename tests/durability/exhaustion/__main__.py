"""Have brokers run out of everything, round after round: `python -m tests.durability.exhaustion --minutes 10`.

Each round is a broker and a data directory of its own, and follows from its seed: what goes wrong, in which order, with
which clients. Prints a line for each round; a failure prints the round, what was expected, and the command that
repeats it, and keeps the data directory. The last line says what was tried.
"""

from __future__ import annotations

import logging
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from harness.campaign_options import campaign_parser, exit_on_sigterm, first_seed, numbered
from tests.durability.exhaustion.exhausted import prepared
from tests.durability.exhaustion.plan import LARGE, SMALL, Plan
from tests.durability.kills.cycle import BrokenPromiseError


def main() -> None:
    """Run the rounds; exit with 1 when one has failed."""
    parser = campaign_parser("tests.durability.exhaustion", __doc__, rounds=20)
    parser.add_argument("--small", action="store_true", help="short rounds with small backlogs, as in the tests")
    parser.add_argument("--directory", type=Path, help="where data directories are made; the system's for such things")
    options = parser.parse_args()
    exit_on_sigterm()
    logging.disable(logging.CRITICAL)  # libraries tell at length that their connections are lost
    begun, done = time.monotonic(), Counter[str]()
    for seed in numbered(options, first_seed(options)):
        plan = Plan.drawn(seed, SMALL if options.small else LARGE)
        try:
            done += run(plan, options.directory)
        except BrokenPromiseError as error:
            sys.exit(f"{error}\n{summary(done, begun)}")
    print(summary(done, begun))


def run(plan: Plan, within: Path | None) -> Counter[str]:
    """One round, and what was done in it. Raises BrokenPromiseError."""
    directory = Path(tempfile.mkdtemp(prefix="leveret-exhaustion-", dir=within))
    print(plan, flush=True)
    began = time.monotonic()
    with prepared(directory, plan) as one:
        one.go_through()
    figures = f"{one.tally.confirmed:,} confirmed, backlogs of {one.backlog.highest:,} messages, "
    memory = f"{one.memory.highest >> 20} MiB of memory"
    print(f"  {time.monotonic() - began:.0f} s: {figures}{memory}", flush=True)
    shutil.rmtree(directory)
    done = {"troubles": one.troubles_met, "kills": one.kills.total(), "confirmed": one.tally.confirmed}
    return Counter(rounds=1, checked=one.tally.checked, **done)


def summary(done: Counter[str], begun: float) -> str:
    """Return a line on what was tried."""
    seconds = time.monotonic() - begun
    return (
        f"{done['rounds']:,} rounds in {seconds:.0f} s: {done['troubles']:,} troubles, {done['kills']:,} ends of the "
        f"broker; messages: {done['confirmed']:,} confirmed, {done['checked']:,} looked for"
    )


if __name__ == "__main__":
    main()
