"""What the audit on Spark is compared with: it is the same audit."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter

import pytest

from harness.event_logs.plain_audit import audit
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


@pytest.mark.slow
def test_the_measurements_run() -> None:
    """Without Spark, whose audit of such a log is in tests/pipeline/event_log/test_audit.py."""
    command = [sys.executable, "-m", "bench.pipeline.audit_times", "--events", str(EVENTS), "--audits", "python"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, run.stderr
    rows = {row["row"]: row for row in map(json.loads, run.stdout.splitlines())}
    assert rows["export"].keys() >= {"rows_per_s", "seconds", "memory_mib"}
    assert rows["audit, python"].keys() >= {"seconds", "memory_mib"}
