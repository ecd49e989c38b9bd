"""Kill a broker again and again under real clients: `python -m tests.durability.kills --cycles 300 --seed 1`.

With `--minutes` instead of `--cycles`, no cycle is begun after that time; the audit comes on top.
Prints what was killed when, and what the clients' ledgers have seen. A failure names its cycle and seed, what was
expected and found, and keeps the data directory. With `--audit` the broker records events, is stopped in order
now and then, and at the end its log is audited, which is held against what the clients have logged.
"""

from __future__ import annotations

import argparse
import json
import logging
import secrets
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from harness.waiting import begun_within
from tests.durability.kills.audited import AuditedCampaign
from tests.durability.kills.cycle import BrokenPromiseError, Campaign, summary

PROGRESS_CYCLES = 25
STOP_CYCLES = 5


def main() -> None:
    """Run the cycles; exit with 1 when a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.durability.kills", description=__doc__)
    often = parser.add_mutually_exclusive_group()
    often.add_argument("--cycles", type=int, default=300, help="300 if not given")
    often.add_argument("--minutes", type=float, help="cycles begun within this time, instead of --cycles")
    parser.add_argument("--seed", type=int, help="decides what is done; instants are the machine's all the same")
    parser.add_argument("--audit", action="store_true", help="and audit the event log; needs leveret[pipeline]")
    options = parser.parse_args()
    seed = secrets.randbelow(1 << 32) if options.seed is None else options.seed
    directory = Path(tempfile.mkdtemp(prefix="leveret-kills-"))
    often = f"{options.cycles} cycles" if options.minutes is None else f"{options.minutes:g} minutes"
    print(f"seed {seed}, {often}, data in {directory}", flush=True)
    logging.disable(logging.CRITICAL)  # libraries tell at length that their connections are lost
    campaign = AuditedCampaign(directory, seed) if options.audit else Campaign(directory, seed)
    try:
        audited = run(
            campaign, begun_within(options.minutes) if options.minutes is not None else range(1, options.cycles + 1)
        )
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
