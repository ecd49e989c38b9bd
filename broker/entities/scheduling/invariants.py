"""Invariants: what must hold of a structure whenever a turn has ended, checked while a fault is hunted.

A structure with invariants has a method `check`, which looks at all of it and raises AssertionError with a sentence
that says what is wrong. Nothing calls it unless the setting `debug.check_invariants` is on; then `Broker.invariants`
is there, whatever changes is registered with it, and at the end of each turn that is checked. The turn itself
registers the queues that deliver in it, others are registered by the code that changes them:

    if (invariants := broker.invariants) is not None:
        invariants.touch(ledger)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol


class Checked(Protocol):
    """A structure with invariants."""

    def check(self) -> None:
        """Raise AssertionError when the structure contradicts itself. May take time in proportion to its size."""


class BrokenInvariant(Exception):
    """A structure contradicts itself. What it holds cannot be trusted any more: this ends the process."""


class Invariants:
    """The structures that were changed in this turn."""

    def __init__(self) -> None:
        self._touched: dict[Checked, None] = {}

    def touch(self, structure: Checked) -> None:
        """A structure has changed: it is checked when the turn ends."""
        self._touched[structure] = None

    def touch_all(self, structures: Iterable[Checked]) -> None:
        """Several structures have changed."""
        self._touched.update(dict.fromkeys(structures))

    def check(self) -> None:
        """Check what was touched since the last time. Raises BrokenInvariant for the first that is not sound."""
        touched, self._touched = self._touched, {}
        for structure in touched:
            try:
                structure.check()
            except AssertionError as error:
                raise BrokenInvariant(f"{structure!r}: {error}") from error
