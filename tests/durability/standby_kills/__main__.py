"""Promotes standbys and kills, again and again: `python -m tests.durability.standby_kills --minutes 1`.

Each round is a broker that is shipped, with a standby that takes its place some times. The broker is killed, and so is
the standby, in its promotions too; the place fails for a while; clients publish and acknowledge. Whatever was confirmed
and shipped has to be there after a promotion, and nothing that was acknowledged and shipped. The last line says what
was tried.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from pathlib import Path

from harness.campaign_options import campaign_parser, exit_on_sigterm, first_seed, numbered
from tests.durability.standby_kills.standby_round import StandbyRound

PROMOTIONS = 3
"""Promotions in a round."""


def main() -> None:
    """Run the rounds; exit with 1 when one has failed, and keep its directory."""
    module = "tests.durability.standby_kills"
    options = campaign_parser(module, __doc__, rounds=5).parse_args()
    exit_on_sigterm()
    begun, promotions, kills, messages = time.monotonic(), 0, 0, 0
    for seed in numbered(options, first_seed(options)):
        place = Path(tempfile.mkdtemp(prefix="leveret-standby-"))
        tried = StandbyRound(place, seed, PROMOTIONS)
        try:
            tried.go_through()
        except Exception as error:
            print(f"{error!r}\ndirectory: {place}\npython -m {module} --rounds 1 --seed {seed}", flush=True)
            sys.exit(1)
        shutil.rmtree(place)
        promotions, kills = promotions + tried.promotions, kills + tried.kills
        messages += tried.accounts.checked
    tried_in = f"{promotions:,} promotions and {kills:,} kills in {time.monotonic() - begun:.0f} s"
    print(f"{tried_in}: {messages:,} messages there as they had to be")


if __name__ == "__main__":
    main()
