"""While each attack goes on a good client is served; afterwards the broker has let go of everything.

The attacks are those that `python -m bench attacks` measures, a few hundredths as large.
"""

from __future__ import annotations

import pytest

from harness.attacks.attack import underway
from harness.attacks.attack_catalogue import ATTACKS
from harness.attacks.benign_client import Good
from harness.brokers.broker_process import BrokerProcess
from harness.process_figures import descriptors, own_memory
from harness.waiting import eventually

SIZE = 0.01
ROUND_TRIPS = 3
PATIENCE_SECONDS = 600
"""Seconds for the broker to work off an attack before sockets are closed, also on a busy machine."""

SIZES = dict.fromkeys(ATTACKS, 0.05) | {"non-reading getter": 0.01, "half bodies by the byte": 0.01}
"""Sizes of attacks on memory. The C library keeps gaps between others' memory and large bodies: a plateau of a few
bodies."""
ROUNDS = 4
SLACK_BYTES = 12 << 20
"""Bytes that the allocator may need more by chance; four rounds of each of these attacks take twice that or more."""
# Not "half bodies": hundreds of MiB in pieces of 60,000 bytes. They are freed at once, and the C library keeps much of
# what lies between others' memory for the next ones: a plateau that is reached at a different height each time.
ATTACKS_ON_MEMORY = (
    "connection churn",
    "silent churn",
    "channels",
    "consumers over channels",
    "unacked gets",
    "exchanges",
    "exclusive queues",
    "large tables",
    "open transaction",
    "half bodies by the byte",
    "non-reading getter",
    "direct replies unread",
)

pytestmark = pytest.mark.slow


def expect_released(target: BrokerProcess, before: int) -> None:
    """Everything that the attackers had open is closed."""
    eventually(lambda: descriptors(target.pid) <= before, "the descriptors to be back", seconds=PATIENCE_SECONDS)


@pytest.mark.parametrize("name", ATTACKS)
def test_others_go_on(target: BrokerProcess, good: Good, name: str) -> None:
    good.round_trip()  # the first commit opens what the later ones need
    before, said = descriptors(target.pid), len(target.log())
    with underway(ATTACKS[name](target.address, SIZE)) as attack:
        eventually(lambda: attack.rounds, "the attack to be under way", seconds=PATIENCE_SECONDS)
        for _ in range(ROUND_TRIPS):
            good.round_trip()
    expect_released(target, before)
    good.round_trip()
    assert target.running
    assert "Traceback" not in target.log()[said:]


@pytest.mark.parametrize("name", ATTACKS_ON_MEMORY)
def test_memory_does_not_grow(target: BrokerProcess, good: Good, name: str) -> None:
    """Attacks that come again and again take no more memory the last times than the first few."""
    good.round_trip()
    before = descriptors(target.pid)
    highest = []
    for _ in range(ROUNDS):
        attack = ATTACKS[name](target.address, SIZES[name])
        for _ in range(ROUNDS):
            attack.attempt()
        attack.end()
        expect_released(target, before)
        good.round_trip()
        highest.append(own_memory(target.pid))
    first, second = highest[: ROUNDS // 2], highest[ROUNDS // 2 :]
    assert max(second) <= max(first) + SLACK_BYTES, highest
