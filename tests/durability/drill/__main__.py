"""Runs the restore drill again and again: `python -m tests.durability.drill --minutes 1`.

Each round is a broker with random messages that makes backups, is killed and loses its directory; then the drill of
docs/backup.md is run, and one of the backups is restored and compared with what was there. The last line says what was
tried.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from pathlib import Path

from harness.campaign_options import campaign_parser, exit_on_sigterm, first_seed, numbered
from tests.durability.drill.restore_drill import Drill


def main() -> None:
    """Run the rounds; exit with 1 when one has failed, and keep its directory."""
    options = campaign_parser("tests.durability.drill", __doc__, rounds=5).parse_args()
    exit_on_sigterm()
    begun, rounds, messages = time.monotonic(), 0, 0
    for seed in numbered(options, first_seed(options)):
        place = Path(tempfile.mkdtemp(prefix="leveret-drill-"))
        drill = Drill(place, seed)
        try:
            drill.go_through()
        except AssertionError as error:
            print(f"{error}\ndirectory: {place}\npython -m tests.durability.drill --rounds 1 --seed {seed}", flush=True)
            sys.exit(1)
        shutil.rmtree(place)
        rounds, messages = rounds + 1, messages + drill.messages
    print(f"{rounds:,} drills in {time.monotonic() - begun:.0f} s: {messages:,} messages restored, each as it was")


if __name__ == "__main__":
    main()
