"""The choices that make an input, read off bytes: a fuzzer's, random ones, or those of a file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Choices:
    """A target's source of choices. When the bytes are used up every further choice is the lowest, and `more` is
    false."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self, low: int, high: int) -> int:
        """A whole number between two, both included."""
        size = ((high - low).bit_length() + 7) // 8
        start, self._at = self._at, self._at + size
        return low + int.from_bytes(self._data[start : self._at], "big") % (high - low + 1)

    def data(self, size_max: int) -> bytes:
        """Some bytes, perhaps none."""
        size = self.number(0, size_max)
        start, self._at = self._at, min(self._at + size, len(self._data))
        return self._data[start : self._at]

    @property
    def more(self) -> bool:
        """There is more to come: a loop on it ends."""
        return self._at < len(self._data)


def pick(choices: Choices, options: Sequence[T]) -> T:
    """One of several."""
    return options[choices.number(0, len(options) - 1)]


def once_in(choices: Choices, times: int) -> bool:
    """True about once in `times` times; never when the input has come to its end."""
    return choices.number(0, times - 1) == times - 1
