"""A second place brings back each moment as it was promised, wherever the pieces end and whichever one is harmed.

`make shipped-states` judges every prefix of many records.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.brokers.copied_commands import run_module
from storage.ship.sealed_piece import PieceKind, parse_chain_name, parse_piece_name
from tests.durability.crash.explorer import Findings, read
from tests.durability.crash.exploring import RECORDS_MAX, needs_compiler
from tests.durability.crash.recording.recorder import Recording
from tests.durability.shipped_states.shipped_record import confirm_of, read_shipped, record_shipped
from tests.planted.mistake import ShippedStates
from tests.planted.planted_catalogue import found_by

pytestmark = [needs_compiler, pytest.mark.slow]

SEED = 20261
"""Confirms wait for the place, and all clients have theirs before a kill."""
LIVES = (2, 1)
STRIDE, HARMED = 5, 6


def explored(recording: Recording, *options: str) -> Findings:
    """Judge the places of a record, in a process of its own."""
    done = run_module("tests.durability.shipped_states", "--record", str(recording.home), *options)
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return read(done.stdout)


def test_each_prefix_of_the_pieces_is_as_promised(tmp_path: Path) -> None:
    assert confirm_of(SEED) == "shipped"
    recording = record_shipped(tmp_path / "record", SEED, LIVES)
    record = read_shipped(recording.events())
    chains = {piece.chain for piece in record.pieces if parse_chain_name(piece.chain) is not None}
    assert len(chains) == len(LIVES), "each start ships a base"
    kinds = {parsed[1] for piece in record.pieces if (parsed := parse_piece_name(piece.name))}
    assert kinds == set(PieceKind)
    findings = explored(recording, "--stride", str(STRIDE), "--harmed", str(HARMED))
    assert [failure for failure in findings.failures if failure.problem] == []
    assert findings.judged > findings.states > len(record.pieces) // STRIDE


@pytest.mark.parametrize(("name", "shipped"), found_by(ShippedStates))
def test_a_planted_mistake_is_found(tmp_path: Path, name: str, shipped: ShippedStates) -> None:
    for number in range(RECORDS_MAX):
        recording = record_shipped(tmp_path / str(number), SEED, shipped.steps, planted=name)
        findings = explored(recording, "--harmed", "0", "--until", shipped.symptom)
        shown = any(re.search(shipped.symptom, failure.problem) for failure in findings.failures)
        if shown:
            break
    assert shown, f"nobody noticed: {name} ({findings})"
