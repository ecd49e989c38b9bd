"""`make prove`: every long campaign in turn, within about the given minutes, and one page of figures.

    python -m tests.prove [--minutes 60]

A campaign begins nothing when its share of the time is over, and finishes what it has begun; what it takes longer or
less is divided among those that come after it. The page is build/prove.md, written again after each campaign; what
they print is kept beside it, in build/prove/. Exit code 1 when anything failed.
"""

from __future__ import annotations

import argparse
import os
import platform
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from harness.campaign_options import exit_on_sigterm
from harness.project import ROOT

DIRECTORY = ROOT / "build"
LAST_LINES = 40
"""Lines of a failed campaign's output on the page."""
LATE_MINUTES = 15
"""Minutes beyond its time in which a campaign may finish."""
END_SECONDS = 60


class Campaign(NamedTuple):
    """A campaign by the name of its make target. It takes `--minutes`, and says in its last line what it has tried."""

    name: str
    share: int
    arguments: tuple[str, ...]
    library: str = ""
    """Without this one it is not run."""


CAMPAIGNS = (
    Campaign("crash-audit", 10, ("-m", "tests.durability.kills", "--audit")),
    Campaign("newcomer", 1, ("-m", "bench.newcomer")),
    Campaign("crash-states", 10, ("-m", "tests.durability.crash", "run")),
    Campaign("shipped-states", 3, ("-m", "tests.durability.shipped_states")),
    Campaign("disk-faults", 11, ("-m", "tests.durability.faults.matrix")),
    Campaign("operators", 7, ("-m", "tests.durability.operators")),
    Campaign("restore-drill", 1, ("-m", "tests.durability.drill")),
    Campaign("standby-kills", 3, ("-m", "tests.durability.standby_kills")),
    Campaign("exhaustion", 10, ("-m", "tests.durability.exhaustion")),
    Campaign("crash-kill", 10, ("-m", "tests.durability.kills")),
    Campaign("crash-streams", 5, ("-m", "tests.durability.stream_kills"), library="pyspark"),
    Campaign("hostile-contents", 5, ("-m", "tests.security.contents")),
    Campaign("simulate", 8, ("-m", "tests.simulation")),
    Campaign("fenced-worlds", 2, ("-m", "tests.simulation.second_place")),
    Campaign("audited-lives", 3, ("-m", "tests.simulation", "--audited"), library="pyarrow"),
    Campaign("model-walks", 3, ("-m", "tests.models")),
    Campaign("fuzz", 8, ("-m", "tests.security.fuzz"), library="atheris"),
)
"""In their order, with the hundredths of the time that each gets. The audit comes on top of the first one's time."""


class Outcome(NamedTuple):
    """The result of a campaign. `problem` is empty when nothing failed; `output` is what it printed."""

    campaign: Campaign
    command: str
    minutes: float
    output: str
    problem: str
    was_run: bool = True

    @property
    def failed(self) -> bool:
        return self.was_run and bool(self.problem)

    @property
    def tried(self) -> str:
        """The last line that the campaign printed."""
        return (self.output.strip().splitlines() or ["nothing"])[-1]

    @property
    def row(self) -> str:
        """Its line of the table."""
        tried = self.tried.replace("|", "\\|")
        result = f"**{self.problem}**" if self.problem else "nothing failed"
        return f"| {self.campaign.name} | {result} | {self.minutes:.1f} | {tried} | `{self.command}` |"


def minutes_for(campaigns: Sequence[Campaign], left: float) -> float:
    """Return the minutes for the first of the campaigns still to be run, of those that are left."""
    return max(0.0, left) * campaigns[0].share / sum(campaign.share for campaign in campaigns)


def run(campaign: Campaign, minutes: float, directory: Path) -> Outcome:
    """Run a campaign in a session of its own, so that it can be ended with all that it has started."""
    arguments = [*campaign.arguments, "--minutes", f"{minutes:.2f}"]
    log = directory / f"{campaign.name}.log"
    began = time.monotonic()
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=ROOT,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = process.wait((minutes + LATE_MINUTES) * 60)
            problem = f"exit code {code}" if code else ""
        except subprocess.TimeoutExpired:
            problem = f"not over {LATE_MINUTES} minutes after its time"
        finally:
            end(process)
    taken = (time.monotonic() - began) / 60
    return Outcome(campaign, shlex.join(["python", *arguments]), taken, log.read_text(errors="replace"), problem)


def end(process: subprocess.Popen[bytes]) -> None:
    """End a campaign, if it still runs, and what is left of its session."""
    with suppress(ProcessLookupError):
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                process.wait(END_SECONDS)
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def missing(campaign: Campaign) -> Outcome:
    """Return the outcome of a campaign that cannot be run."""
    problem = f"not run: {campaign.library} is not installed; not every Python has a wheel of it"
    return Outcome(campaign, f"make {campaign.name}", 0, "", problem, was_run=False)


def prove(campaigns: Sequence[Campaign], minutes: float, directory: Path) -> list[Outcome]:
    """Run campaigns in turn, and write the page after each."""
    (directory / "prove").mkdir(parents=True, exist_ok=True)
    until = time.monotonic() + minutes * 60
    possible = [campaign for campaign in campaigns if not campaign.library or find_spec(campaign.library)]
    outcomes = [missing(campaign) for campaign in campaigns if campaign not in possible]
    for place, campaign in enumerate(possible):
        given = minutes_for(possible[place:], (until - time.monotonic()) / 60)
        print(f"{campaign.name}: {given:.1f} minutes", flush=True)
        outcome = run(campaign, given, directory / "prove")
        print(f"  {outcome.problem or 'nothing failed'}: {outcome.tried}", flush=True)
        outcomes.append(outcome)
        outcomes.sort(key=lambda outcome: campaigns.index(outcome.campaign))
        (directory / "prove.md").write_text(page(outcomes, len(campaigns), minutes))
    return outcomes


def page(outcomes: Sequence[Outcome], campaigns: int, minutes: float) -> str:
    """The page of figures, in Markdown."""
    version = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    failed = [outcome for outcome in outcomes if outcome.failed]
    clean = sum(not outcome.problem for outcome in outcomes)
    not_run = campaigns - clean - len(failed)
    lines = [
        f"# Campaigns of {version.stdout.strip() or 'a version without git'}, {time.strftime('%Y-%m-%d %H:%M')}",
        "",
        f"{campaigns} campaigns: {clean} clean, {len(failed)} failed, {not_run} not run.",
        f"Given {minutes:g} minutes, they took {sum(outcome.minutes for outcome in outcomes):.1f}.",
        f"{os.cpu_count()} cores, {platform.platform()}, Python {platform.python_version()}.",
        "",
        "| campaign | result | minutes | what was tried | command |",
        "|---|---|---|---|---|",
        *(outcome.row for outcome in outcomes),
    ]
    for outcome in failed:
        last = outcome.output.splitlines()[-LAST_LINES:]
        lines += ["", f"## {outcome.campaign.name}: {outcome.problem}", "", "````", *last, "````"]
    return "\n".join([*lines, ""])


def main() -> int:
    """Run all campaigns; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.prove", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60, help="for all campaigns together, about")
    parser.add_argument("--directory", type=Path, default=DIRECTORY, help="where the page is written")
    given = parser.parse_args()
    exit_on_sigterm()
    outcomes = prove(CAMPAIGNS, given.minutes, given.directory)
    print(f"{given.directory / 'prove.md'}: {sum(outcome.failed for outcome in outcomes)} of {len(outcomes)} failed")
    return 1 if any(outcome.failed for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
