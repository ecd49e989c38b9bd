"""The SQL behind each change and each kind of row. The tables are named in migrations/.

A change is one or more statements whose parameters are its fields (those of its row, where it has one), so this
table is all there is to know about a change. Values cross into SQLite by three rules: a text that is not UTF-8
goes in as its bytes, a tuple of texts as a JSON list, all else as it is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar, get_type_hints

from storage.definitions.definition_changes import (
    BindingRow,
    Change,
    DeleteBinding,
    DeleteExchange,
    DeleteGlobalParameter,
    DeleteParameter,
    DeletePermission,
    DeletePolicy,
    DeleteQueue,
    DeleteTopicPermission,
    DeleteUser,
    DeleteUserLimit,
    DeleteVhost,
    DeleteVhostLimit,
    DropTombstone,
    ExchangeRow,
    GlobalParameterRow,
    ParameterRow,
    PermissionRow,
    PolicyRow,
    PutBinding,
    PutExchange,
    PutGlobalParameter,
    PutParameter,
    PutPermission,
    PutPolicy,
    PutQueue,
    PutTopicPermission,
    PutUser,
    PutUserLimit,
    PutVhost,
    PutVhostLimit,
    QueueRow,
    SetMetadata,
    TopicPermissionRow,
    UserLimitRow,
    UserRow,
    VhostLimitRow,
    VhostRow,
)

Row = TypeVar("Row", bound=tuple[Any, ...])


class Table(NamedTuple):
    """Where the rows of one kind are kept, and what makes a row the same row."""

    name: str
    key: tuple[str, ...]


TABLES: dict[type[Any], Table] = {
    VhostRow: Table("vhosts", ("name",)),
    UserRow: Table("users", ("name",)),
    PermissionRow: Table("permissions", ("user", "vhost")),
    TopicPermissionRow: Table("topic_permissions", ("user", "vhost", "exchange")),
    ExchangeRow: Table("exchanges", ("vhost", "name")),
    QueueRow: Table("queues", ("id",)),
    BindingRow: Table("bindings", BindingRow._fields),
    PolicyRow: Table("policies", ("vhost", "name", "operator")),
    ParameterRow: Table("parameters", ("vhost", "component", "name")),
    GlobalParameterRow: Table("global_parameters", ("name",)),
    VhostLimitRow: Table("vhost_limits", ("vhost", "name")),
    UserLimitRow: Table("user_limits", ("user", "name")),
}


def _put(row: type[Any]) -> tuple[str]:
    # Never INSERT OR REPLACE: replacing a row deletes it first, and with it all that refers to it.
    table = TABLES[row]
    columns = row._fields
    updated = [f'"{name}" = excluded."{name}"' for name in columns if name not in table.key]
    action = f"UPDATE SET {', '.join(updated)}" if updated else "NOTHING"
    names = ", ".join(f'"{name}"' for name in columns)
    values = ", ".join(f":{name}" for name in columns)
    key = ", ".join(f'"{name}"' for name in table.key)
    return (f"INSERT INTO {table.name} ({names}) VALUES ({values}) ON CONFLICT ({key}) DO {action}",)


def _delete(row: type[Any]) -> tuple[str]:
    table = TABLES[row]
    return (f"DELETE FROM {table.name} WHERE " + " AND ".join(f'"{name}" = :{name}' for name in table.key),)


_DELETE_TOPIC_PERMISSION = """
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
_BEGIN_SEQUENCE = """
INSERT INTO sqlite_sequence (name, seq)
SELECT 'queues', 0 WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'queues')
"""
_LIFT_SEQUENCE = "UPDATE sqlite_sequence SET seq = max(seq, :queue_id) WHERE name = 'queues'"
_SET_METADATA = """
INSERT INTO metadata (key, value) VALUES (:key, :value) ON CONFLICT (key) DO UPDATE SET value = excluded.value
"""

STATEMENTS: dict[type[Any], tuple[str, ...]] = {
    PutVhost: _put(VhostRow),
    DeleteVhost: (
        _BURY_EVERYTHING,
        *_delete(VhostRow),  # and, by the schema's cascades, everything in it
    ),
    PutUser: _put(UserRow),
    DeleteUser: _delete(UserRow),
    PutPermission: _put(PermissionRow),
    DeletePermission: _delete(PermissionRow),
    PutTopicPermission: _put(TopicPermissionRow),
    DeleteTopicPermission: (_DELETE_TOPIC_PERMISSION,),
    # SQLite counts the ids of queues by itself; those of delayed messages are of the same sequence.
    PutExchange: (*_put(ExchangeRow), _BEGIN_SEQUENCE, _LIFT_SEQUENCE),
    DeleteExchange: (
        _BURY_DELAYED_MESSAGES,
        "DELETE FROM bindings WHERE vhost = :vhost AND source = :name",
        "DELETE FROM bindings WHERE vhost = :vhost AND destination_kind = 'exchange' AND destination = :name",
        *_delete(ExchangeRow),
    ),
    PutQueue: _put(QueueRow),
    DeleteQueue: (
        "INSERT OR IGNORE INTO tombstones (queue_id) VALUES (:id)",
        _DELETE_BINDINGS_OF_QUEUE,
        *_delete(QueueRow),
    ),
    PutBinding: _put(BindingRow),
    DeleteBinding: _delete(BindingRow),
    PutPolicy: _put(PolicyRow),
    DeletePolicy: _delete(PolicyRow),
    PutParameter: _put(ParameterRow),
    DeleteParameter: _delete(ParameterRow),
    PutGlobalParameter: _put(GlobalParameterRow),
    DeleteGlobalParameter: _delete(GlobalParameterRow),
    PutVhostLimit: _put(VhostLimitRow),
    DeleteVhostLimit: _delete(VhostLimitRow),
    PutUserLimit: _put(UserLimitRow),
    DeleteUserLimit: _delete(UserLimitRow),
    DropTombstone: ("DELETE FROM tombstones WHERE queue_id = :queue_id",),
    SetMetadata: (_SET_METADATA,),
}


class Step(NamedTuple):
    """One statement and the parameters to run it with, one run each."""

    sql: str
    parameters: list[dict[str, object]]


def steps(changes: Iterable[Change]) -> list[Step]:
    """The statements of `changes` in order; runs of the same statement are joined."""
    found: list[Step] = []
    for change in changes:
        parameters = _parameters(change)
        for sql in STATEMENTS[type(change)]:
            if found and found[-1].sql == sql:
                found[-1].parameters.append(parameters)
            else:
                found.append(Step(sql, [parameters]))
    return found


def select(row: type[Any]) -> str:
    """The query for every row of a kind, in the order of creation."""
    columns = ", ".join(f'"{name}"' for name in row._fields)
    return f"SELECT {columns} FROM {TABLES[row].name} ORDER BY rowid"


def rows(kind: type[Row], raw: Iterable[Iterable[object]]) -> tuple[Row, ...]:
    """What `select(kind)` answered, as rows."""
    make: Callable[..., Row] = kind
    readers = [_READERS[hint] for hint in get_type_hints(kind).values()]
    columns = list(zip(*raw, strict=True))  # there may be very many rows, and only few columns
    if not columns:
        return ()
    return tuple(map(make, *(map(read, column) for read, column in zip(readers, columns, strict=True))))


def _parameters(change: Change) -> dict[str, object]:
    values = getattr(change, "row", change)
    return {name: _written(value) for name, value in zip(values._fields, values, strict=True)}


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


_READERS: dict[Any, Callable[[Any], object]] = {
    str: _read_text,
    bytes: bytes,
    bool: bool,
    int: int,
    tuple[str, ...]: _read_tags,
}
