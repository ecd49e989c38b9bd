"""The SQL of each change and of each kind of row. The tables are in migrations/.

A change is one or more statements whose parameters are the fields of its row, or of its key. Most are written from
TABLES; the few that have SQL of their own are in _PUTS and _DELETIONS. Values go into SQLite by three rules: a text
that is not UTF-8 as its bytes, a tuple of texts as a JSON list, all else as it is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar, get_type_hints

from storage.definitions.definition_rows import (
    TABLES,
    Change,
    DefinitionRow,
    Delete,
    DropTombstone,
    ExchangeRow,
    Put,
    QueueRow,
    StreamOffsetRow,
    TopicPermissionRow,
    VhostRow,
)

Row = TypeVar("Row", bound=tuple[Any, ...])


def _put(row: type[DefinitionRow]) -> str:
    # Never INSERT OR REPLACE: replacing a row deletes it first, and with it all that refers to it.
    table = TABLES[row]
    columns = row._fields
    updated = [f'"{name}" = excluded."{name}"' for name in columns if name not in table.key]
    action = f"UPDATE SET {', '.join(updated)}" if updated else "NOTHING"
    names = ", ".join(f'"{name}"' for name in columns)
    values = ", ".join(f":{name}" for name in columns)
    key = ", ".join(f'"{name}"' for name in table.key)
    return f"INSERT INTO {table.name} ({names}) VALUES ({values}) ON CONFLICT ({key}) DO {action}"


def _delete(row: type[DefinitionRow]) -> str:
    table = TABLES[row]
    return f"DELETE FROM {table.name} WHERE " + " AND ".join(f'"{name}" = :{name}' for name in table.key)


_DELETE_TOPIC_PERMISSIONS = """
DELETE FROM topic_permissions WHERE "user" = :user AND vhost = :vhost AND (:exchange IS NULL OR exchange = :exchange)
"""
_DELETE_BINDINGS_OF_QUEUE = """
DELETE FROM bindings
WHERE destination_kind = 'queue' AND (vhost, destination) = (SELECT vhost, name FROM queues WHERE id = :id)
"""
_BURY_EVERYTHING = """
INSERT OR IGNORE INTO tombstones (queue_id)
SELECT id FROM queues WHERE vhost = :name
UNION ALL SELECT queue_id FROM exchanges WHERE vhost = :name AND queue_id > 0
"""
_BURY_DELAYED_MESSAGES = """
INSERT OR IGNORE INTO tombstones (queue_id)
SELECT queue_id FROM exchanges WHERE vhost = :vhost AND name = :name AND queue_id > 0
"""
BEGIN_SEQUENCE = """
INSERT INTO sqlite_sequence (name, seq)
SELECT 'queues', 0 WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'queues')
"""
LIFT_SEQUENCE = "UPDATE sqlite_sequence SET seq = max(seq, :queue_id) WHERE name = 'queues'"
_DROP_TOMBSTONE = "DELETE FROM tombstones WHERE queue_id = :queue_id"
_SET_METADATA = """
INSERT INTO metadata (key, value) VALUES (:key, :value) ON CONFLICT (key) DO UPDATE SET value = excluded.value
"""

# The stream may have been deleted since: then there is nothing to keep.
_PUT_STREAM_OFFSET = """
INSERT INTO stream_offsets (queue_id, "group", "offset", committed_at)
SELECT :queue_id, :group, :offset, :committed_at WHERE EXISTS (SELECT 1 FROM queues WHERE id = :queue_id)
ON CONFLICT (queue_id, "group") DO UPDATE SET "offset" = excluded."offset", committed_at = excluded.committed_at
"""

_PUTS: dict[type[DefinitionRow], tuple[str, ...]] = {
    **{kind: (_put(kind),) for kind in TABLES},
    StreamOffsetRow: (_PUT_STREAM_OFFSET,),
}
# SQLite counts the ids of queues by itself; those of delayed messages are of the same sequence.
_PUT_DELAYING_EXCHANGE = (_put(ExchangeRow), BEGIN_SEQUENCE, LIFT_SEQUENCE)
_DELETIONS: dict[type[DefinitionRow], tuple[str, ...]] = {
    **{kind: (_delete(kind),) for kind in TABLES},
    # The schema's cascades delete what is in a virtual host, and permissions and limits of a user.
    VhostRow: (_BURY_EVERYTHING, _delete(VhostRow)),
    TopicPermissionRow: (_DELETE_TOPIC_PERMISSIONS,),
    ExchangeRow: (
        _BURY_DELAYED_MESSAGES,
        "DELETE FROM bindings WHERE vhost = :vhost AND source = :name",
        "DELETE FROM bindings WHERE vhost = :vhost AND destination_kind = 'exchange' AND destination = :name",
        _delete(ExchangeRow),
    ),
    QueueRow: (
        "INSERT OR IGNORE INTO tombstones (queue_id) VALUES (:id)",
        _DELETE_BINDINGS_OF_QUEUE,
        _delete(QueueRow),
    ),
}


class Step(NamedTuple):
    """A statement, and the parameters of each time that it is to run."""

    sql: str
    parameters: list[dict[str, object]]


def steps(changes: Iterable[Change]) -> list[Step]:
    """Return the statements of changes, in their order; runs of the same statement are joined."""
    found: list[Step] = []
    for change in changes:
        parameters = {name: _written(value) for name, value in _fields(change).items()}
        for sql in _statements(change):
            if found and found[-1].sql == sql:
                found[-1].parameters.append(parameters)
            else:
                found.append(Step(sql, [parameters]))
    return found


def _statements(change: Change) -> tuple[str, ...]:
    if isinstance(change, Put):
        if isinstance(change.row, ExchangeRow) and change.row.queue_id:
            return _PUT_DELAYING_EXCHANGE
        return _PUTS[type(change.row)]
    if isinstance(change, Delete):
        return _DELETIONS[change.kind]
    return (_DROP_TOMBSTONE if isinstance(change, DropTombstone) else _SET_METADATA,)


def _fields(change: Change) -> dict[str, Any]:
    if isinstance(change, Delete):
        return change.key
    return (change.row if isinstance(change, Put) else change)._asdict()


def select(row: type[Any]) -> str:
    """Return the query for all rows of a kind, in the order of their creation."""
    columns = ", ".join(f'"{name}"' for name in row._fields)
    return f"SELECT {columns} FROM {TABLES[row].name} ORDER BY rowid"


def rows(kind: type[Row], raw: Iterable[Iterable[object]]) -> tuple[Row, ...]:
    """Return the rows that SQLite answered to `select(kind)`."""
    make: Callable[..., Row] = kind
    readers = [_READERS[hint] for hint in get_type_hints(kind).values()]
    columns = list(zip(*raw, strict=True))  # there may be very many rows, and only few columns
    if not columns:
        return ()
    return tuple(map(make, *(map(read, column) for read, column in zip(readers, columns, strict=True))))


def _written(value: object) -> object:
    if isinstance(value, str):
        return value if value.isascii() else _written_text(value)
    return json.dumps(value) if isinstance(value, tuple) else value


def _written_text(text: str) -> str | bytes:
    raw = text.encode("utf-8", "surrogateescape")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw


def _read_text(value: Any) -> str:
    return value if isinstance(value, str) else value.decode("utf-8", "surrogateescape")


def _read_tags(value: Any) -> tuple[str, ...]:
    return tuple(json.loads(value))


def _read_choice(value: Any) -> bool | None:
    return None if value is None else bool(value)


_READERS: dict[Any, Callable[[Any], object]] = {
    str: _read_text,
    bytes: bytes,
    bool: bool,
    bool | None: _read_choice,
    int: int,
    tuple[str, ...]: _read_tags,
}
