"""Invariants: conditions that hold for a structure at the end of each turn; checked only for debugging.

A structure with invariants has a method `check`, which inspects all of it and raises AssertionError with a sentence
that says what is wrong. Nothing calls it unless the setting `debug.check_invariants` is on. Then there is a
`Broker.invariants`: changed structures are registered with it, and checked at the end of the turn. The turn itself
registers the queues that deliver in it; others are registered by the code that changes them:

    if (invariants := broker.invariants) is not None:
        invariants.touch(ledger)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol


class Checked(Protocol):
    """A structure with invariants."""

    def check(self) -> None:
        """Raise AssertionError if the structure is inconsistent. May take time in proportion to its size."""


class BrokenInvariant(Exception):
    """A structure is inconsistent, so its contents cannot be trusted. Ends the process."""


class Invariants:
    """The structures that were changed in this turn, checked at its end."""

    def __init__(self) -> None:
        self._touched: dict[Checked, None] = {}

    def touch(self, structure: Checked) -> None:
        """Register a changed structure."""
        self._touched[structure] = None

    def touch_all(self, structures: Iterable[Checked]) -> None:
        """Register several changed structures."""
        self._touched.update(dict.fromkeys(structures))

    def check(self) -> None:
        """Check the structures registered since the last call. Raises BrokenInvariant for an inconsistent one."""
        touched, self._touched = self._touched, {}
        for structure in touched:
            try:
                structure.check()
            except AssertionError as error:
                raise BrokenInvariant(f"{structure!r}: {error}") from error
