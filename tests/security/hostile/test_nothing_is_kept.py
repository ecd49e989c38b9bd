"""Attacks that come again and again take no more memory the tenth time than the first few times."""

from __future__ import annotations

import pytest

from harness.attacks.attack_catalogue import ATTACKS
from harness.attacks.benign_client import Good
from harness.brokers.broker_process import BrokerProcess
from harness.process_figures import descriptors, own_memory
from harness.waiting import eventually

SIZE = 0.05
SIZE_OF_LARGE_BODIES = 0.01
"""The C library keeps gaps between others' memory for the next large body: a plateau whose height is a few bodies."""
ROUNDS = 8
ROUNDS = 4
SLACK_BYTES = 12 << 20
"""What the allocator may need more by chance; four rounds of each of these attacks take twice that or more."""

pytestmark = pytest.mark.slow

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
    "deaf getter",
    "deaf to replies",
)


@pytest.mark.parametrize("name", ATTACKS_ON_MEMORY)
def test_memory_does_not_grow(target: BrokerProcess, good: Good, name: str) -> None:
    before = descriptors(target.pid)
    highest = []
    for _ in range(ROUNDS):
        attack = ATTACKS[name](target.address, SIZE_OF_LARGE_BODIES if name == "deaf getter" else SIZE)
        for _ in range(ROUNDS):
            attack.attempt()
        attack.end()
        eventually(lambda: descriptors(target.pid) <= before, "the connections to be gone", seconds=30)
        good.round_trip()
        highest.append(own_memory(target.pid))
    first, second = highest[: ROUNDS // 2], highest[ROUNDS // 2 :]
    assert max(second) <= max(first) + SLACK_BYTES, highest
