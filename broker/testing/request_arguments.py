"""The arguments of a request of a test, read and checked one by one.

Errors name an argument and never repeat its value: it may be a password.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from broker.admin.kinds.values import is_text
from broker.admin.protocol import invalid


class RequestArguments:
    """The arguments of a request. Every method raises AdministrationError `invalid` for a value of another type."""

    def __init__(self, given: Mapping[str, object]) -> None:
        self._given = given

    def all(self) -> Mapping[str, object]:
        """Return all arguments."""
        return self._given

    def value(self, name: str) -> object:
        """Return a value of any type."""
        if name not in self._given:
            raise invalid(f"argument {name} is missing")
        return self._given[name]

    def text(self, name: str) -> str:
        """Return a text, perhaps empty."""
        value = self.value(name)
        if not isinstance(value, str) or not is_text(value):
            raise invalid(f"argument {name}: expected a text")
        return value

    def optional(self, name: str) -> str | None:
        """Return a text, or None if it is missing or null."""
        return None if self._given.get(name) is None else self.text(name)

    def given(self, name: str) -> bool:
        """Return True if there is a value that is not null."""
        return self._given.get(name) is not None

    def number(self, name: str, highest: float = math.inf) -> float:
        """Return a number from 0 to `highest`."""
        value = self.value(name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= highest:
            limit = f"to {highest:,.12g}" if highest < math.inf else "up"
            raise invalid(f"argument {name}: expected a number from 0 {limit}")
        return value

    def flag(self, name: str) -> bool | None:
        """Return true or false, or None if it is missing or null."""
        value = self._given.get(name)
        if value is not None and not isinstance(value, bool):
            raise invalid(f"argument {name}: expected true or false")
        return value
