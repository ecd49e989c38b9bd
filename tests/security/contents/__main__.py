"""Tell brokers hostile contents, round after round: `python -m tests.security.contents --minutes 10`.

Each round is a broker and a data directory of its own and follows from its seed: what is said by whom, and how each
life of the broker ends. A failure prints the round, what was expected and found, and the command that repeats it, and
keeps the data directory. The last line says what was tried.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from harness.campaign_options import campaign_parser, exit_on_sigterm, first_seed, numbered
from tests.durability.kills.cycle import BrokenPromiseError
from tests.security.contents.contents_round import LARGE, SMALL, Scale, prepared


def main() -> None:
    """Run the rounds; exit with 1 when one has failed."""
    parser = campaign_parser("tests.security.contents", __doc__, rounds=20)
    parser.add_argument("--small", action="store_true", help="short rounds, as in the tests")
    parser.add_argument("--without-journal", action="store_true", help="no pieces of the journal, no forged records")
    parser.add_argument("--directory", type=Path, help="where data directories are made; the system's for such things")
    options = parser.parse_args()
    exit_on_sigterm()
    begun, done = time.monotonic(), Counter[str]()
    for seed in numbered(options, first_seed(options)):
        scale = SMALL if options.small else LARGE
        try:
            done += run(seed, scale, options.directory, of_the_journal=not options.without_journal)
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
