"""AMQP field tables in JSON's terms, as RabbitMQ shows them in listings and definitions files.

JSON knows fewer types: integers lose their width, a timestamp becomes a number, bytes that are not UTF-8 become
escaped surrogates. A table read back therefore equals the first one by value, not always by type.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from broker.admin.command_arguments import NAME_BYTES_MAX
from broker.wire.field_tables import TYPE_NAMES, Field, Table, from_python, to_python


def plain(table: Table) -> dict[str, Any]:
    """A table as JSON can hold it."""
    return {name: _plain(value) for name, value in to_python(table).items()}


def typed(table: Table) -> list[list[Any]]:
    """A table with the type of each value, as a list of [name, type, value]; of arrays, of [type, value]."""
    return [[name, TYPE_NAMES[field.kind], _typed(field)] for name, field in table.items()]


def table(values: Mapping[str, Any] | Sequence[Any]) -> Table:
    """A table of JSON values; integers become 64 bits wide, as RabbitMQ reads them. An empty list is an empty table.

    Raises OverflowError for a number beyond that, ValueError for a list with something in it, and for a name of more
    than 255 bytes.
    """
    if not isinstance(values, Mapping):
        if values:
            raise ValueError("arguments: expected names with values")
        return {}
    return from_python({_short(name): _widened(value) for name, value in values.items()})


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    return value


def _typed(field: Field) -> Any:
    if field.kind == "F":
        return typed(field.value)
    if field.kind == "A":
        return [[TYPE_NAMES[item.kind], _typed(item)] for item in field.value]
    return _plain(field.value)


def _widened(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        if not -(1 << 63) <= value < 1 << 63:
            raise OverflowError(f"{value} does not fit 64 bits")
        return Field("l", value)
    if isinstance(value, list):
        return [_widened(item) for item in value]
    if isinstance(value, dict):
        return {_short(name): _widened(item) for name, item in value.items()}
    return value


def _short(name: str) -> str:
    if len(name.encode("utf-8", "surrogateescape")) > NAME_BYTES_MAX:
        raise ValueError(f"arguments: a name is longer than {NAME_BYTES_MAX} bytes")
    return name
