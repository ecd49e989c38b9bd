"""Checks of single arguments, beyond their types. Errors name the argument and never repeat its value."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

from msgspec import UNSET, UnsetType

from broker.admin.kinds.values import NAME_BYTES_MAX, check_json, check_pattern, separated
from broker.admin.protocol import invalid


def named(value: str, argument: str = "name") -> str:
    """Return a name for something new. Raises AdministrationError `invalid` for an empty or too long one."""
    if not value:
        raise invalid(f"argument {argument}: is empty")
    if len(value.encode("utf-8", "surrogateescape")) > NAME_BYTES_MAX:
        raise invalid(f"argument {argument}: is longer than {NAME_BYTES_MAX} bytes")
    return value


def number(value: float, argument: str, highest: float = math.inf) -> float:
    """Return a number from 0 to `highest`. Raises AdministrationError `invalid`."""
    if not 0 <= value <= highest:
        limit = f"to {highest:,.12g}" if highest < math.inf else "up"
        raise invalid(f"argument {argument}: expected a number from 0 {limit}")
    return value


def distinct(values: Collection[str]) -> tuple[str, ...]:
    """Return texts without repetitions, in their order."""
    return tuple(dict.fromkeys(values))


def tags_of(value: list[str] | str | UnsetType | None) -> tuple[str, ...]:
    """Return tags without blanks and repetitions: a list, a text with commas between, or nothing."""
    return () if value is None or value is UNSET else separated(value)


def table(value: object, argument: str) -> Mapping[str, object]:
    """Return an object; nothing, null, and an empty list, which RabbitMQ may write instead, are an empty one."""
    value = value or {}
    if not isinstance(value, Mapping):
        raise invalid(f"argument {argument}: expected names with values")
    return value


def json_value(value: object, argument: str) -> object:
    """Return a JSON value. Raises AdministrationError `invalid` for one that cannot be written as JSON again."""
    check_json(value, f"argument {argument}")
    return value


def patterns(*values: str) -> tuple[str, ...]:
    """Return regular expressions. Raises AdministrationError `invalid`."""
    for value in values:
        check_pattern(value)
    return values
