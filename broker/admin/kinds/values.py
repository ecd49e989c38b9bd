"""Checks of single values: names, tags, regular expressions, JSON.

Errors never repeat a value: it may be a password.
"""

from __future__ import annotations

from collections.abc import Iterable

from broker.admin.protocol import invalid
from broker.entities.arguments.name_patterns import InvalidPattern, compiled

NAME_BYTES_MAX = 255
"""Names travel as AMQP short strings."""
DEPTH_MAX = 64
"""Levels of nesting in a JSON value."""


def separated(tags: Iterable[str] | str) -> tuple[str, ...]:
    """Return tags without blanks and repetitions; they are given as a list, or with commas between."""
    listed = tags.split(",") if isinstance(tags, str) else tags
    return tuple(dict.fromkeys(tag.strip() for tag in listed if tag.strip()))


def check_json(value: object, what: str, depth: int = 0) -> None:
    """Raise AdministrationError `invalid` for half a surrogate pair, which no encoding holds, and for deep nesting."""
    if isinstance(value, str):
        if not is_text(value):
            raise invalid(f"{what}: a text holds half of a surrogate pair")
    elif isinstance(value, dict | list):
        if depth > DEPTH_MAX:
            raise invalid(f"{what}: nested too deeply")
        for item in (*value, *value.values()) if isinstance(value, dict) else value:
            check_json(item, what, depth + 1)


def check_pattern(pattern: str) -> None:
    """Raise AdministrationError `invalid` for an invalid regular expression."""
    try:
        compiled(pattern)
    except InvalidPattern as error:
        raise invalid(f"regular expression '{pattern}' is invalid: {error}") from error


def is_text(value: str) -> bool:
    """Return True for a text that stands for bytes: UTF-8, or others escaped as single surrogates."""
    try:
        value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True
