"""Kill a broker again and again under real clients: `python -m tests.durability.kills --cycles 300 --seed 1`.

With `--minutes` instead of `--cycles`, no cycle is begun after that time; the audit comes on top.
Prints what was killed when, and what the clients' ledgers have seen. A failure names its cycle and seed, what was
expected and found, and keeps the data directory. With `--audit` the broker records events, is stopped in order
now and then, and at the end its log is audited, which is held against what the clients have logged.
"""

from __future__ import annotations

import json
import logging
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from harness.campaign_options import campaign_parser, first_seed, numbered
from tests.durability.kills.audited import AuditedCampaign
from tests.durability.kills.cycle import BrokenPromiseError, Campaign, summary

PROGRESS_CYCLES = 25
STOP_CYCLES = 5


def main() -> None:
    """Run the cycles; exit with 1 when a promise was broken."""
    parser = campaign_parser("tests.durability.kills", __doc__, rounds=300, unit="cycles")
    parser.add_argument("--audit", action="store_true", help="and audit the event log; needs leveret[pipeline]")
    options = parser.parse_args()
    seed = first_seed(options)
    directory = Path(tempfile.mkdtemp(prefix="leveret-kills-"))
    often = f"{options.rounds} cycles" if options.minutes is None else f"{options.minutes:g} minutes"
    print(f"seed {seed}, {often}, data in {directory}", flush=True)
    logging.disable(logging.CRITICAL)  # libraries tell at length that their connections are lost
    campaign = AuditedCampaign(directory, seed) if options.audit else Campaign(directory, seed)
    try:
        audited = run(campaign, numbered(options))
    except BrokenPromiseError as error:
        campaign.abandon()
        sys.exit(f"{error}\n{summary(campaign)}")
    except BaseException:
        campaign.abandon()
        print(summary(campaign), flush=True)
        raise
    shutil.rmtree(directory)
    print(summary(campaign) + audited)


def run(campaign: Campaign, cycles: Iterable[int]) -> str:
    """The cycles of these numbers, with a line of progress now and then; what is to be said of an audit."""
    began = time.monotonic()
    campaign.begin()
    for number in cycles:
        campaign.cycle()
        if isinstance(campaign, AuditedCampaign) and number % STOP_CYCLES == 0:
            campaign.restart()
        if number % PROGRESS_CYCLES == 0:
            seconds = time.monotonic() - began
            print(f"{number} cycles in {seconds:.0f} s, {campaign.tally.confirmed:,} confirmed", flush=True)
    if isinstance(campaign, AuditedCampaign):
        return f"; {audit(campaign):,} events audited"
    campaign.end()
    return ""


def audit(campaign: AuditedCampaign) -> int:
    """Hold the log against the clients, and print what was compared; how many events. Raises BrokenPromiseError."""
    from tests.durability.kills.log_audit import PASSING, figures, judge, sound

    campaign.restart()
    sight = campaign.look()
    campaign.kill_for_good()
    began = time.monotonic()
    judgement = judge(campaign)
    judgement.comparison.queues(sight.places, PASSING)
    problems = sound(judgement) + judgement.comparison.problems
    found = figures(judgement, campaign)
    print(json.dumps({**found, "judged_s": round(time.monotonic() - began)}))
    if problems:
        raise BrokenPromiseError("\n".join(problems))
    return int(found["events"])


if __name__ == "__main__":
    main()
