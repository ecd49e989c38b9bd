"""Queues that deliver in a turn, and those that do in a later one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from time import monotonic

from broker.entities.scheduling.turn import Turn

SECONDS = 0.001


class Delivering:
    """A queue that delivers for some seconds at least, and touches others by it."""

    def __init__(self, name: str, served: list[str], seconds: float = 0.0) -> None:
        self.name = name
        self.touches: Sequence[Delivering] = ()
        self.turn: Turn | None = None
        self._served = served
        self._seconds = seconds

    def deliver(self) -> None:
        """Take its time."""
        until = monotonic() + self._seconds
        self._served.append(self.name)
        while monotonic() <= until:
            pass
        if self.turn is not None:
            self.turn.queues += self.touches

    def check(self) -> None:
        """It is always sound."""


def test_what_a_turn_touches_comes_before_what_others_have_left() -> None:
    """A dead letter falls from queue to queue, each delivering for longer than a turn: others need not wait for all."""
    turn, served = Turn(SECONDS), list[str]()
    chain = [Delivering(f"link {number}", served, SECONDS) for number in range(4)]
    late, other = Delivering("late", served), Delivering("other", served)
    for link, after in pairwise(chain):
        link.turn, link.touches = turn, (after,)
    turn.queues += [chain[0], late]
    turn.end()
    assert served == ["link 0"]
    turn.queues.append(other)
    while turn.pending:
        turn.end()
    assert served == ["link 0", "other", "late", "link 1", "link 2", "link 3"]


def test_without_a_limit_a_turn_serves_all() -> None:
    turn, served = Turn(), list[str]()
    first, second, touched = (Delivering(name, served) for name in ("first", "second", "touched"))
    first.turn, first.touches = turn, (touched,)
    turn.queues += [first, second]
    turn.end()
    assert served == ["first", "second", "touched"]
    assert not turn.pending
