"""Regular expressions that operators write and clients' names are searched with, in bounded time.

A pattern such as `^([a-z]+-?)+$` can keep an pcre2 that tries every way busy for ever with a name that a client
chose. PCRE2, the pcre2 of RabbitMQ's expressions, counts its steps and gives up after so many, all places of a name
taken together; then the answer is no. What cannot go wrong, which is nearly all that people write, is left to Python's
`re`: that is quicker, and PCRE2 need not be loaded. Names and patterns are compared as bytes, as in RabbitMQ.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

STEPS_MAX = 10_000
"""Of one search: some 0.1 ms. Ordinary patterns take less than 300 in ordinary names; `(retry|dead|dlq)[0-9]*`, which
tries three choices at each place, takes 1,022 in a name of 255 bytes."""
HEAP_KIBIBYTES_MAX = 1024
PATTERN_BYTES_MAX = 8192
"""How long a pattern may be. PCRE2 takes 3 ms at worst to compile so much, and its compiled form ends at 64 KiB."""
COMPILED_MAX = 4096
"""Patterns that are kept compiled."""

_WORD = rb"(?:[A-Za-z0-9_ .:/-]|\\[.-])*"
_WORDS = rb"\((?:\?:)?" + _WORD + rb"(?:\|" + _WORD + rb")*\)"
_PLAIN = re.compile(
    rb"\^?%(word)s\$?(?:\|\^?%(word)s\$?)*"  # a text, or one of several
    rb"|\^?%(word)s%(words)s%(word)s(?:\.\*|\$)?"  # one choice in it
    rb"|\^?%(word)s\.\*\$?"  # a text and what follows it
    rb"|\^%(word)s\.\*%(word)s\$?" % {b"word": _WORD, b"words": _WORDS}  # its beginning and its end
)
"""Whatever the name, these take no longer than a name and a pattern are long, one multiplied by the other; and both
engines mean the same by them. Two choices in a row do not belong here: `(a|aa)(a|aa)(a|aa)b` doubles with each."""


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

    __slots__ = ("_by_pcre2", "_by_re", "pattern")

    def __init__(self, pattern: str) -> None:
        """Raises InvalidPattern."""
        self.pattern = pattern
        written = pattern.encode("utf-8", "surrogateescape")
        if len(written) > PATTERN_BYTES_MAX:
            raise InvalidPattern("regular expression is too large", PATTERN_BYTES_MAX)
        self._by_re: Any = _compiled_by_re(written)
        self._by_pcre2: Any = None if self._by_re else _compiled_by_pcre2(written)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NamePattern) and self.pattern == other.pattern

    def __hash__(self) -> int:
        return hash(self.pattern)

    def search(self, name: str, steps_max: int = STEPS_MAX) -> bool:
        """Whether it is found anywhere in a name. Raises PatternError when it is given up."""
        text = name.encode("utf-8", "surrogateescape")
        if self._by_re is not None:
            return self._by_re(text) is not None
        try:
            return bool(self._by_pcre2(text, steps_max))
        except Exception as error:  # of PCRE2, which is not loaded where it is not needed
            raise PatternError(f"regular expression '{shown(self.pattern)}' is given up on '{name}': {error}") from None


@lru_cache(COMPILED_MAX)
def compiled(pattern: str) -> NamePattern:
    """A pattern, compiled once. Raises InvalidPattern."""
    return NamePattern(pattern)


def shown(pattern: str) -> str:
    """As much of a pattern as a line of the log has room for."""
    return pattern if len(pattern) <= 200 else f"{pattern[:200]}..."


def _compiled_by_re(pattern: bytes) -> Any:
    return re.compile(pattern).search if _PLAIN.fullmatch(pattern) else None


def _compiled_by_pcre2(pattern: bytes) -> Any:
    # Imported here: most brokers have no such pattern.
    from broker.entities.arguments.pcre2_library import Expression, Pcre2Error, pcre2

    if b"(*LIMIT_" in pattern:
        raise InvalidPattern("limits are the broker's to set", pattern.index(b"(*LIMIT_"))
    try:
        return Expression(pattern, pcre2(HEAP_KIBIBYTES_MAX)).search
    except Pcre2Error as error:
        raise InvalidPattern(str(error), error.position) from None
