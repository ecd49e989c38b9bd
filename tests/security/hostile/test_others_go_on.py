"""While each attack goes on a good client is served; afterwards the broker has let go of everything.

The attacks are those that `python -m bench attacks` measures, a few hundredths as large.
"""

from __future__ import annotations

import pytest

from harness.attacks.attack import underway
from harness.attacks.attack_catalogue import ATTACKS
from harness.attacks.benign_client import Good
from harness.brokers.broker_process import BrokerProcess
from harness.process_figures import descriptors
from harness.waiting import eventually

SIZE = 0.02
ROUND_TRIPS = 10
ROUNDS = 3

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", ATTACKS)
def test_others_go_on(target: BrokerProcess, good: Good, name: str) -> None:
    before, said = descriptors(target.pid), len(target.log())
    with underway(ATTACKS[name](target.address, SIZE)) as attack:
        eventually(lambda: attack.rounds >= ROUNDS, "the attack to be under way", seconds=30)
        for _ in range(ROUND_TRIPS):
            good.round_trip()
    eventually(lambda: descriptors(target.pid) <= before, "the descriptors to be back", seconds=30)
    good.round_trip()
    assert target.running
    assert "Traceback" not in target.log()[said:]
