"""Where the choices come from that make an input: from a fuzzer's bytes, or from hypothesis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from hypothesis import strategies as st

T = TypeVar("T")


class Choices(Protocol):
    """What a target asks for. `more` becomes false in the end, so a loop on it ends."""

    def number(self, low: int, high: int) -> int:
        """A whole number between two, both included."""
        ...

    def data(self, size_max: int) -> bytes:
        """Some bytes, perhaps none."""
        ...

    @property
    def more(self) -> bool:
        """There is more to come."""
        ...


class Given:
    """Choices read off bytes. When these are used up, every further choice is the lowest."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self, low: int, high: int) -> int:
        size = ((high - low).bit_length() + 7) // 8
        start, self._at = self._at, self._at + size
        return low + int.from_bytes(self._data[start : self._at], "big") % (high - low + 1)

    def data(self, size_max: int) -> bytes:
        size = self.number(0, size_max)
        start, self._at = self._at, min(self._at + size, len(self._data))
        return self._data[start : self._at]

    @property
    def more(self) -> bool:
        return self._at < len(self._data)


class Drawn:
    """Choices drawn by hypothesis, which makes a failing input smaller choice by choice."""

    def __init__(self, data: st.DataObject, steps_max: int) -> None:
        self._draw = data.draw
        self._steps = steps_max

    def number(self, low: int, high: int) -> int:
        return self._draw(st.integers(low, high))

    def data(self, size_max: int) -> bytes:
        return self._draw(st.binary(max_size=min(size_max, 64)))

    @property
    def more(self) -> bool:
        self._steps -= 1
        return self._steps >= 0 and self._draw(st.booleans())


def pick(choices: Choices, options: Sequence[T]) -> T:
    """One of several."""
    return options[choices.number(0, len(options) - 1)]


def once_in(choices: Choices, times: int) -> bool:
    """True about once in so many times; never when the input has come to its end."""
    return choices.number(0, times - 1) == times - 1
