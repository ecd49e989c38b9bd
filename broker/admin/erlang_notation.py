"""JSON values as RabbitMQ's reply texts show them: in Erlang's notation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def term(value: Any) -> str:
    """One value, for instance <<"a text">>, true, or [1,2]."""
    if isinstance(value, str):
        return f'<<"{value}">>'
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    if isinstance(value, Mapping):
        return "#{" + ",".join(f"{term(name)} => {term(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(term, value)) + "]"
    return str(value)


def pairs(values: Mapping[str, Any]) -> str:
    """An object as a list of pairs."""
    return "[" + ",".join(f"{{{term(name)},{term(value)}}}" for name, value in values.items()) + "]"
