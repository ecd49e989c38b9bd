"""Timers, and their ends when nobody is left whom they concern."""

from __future__ import annotations

import pytest

from broker.entities.scheduling.timers import CROWDED, Timers
from harness.brokers.broker_core import Core

DAY = 86_400_000


class Owner:
    """Somebody who may be gone."""

    def __init__(self) -> None:
        self.deleted = False


def test_those_of_owners_that_are_gone_are_forgotten() -> None:
    timers, kept = Timers(wake=lambda: None), Owner()
    timers.at(7, lambda: None, kept)
    for number in range(5 * CROWDED):
        gone = Owner()
        timers.at(DAY + number, lambda: None, gone)
        gone.deleted = True
        assert len(timers) <= CROWDED + 1
    assert timers.next_due() == 7


@pytest.mark.parametrize("arguments", [{"expires": DAY}, {"message_ttl": DAY}])
def test_queues_that_come_and_go_leave_no_timers(core: Core, arguments: dict[str, int]) -> None:
    for _ in range(CROWDED + 50):
        queue = core.queue("q", durable=False, **arguments)
        core.deposit(queue, b"x", persistent=False)
        core.vhost.delete_queue(queue)
    assert len(core.broker.timers) <= CROWDED + 1
