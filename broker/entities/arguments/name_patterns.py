"""Regular expressions of operators (permissions, policies), searched in names chosen by clients, in bounded time.

With a pattern such as `^([a-z]+-?)+$` a backtracking engine can take forever on a name that a client chose. PCRE2,
which RabbitMQ uses too, counts its steps and stops after a limit, STEPS_MAX for all places of a name together; the
pattern then does not match. Simple patterns, nearly all of them, are bounded anyway and use Python's `re`: that is
quicker, and PCRE2 need not be loaded. Names and patterns are compared as bytes, as in RabbitMQ.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

STEPS_MAX = 10_000
"""Most steps of one search, some 0.1 ms. Ordinary patterns take less than 300 in ordinary names;
`(retry|dead|dlq)[0-9]*`, which tries three choices at each place, takes 1,022 in a name of 255 bytes."""
HEAP_KIBIBYTES_MAX = 1024
PATTERN_BYTES_MAX = 8192
"""Most bytes of a pattern: PCRE2 takes at most 3 ms to compile it, and its compiled form cannot exceed 64 KiB."""
COMPILED_MAX = 4096
"""Compiled patterns in the cache."""

_WORD = rb"(?:[A-Za-z0-9_ .:/-]|\\[.-])*"
_WORDS = rb"\((?:\?:)?" + _WORD + rb"(?:\|" + _WORD + rb")*\)"
_PLAIN = re.compile(
    rb"\^?%(word)s\$?(?:\|\^?%(word)s\$?)*"  # a text, or one of several
    rb"|\^?%(word)s%(words)s%(word)s(?:\.\*|\$)?"  # one choice in it
    rb"|\^?%(word)s\.\*\$?"  # a text and what follows it
    rb"|\^%(word)s\.\*%(word)s\$?" % {b"word": _WORD, b"words": _WORDS}  # its beginning and its end
)
"""Patterns for `re`: for any name they take time proportional to the product of both lengths, and both engines agree on
them. Two choices in a row are excluded: the time of `(a|aa)(a|aa)(a|aa)b` doubles with each."""


class PatternError(Exception):
    """A pattern is invalid, or a search took too many steps."""


class InvalidPattern(PatternError):
    """An invalid regular expression; `position`: the byte of the error."""

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
        """Return whether the pattern is found anywhere in a name. Raises PatternError after `steps_max` steps."""
        text = name.encode("utf-8", "surrogateescape")
        if self._by_re is not None:
            return self._by_re(text) is not None
        try:
            return bool(self._by_pcre2(text, steps_max))
        except Exception as error:  # a Pcre2Error, whose module is loaded only when it is needed
            raise PatternError(f"regular expression '{shown(self.pattern)}' is given up on '{name}': {error}") from None


@lru_cache(COMPILED_MAX)
def compiled(pattern: str) -> NamePattern:
    """Return a compiled pattern, cached. Raises InvalidPattern."""
    return NamePattern(pattern)


def shown(pattern: str) -> str:
    """Return a pattern, cut to 200 characters for the log."""
    return pattern if len(pattern) <= 200 else f"{pattern[:200]}..."


def _compiled_by_re(pattern: bytes) -> Any:
    return re.compile(pattern).search if _PLAIN.fullmatch(pattern) else None


def _compiled_by_pcre2(pattern: bytes) -> Any:
    # Imported here, because most brokers have no such pattern.
    from broker.entities.arguments.pcre2_library import Expression, Pcre2Error, pcre2

    if b"(*LIMIT_" in pattern:
        raise InvalidPattern("limits are the broker's to set", pattern.index(b"(*LIMIT_"))
    try:
        return Expression(pattern, pcre2(HEAP_KIBIBYTES_MAX)).search
    except Pcre2Error as error:
        raise InvalidPattern(str(error), error.position) from None
