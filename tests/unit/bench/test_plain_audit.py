"""What the audit on Spark is compared with: it is the same audit, and the made-up log holds what it says."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from harness.event_logs.made_up_log import VIOLATIONS, write
from harness.event_logs.plain_audit import audit, logged
from harness.project import ROOT
from tests.pipeline.event_log.test_audit import STORIES, history_of

EVENTS = 10_000


@pytest.mark.parametrize("name", STORIES)
def test_the_stories_of_the_audit_come_to_the_same(name: str) -> None:
    history = history_of(name)
    expected = history.verdicts.values()
    verdicts, violations = audit(history.events)
    assert verdicts == Counter(verdict for verdict, *_ in expected)
    assert violations == sum(len(further) > 0 for _, *further in expected)


def test_the_made_up_log_holds_what_was_planted_and_nothing_else(tmp_path: Path) -> None:
    made = write(tmp_path, EVENTS)
    verdicts, violations = audit(logged(tmp_path))
    assert {verdict: verdicts[verdict] for verdict in made.planted if verdict != VIOLATIONS} | {
        VIOLATIONS: violations
    } == made.planted
    assert verdicts.keys() == {"lost", "unknown", "not confirmed", "not kept", "queued", "settled"}


@pytest.mark.slow
def test_the_measurements_run() -> None:
    """Without Spark, whose audit of such a log is in tests/pipeline/event_log/test_audit.py."""
    command = [sys.executable, "-m", "bench.pipeline.audit_times", "--events", str(EVENTS), "--audits", "python"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, run.stderr
    rows = {row["row"]: row for row in map(json.loads, run.stdout.splitlines())}
    assert rows["export"].keys() >= {"rows_per_s", "seconds", "memory_mib"}
    assert rows["audit, python"].keys() >= {"seconds", "memory_mib"}
