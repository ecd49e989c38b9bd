"""Regular expressions that operators write and clients' names are searched with, in bounded time.

A pattern such as `^([a-z]+-?)+$` can keep an engine that tries every way busy for ever with a name that a client
chose. PCRE2, the engine of RabbitMQ's expressions, counts its steps and gives up after so many; then the answer is
no. What cannot go wrong, which is nearly all that people write, is left to Python's `re`: that is quicker, and PCRE2
need not be loaded. Names and patterns are compared as bytes, as in RabbitMQ.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

STEPS_MAX = 10_000
"""From each place in a name; a name of 255 bytes costs some milliseconds at the most."""
HEAP_KIBIBYTES_MAX = 1024
COMPILED_MAX = 4096
"""Patterns that are kept compiled."""

_PLAIN = re.compile(rb"(?:[A-Za-z0-9_ .:/|()^$-]|\\[.-])*(?:\.\*)?(?:[A-Za-z0-9_ .:/|()^$-]|\\[.-])*")
"""Without a repetition, or with one: there is no way to go wrong, and both engines mean the same by it."""


class PatternError(Exception):
    """A pattern says nothing about a name: it has no meaning, or takes too long."""


class InvalidPattern(PatternError):
    """It is no regular expression; `position` is the byte where that shows."""

    def __init__(self, reason: str, position: int) -> None:
        super().__init__(f"{reason} at position {position}")
        self.reason = reason
        self.position = position


class NamePattern:
    """A compiled pattern. Two of the same text are equal."""

    __slots__ = ("_search", "pattern")

    def __init__(self, pattern: str) -> None:
        """Raises InvalidPattern."""
        self.pattern = pattern
        written = pattern.encode("utf-8", "surrogateescape")
        self._search: Any = _compiled_by_re(written) or _compiled_by_pcre2(written)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NamePattern) and self.pattern == other.pattern

    def __hash__(self) -> int:
        return hash(self.pattern)

    def search(self, name: str) -> bool:
        """Whether it is found anywhere in a name. Raises PatternError when it is given up."""
        try:
            return bool(self._search(name.encode("utf-8", "surrogateescape")))
        except Exception as error:  # of PCRE2, which is not loaded where it is not needed
            raise PatternError(f"regular expression '{self.pattern}' is given up on '{name}': {error}") from error


@lru_cache(COMPILED_MAX)
def compiled(pattern: str) -> NamePattern:
    """A pattern, compiled once. Raises InvalidPattern."""
    return NamePattern(pattern)


def _compiled_by_re(pattern: bytes) -> Any:
    if _PLAIN.fullmatch(pattern) is None:
        return None
    try:
        return re.compile(pattern).search
    except re.error:
        return None


def _compiled_by_pcre2(pattern: bytes) -> Any:
    # Imported here: most brokers have no such pattern.
    from broker.entities.arguments.pcre2_library import Expression, Pcre2Error, engine

    if b"(*LIMIT_" in pattern:
        raise InvalidPattern("limits are the broker's to set", pattern.index(b"(*LIMIT_"))
    try:
        return Expression(pattern, engine(STEPS_MAX, HEAP_KIBIBYTES_MAX)).search
    except Pcre2Error as error:
        raise InvalidPattern(str(error), error.position) from None
