"""AMQP field tables in JSON, as RabbitMQ shows them in lists and definitions files.

JSON knows fewer types: integers lose their width, a timestamp becomes a number, bytes that are not UTF-8 become
escaped surrogates. A table read back therefore equals the first one by value, not always by type.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from broker.admin.kinds.values import NAME_BYTES_MAX
from broker.wire.field_tables import NESTING_MAX, TYPE_NAMES, Field, Table, to_python

_OTHER_KINDS = {bool: "t", float: "d", bytearray: "S", type(None): "V"}


def plain(table: Table) -> dict[str, Any]:
    """Convert a table to a JSON object."""
    return {name: _plain(value) for name, value in to_python(table).items()}


def typed(table: Table) -> list[list[Any]]:
    """Convert a table to a list of [name, type, value]; the elements of an array are [type, value]."""
    return [[name, TYPE_NAMES[field.kind], _typed(field)] for name, field in table.items()]


def table(values: Mapping[str, Any] | Sequence[Any]) -> Table:
    """Convert a JSON object to a table. Integers become 64 bits wide, as in RabbitMQ. An empty list is an empty table.

    Raises OverflowError for a number beyond that, ValueError for a list with something in it, for a name of more than
    255 bytes, for half of a surrogate pair, and for deeper nesting than an AMQP table may have.
    """
    if not isinstance(values, Mapping):
        if values:
            raise ValueError("arguments: expected names with values")
        return {}
    return _fields(values, 1)


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


def _fields(values: Mapping[str, Any], depth: int) -> Table:
    return {_short(name): _field(value, depth) for name, value in values.items()}


def _field(value: Any, depth: int) -> Field:
    kind = type(value)
    if kind is str:
        return Field("S", _bytes(value))
    if kind is int:
        if not -(1 << 63) <= value < 1 << 63:
            raise OverflowError(f"{value} does not fit 64 bits")
        return Field("l", value)
    if kind is list or kind is dict:
        if depth == NESTING_MAX:
            raise ValueError(f"arguments: nested too deeply; an AMQP table has at most {NESTING_MAX} levels")
        if kind is dict:
            return Field("F", _fields(value, depth + 1))
        return Field("A", [_field(item, depth + 1) for item in value])
    return Field(_OTHER_KINDS[kind], value)


def _bytes(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise ValueError("arguments: a text holds half of a surrogate pair") from None


def _short(name: str) -> str:
    if len(_bytes(name)) > NAME_BYTES_MAX:
        raise ValueError(f"arguments: a name is longer than {NAME_BYTES_MAX} bytes")
    return name
