"""How a mistake is planted in a recorded broker, and looked for among its crash states."""

from __future__ import annotations

import re
from pathlib import Path

from tests.durability.crash.exploring import SEED, first_failure
from tests.durability.crash.recording.recorded import record_broker
from tests.planted.mistake import BrokerCrashes
from tests.planted.planted_catalogue import CATALOGUE, found_by

ABOUT_DEFINITIONS = ("I5", "I10")
"""The promises about definitions and new data directories; test files are two, so that they run at the same time."""


def mistakes(*, about_definitions: bool) -> list[tuple[str, BrokerCrashes]]:
    """The mistakes that crash states of a broker must give away: those about definitions, or all others."""
    return [
        (name, crashes)
        for name, crashes in found_by(BrokerCrashes)
        if (CATALOGUE[name].breaks in ABOUT_DEFINITIONS) is about_definitions
    ]


def assert_found(home: Path, name: str, crashes: BrokerCrashes) -> None:
    """Record a broker with a mistake in it; some crash state must show the symptom."""
    findings = first_failure(record_broker(home, SEED, crashes.steps, planted=name))
    assert findings.failures, f"nobody noticed: {name} (seed {SEED}, {findings.states} states)"
    assert any(re.search(crashes.symptom, failure.problem) for failure in findings.failures), findings.failures
