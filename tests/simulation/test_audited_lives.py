"""Runs whose events are logged are judged by the audit, too: it raises no alarm, and its alarms are failures.

For many runs there is `make audited-lives`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pipeline.inputs.made_up_events import export_of
from tests.pipeline.inputs.planted_stories import history_of
from tests.simulation.copies import Broken
from tests.simulation.seeds import replay
from tests.simulation.world.audited_lives import judge

pytestmark = pytest.mark.slow


def test_the_audit_raises_no_alarm_over_the_lives_of_a_run() -> None:
    outcome = replay(7, 0.25, audited=True)
    assert not outcome.failure, outcome.failure
    assert outcome.counts["audited boots"] > 1
    assert outcome.counts["audited copies"] > 100


@pytest.mark.parametrize(
    ("story", "told"),
    [
        ("gone_at_the_next_start", "the audit finds 1 of .* copies wrong, .*'lost'"),
        ("new_twice", "the audit finds 1 of .* copies wrong"),
        ("events_that_were_not_written", "the audit finds .*'unknown'|the audit is left in doubt"),
    ],
)
def test_what_the_audit_finds_is_a_failure(story: str, told: str, tmp_path: Path) -> None:
    export_of(tmp_path, [history_of(story)])
    with pytest.raises(Broken, match=told):
        judge(tmp_path)


def test_a_log_without_a_fault_passes(tmp_path: Path) -> None:
    export_of(tmp_path, [history_of("sound")])
    assert judge(tmp_path)["audited copies"] > 0
