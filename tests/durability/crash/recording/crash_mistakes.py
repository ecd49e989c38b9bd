"""How a mistake is planted in a recorded broker, and looked for among its crash states."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from tests.durability.crash.exploring import SEED, first_failure
from tests.durability.crash.recording.recorded import record_broker


def assert_found(home: Path, planted: str, symptom: str, lives: Sequence[int] = (4,)) -> None:
    """Record a broker with a mistake in it; some crash state must show the symptom, a regular expression."""
    findings = first_failure(record_broker(home, SEED, lives, planted=planted))
    assert findings.failures, f"nobody noticed: {planted} (seed {SEED}, {findings.states} states)"
    assert any(re.search(symptom, failure.problem) for failure in findings.failures), findings.failures
