"""A power failure at any instant of a whole broker's life loses nothing that its clients were promised.

The real process is recorded, its sockets included, while a client publishes, consumes, rejects, purges and deletes, and
while the broker is killed and started again. The promises are read from what the broker sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.crash.recorder import Recording, build
from tests.crash.test_store_crashes import SEED, checked, needs_compiler
from tests.crash.workload_broker import Publisher
from tests.planted.catalogue import with_mistake
from tests.support.broker import BrokerProcess
from tests.support.client import Client

STATES = 2000
STATES_AT_LEAST = 1000
STEPS = (16, 16, 8)


@needs_compiler
@pytest.mark.slow
def test_no_crash_loses_what_a_client_was_promised(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recording = record_life(tmp_path, STEPS)
    states, failures = checked(recording, STATES, program="tests.crash.check_broker")
    with capsys.disabled():
        print(f"\n{states} crash states of the whole broker recovered and checked (seed {SEED})")
    assert failures == []
    assert states >= STATES_AT_LEAST


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize(
    ("planted", "symptom"),
    [
        ("confirm before commit", "has lost"),
        ("settle lost in flight", "counts"),
        ("letter after settlement", "was to move to the dead letters and is in []"),
        ("letter lost while it waits", "was to move to the dead letters and is in []"),
        ("release after settlement", "late has lost"),
        ("settlement after release", "late holds messages twice"),
        ("read before sync", "log has "),
        ("no directory sync", "does not exist, although it should"),
    ],
)
def test_a_mistake_planted_in_the_broker_is_found(tmp_path: Path, planted: str, symptom: str) -> None:
    recording = record_life(tmp_path, (20,), planted=planted)
    _states, failures = checked(recording, 1, program="tests.crash.check_broker", first=True)
    assert any(symptom in failure for failure in failures), failures


def record_life(tmp_path: Path, lives: Sequence[int], *, planted: str = "") -> Recording:
    """Run a broker through so many steps of the workload in each of its lives, and kill it after each."""
    recording = Recording(build(tmp_path), tmp_path / "root", tmp_path / "log", tmp_path / "marks")
    recording.directory.mkdir()
    environment = dict(recording.environment(sockets=True))
    if planted:
        environment = with_mistake(planted, environment)
    process = BrokerProcess(recording.directory / "data", environment=environment)
    publisher = Publisher(SEED)
    for steps in lives:
        process.start()
        client = Client.connect(process.address)
        publisher.connect(client)
        for _ in range(steps):
            publisher.step()
        process.kill()
        client.close()
    return recording
