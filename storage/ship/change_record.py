"""Changes of definitions as a record: a MessagePack array of [what, kind, fields by name], one for each change.

By name, so that a later release, whose rows have more fields, reads them too. A text that is not UTF-8 is written as
its bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_type_hints

import msgspec

from storage.definitions.definition_rows import (
    TABLES,
    Change,
    DefinitionRow,
    Delete,
    DropTombstone,
    Put,
    SetMetadata,
)
from storage.storage_errors import StoreCorrupt

_KINDS: dict[str, type[DefinitionRow]] = {table.name: kind for kind, table in TABLES.items()}
_OTHERS: dict[str, type[DropTombstone] | type[SetMetadata]] = {"drop": DropTombstone, "metadata": SetMetadata}
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[tuple[str, str, dict[str, Any]]]).decode


def encode_changes(changes: Sequence[Change]) -> bytes:
    """Return the data of a record."""
    return _encode(list(map(_written, changes)))


def decode_changes(data: bytes) -> list[Change]:
    """Return the changes of a record. Raises StoreCorrupt."""
    try:
        return [_read(*written) for written in _decode(data)]
    except (msgspec.MsgspecError, KeyError, TypeError) as error:
        raise StoreCorrupt(f"a shipped change of definitions cannot be read ({error})") from error


def _written(change: Change) -> tuple[str, str, dict[str, Any]]:
    if isinstance(change, Put):
        return "put", TABLES[type(change.row)].name, _fields(change.row._asdict())
    if isinstance(change, Delete):
        return "delete", TABLES[change.kind].name, _fields(change.key)
    return ("drop" if isinstance(change, DropTombstone) else "metadata"), "", _fields(change._asdict())


def _fields(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: _bytes_if_odd(value) if isinstance(value, str) else value for name, value in fields.items()}


def _bytes_if_odd(text: str) -> str | bytes:
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogateescape")
    return text


def _read(what: str, kind: str, fields: dict[str, Any]) -> Change:
    if what in _OTHERS:
        return _OTHERS[what](**fields)
    row = _KINDS[kind]
    hints = get_type_hints(row)
    given = {name: _value(hints[name], value) for name, value in fields.items()}
    return Put(row(**given)) if what == "put" else Delete(row, given)


def _value(hint: object, value: Any) -> Any:
    if hint is str and isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    return tuple(value) if isinstance(value, list) else value
