"""The arguments of a command, read and checked one by one.

Errors name an argument and never repeat its value: it may be a password.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from broker.admin.kinds.values import NAME_BYTES_MAX, check_json, check_pattern, is_text, separated
from broker.admin.protocol import invalid


class Arguments:
    """What a request brought. Every method raises AdministrationError `invalid` for what it cannot use."""

    def __init__(self, given: Mapping[str, object]) -> None:
        self._given = given

    def all(self) -> Mapping[str, object]:
        """Everything that was given."""
        return self._given

    def value(self, name: str) -> object:
        """Whatever was given under this name."""
        if name not in self._given:
            raise invalid(f"argument {name} is missing")
        return self._given[name]

    def text(self, name: str) -> str:
        """A text, perhaps empty."""
        value = self.value(name)
        if not isinstance(value, str) or not is_text(value):
            raise invalid(f"argument {name}: expected a text")
        return value

    def name(self, name: str) -> str:
        """A text that something can be called by."""
        value = self.text(name)
        if not value:
            raise invalid(f"argument {name}: is empty")
        if len(value.encode("utf-8", "surrogateescape")) > NAME_BYTES_MAX:
            raise invalid(f"argument {name}: is longer than {NAME_BYTES_MAX} bytes")
        return value

    def optional(self, name: str) -> str | None:
        """A text, or None where there is none."""
        return None if self._given.get(name) is None else self.text(name)

    def given(self, name: str) -> bool:
        """There is a value, and it is not null."""
        return self._given.get(name) is not None

    def number(self, name: str, highest: float = math.inf) -> float:
        """A number from 0 up, at most `highest`."""
        value = self.value(name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= highest:
            limit = f"to {highest:,.12g}" if highest < math.inf else "up"
            raise invalid(f"argument {name}: expected a number from 0 {limit}")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of texts, without repetitions."""
        values = self.value(name)
        if not isinstance(values, list) or not all(isinstance(value, str) and is_text(value) for value in values):
            raise invalid(f"argument {name}: expected a list of texts")
        return tuple(dict.fromkeys(values))

    def tags(self, name: str) -> tuple[str, ...]:
        """Tags, as a list of texts or as a text with commas between, without repetitions and blanks; null is none."""
        value = self.value(name)
        if value is None:
            return ()
        return separated(self.text(name) if isinstance(value, str) else self.texts(name))

    def flag(self, name: str) -> bool | None:
        """True or false, or None where there is neither."""
        value = self._given.get(name)
        if value is not None and not isinstance(value, bool):
            raise invalid(f"argument {name}: expected true or false")
        return value

    def table(self, name: str) -> Mapping[str, object]:
        """An object; nothing, null, and an empty list, which RabbitMQ may write instead, are an empty one."""
        value = self._given.get(name) or {}
        if not isinstance(value, Mapping):
            raise invalid(f"argument {name}: expected names with values")
        return value

    def has(self, name: str) -> bool:
        """Whether there is a value, if only null."""
        return name in self._given

    def json(self, name: str) -> object:
        """Whatever was given under this name, if it can be written down again."""
        value = self.value(name)
        check_json(value, f"argument {name}")
        return value

    def pattern(self, name: str) -> str:
        """A regular expression."""
        value = self.text(name)
        check_pattern(value)
        return value
