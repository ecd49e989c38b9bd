"""The broker's clock, and somebody who sets the machine's."""

from __future__ import annotations

import time

import pytest

from broker.entities.scheduling.clock import SteadyClock


@pytest.mark.parametrize("jump_seconds", [-86400.0, 3600.0])
def test_a_jump_of_the_wall_clock_does_not_move_it(monkeypatch: pytest.MonkeyPatch, jump_seconds: float) -> None:
    """Promise I9: message TTL and queue expiry go by this clock, connections by the monotonic one."""
    clock, real = SteadyClock(), time.time
    before = clock.now()
    monkeypatch.setattr(time, "time", lambda: real() + jump_seconds)
    assert 0 <= clock.now() - before < 1000 * abs(jump_seconds) / 2


def test_it_begins_at_the_wall_clock() -> None:
    """A stored time to live goes on across a restart. Times are stored as numbers that have no sign."""
    before = time.time() * 1000
    assert before - 1 <= SteadyClock().now() <= time.time() * 1000 + 1
    assert SteadyClock(wall=lambda: -86400.0).now() >= 1000
