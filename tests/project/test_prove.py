"""`make prove` divides the time, runs what it can, and says on its page what failed and what was not run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from harness.project import ROOT
from harness.waiting import begun_within
from tests.durability.crash.exploring import needs_compiler
from tests.durability.faults.matrix import columns
from tests.prove import CAMPAIGNS, Campaign, minutes_for, prove

CLEAN = Campaign("clean", 1, ("-c", "print('begun'); print('3 | 4 things tried')"))
BROKEN = Campaign("broken", 2, ("-c", "print('lost: 17'); print('5 things tried'); raise SystemExit(1)"))
IMPOSSIBLE = Campaign("impossible", 7, ("-c", ""), library="a_library_that_nobody_has")


def test_every_campaign_is_a_make_target_and_has_its_share() -> None:
    makefile = (ROOT / "Makefile").read_text()
    assert [campaign.name for campaign in CAMPAIGNS if f"\n{campaign.name}: $(" not in makefile] == []
    assert sum(campaign.share for campaign in CAMPAIGNS) == 100


def test_the_time_that_is_left_is_divided_by_shares() -> None:
    assert minutes_for([CLEAN, BROKEN], 60) == 20
    assert minutes_for([BROKEN], 31) == 31
    assert minutes_for([BROKEN], -1) == 0


def test_the_page_tells_what_failed_and_what_was_not_run(tmp_path: Path) -> None:
    outcomes = prove([CLEAN, BROKEN, IMPOSSIBLE], 0.03, tmp_path)
    assert {outcome.campaign.name: outcome.failed for outcome in outcomes} == {
        "clean": False,
        "broken": True,
        "impossible": False,
    }
    page = (tmp_path / "prove.md").read_text()
    assert "3 campaigns: 1 clean, 1 failed, 1 not run.\nGiven 0.03 minutes, they took 0.0.\n" in page
    assert "| clean | nothing failed | 0.0 | 3 \\| 4 things tried | `python -c " in page
    assert "| broken | **exit code 1** | 0.0 | 5 things tried | `python -c " in page
    assert "| impossible | **not run: a_library_that_nobody_has is not installed" in page
    assert "## broken: exit code 1\n\n````\nlost: 17\n5 things tried\n````\n" in page
    assert "## clean" not in page
    assert (tmp_path / "prove" / "clean.log").read_text() == "begun\n3 | 4 things tried\n"


def test_without_time_there_is_one_of_each() -> None:
    """At least one cycle, round or run: a campaign that tried nothing would look as if it had found nothing."""
    assert list(begun_within(0, first=7)) == [7]


def last_line(module: str, *options: str) -> str:
    """Return the summary of a campaign without time."""
    command = [sys.executable, "-m", module, "--minutes", "0", *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()[-1]


@needs_compiler
@pytest.mark.slow
def test_disk_faults_go_on_with_the_next_column(tmp_path: Path) -> None:
    options = ("--upto", "1", "--workers", "1", "--progress", str(tmp_path / "next"))
    for column in (1, 2):
        line = last_line("tests.durability.faults.matrix", *options)
        assert line.startswith(f"1 of {len(list(columns()))} columns, from column {column} on: 1 faults met, 0 not")
