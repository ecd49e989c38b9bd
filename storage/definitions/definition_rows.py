"""The rows of the definitions store, one class for each kind, and the changes that can be made to them.

Names are text; one that is not UTF-8 carries its bytes as surrogate escapes. `arguments` are an AMQP field
table, encoded; `definition` and `value` of policies and parameters are JSON text. All of it is opaque here.
A new kind needs a class, a row in TABLES and a field in Definitions.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class VhostRow(NamedTuple):
    """A virtual host. `default_queue_type` is empty and `protected_from_deletion` None where none was chosen."""

    name: str
    description: str = ""
    tags: tuple[str, ...] = ()
    default_queue_type: str = ""
    protected_from_deletion: bool | None = None


class UserRow(NamedTuple):
    """A user. An empty `password_hash` never matches a password."""

    name: str
    password_hash: str
    hashing_algorithm: str
    tags: tuple[str, ...] = ()


class PermissionRow(NamedTuple):
    """Regular expressions for what a user may do in a virtual host."""

    user: str
    vhost: str
    configure: str
    write: str
    read: str


class TopicPermissionRow(NamedTuple):
    """Regular expressions for the routing keys that a user may use with a topic exchange."""

    user: str
    vhost: str
    exchange: str
    write: str
    read: str


class ExchangeRow(NamedTuple):
    """A durable exchange. `queue_id` is the key of its delayed messages in the message store; 0: it delays none."""

    vhost: str
    name: str
    type: str
    auto_delete: bool
    internal: bool
    arguments: bytes
    queue_id: int = 0
    declared_by: str = ""
    """The user; empty if an earlier release wrote the row."""


class QueueRow(NamedTuple):
    """A durable queue; `id` is its key in the message store."""

    id: int
    vhost: str
    name: str
    auto_delete: bool
    arguments: bytes
    declared_by: str = ""
    """The user; empty if an earlier release wrote the row."""


class BindingRow(NamedTuple):
    """A binding between durable entities; every field is part of its identity."""

    vhost: str
    source: str
    destination: str
    destination_kind: str
    """`queue` or `exchange`."""
    routing_key: str
    arguments: bytes


class PolicyRow(NamedTuple):
    """A policy, or an operator policy: the two have namespaces of their own."""

    vhost: str
    name: str
    pattern: str
    apply_to: str
    definition: str
    priority: int
    operator: bool = False


class ParameterRow(NamedTuple):
    """A runtime parameter of a virtual host."""

    vhost: str
    component: str
    name: str
    value: str


class GlobalParameterRow(NamedTuple):
    """A runtime parameter of the whole broker."""

    name: str
    value: str


class VhostLimitRow(NamedTuple):
    """A limit of a virtual host, such as `max-connections`; negative: no limit."""

    vhost: str
    name: str
    value: int


class UserLimitRow(NamedTuple):
    """A limit of a user, such as `max-channels`; negative: no limit."""

    user: str
    name: str
    value: int


class StreamOffsetRow(NamedTuple):
    """The offset up to which a group of consumers has read a stream, and when it said so, in ms since the epoch."""

    queue_id: int
    group: str
    offset: int
    committed_at: int


DefinitionRow = (
    VhostRow
    | UserRow
    | PermissionRow
    | TopicPermissionRow
    | ExchangeRow
    | QueueRow
    | BindingRow
    | PolicyRow
    | ParameterRow
    | GlobalParameterRow
    | VhostLimitRow
    | UserLimitRow
    | StreamOffsetRow
)


class Definitions(NamedTuple):
    """Everything in the store: the rows of each kind, in the order of their creation."""

    vhosts: tuple[VhostRow, ...]
    users: tuple[UserRow, ...]
    permissions: tuple[PermissionRow, ...]
    topic_permissions: tuple[TopicPermissionRow, ...]
    exchanges: tuple[ExchangeRow, ...]
    queues: tuple[QueueRow, ...]
    bindings: tuple[BindingRow, ...]
    policies: tuple[PolicyRow, ...]
    parameters: tuple[ParameterRow, ...]
    global_parameters: tuple[GlobalParameterRow, ...]
    vhost_limits: tuple[VhostLimitRow, ...]
    user_limits: tuple[UserLimitRow, ...]
    stream_offsets: tuple[StreamOffsetRow, ...]
    tombstones: frozenset[int]
    """Ids of deleted queues whose messages may still be in the message store."""
    queue_id_sequence: int
    """The highest queue id ever used or lifted to; the next queue takes a higher one."""
    metadata: dict[str, bytes]


class Table(NamedTuple):
    """The table that has the rows of one kind, and the columns that say which row it is."""

    name: str
    key: tuple[str, ...]


TABLES: dict[type[DefinitionRow], Table] = {
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
    StreamOffsetRow: Table("stream_offsets", ("queue_id", "group")),
}
"""The kinds of rows."""


class Put(NamedTuple):
    """Create a row, or replace the one of the same key. What it refers to must exist.

    The id of a deleted queue, or of a deleted exchange's delayed messages, is refused; an offset in a stream that is
    gone is left out.
    """

    row: DefinitionRow


class Delete(NamedTuple):
    """Delete the row of a kind that has a key, with all that refers to it; nothing if there is none. Use `delete`.

    Deleted queues and delayed messages leave tombstones.
    """

    kind: type[DefinitionRow]
    key: dict[str, Any]


def delete(kind: type[DefinitionRow], **key: str | int | bytes | None) -> Delete:
    """Return the deletion of a row by its key: `delete(PermissionRow, user="guest", vhost="/")`.

    Of topic permissions the exchange may be None: those on all exchanges.
    """
    assert key.keys() == set(TABLES[kind].key), f"the key of {kind.__name__} is {TABLES[kind].key}, not {tuple(key)}"
    return Delete(kind, key)


class DropTombstone(NamedTuple):
    """Note that the message store holds nothing of this deleted queue any more."""

    queue_id: int


class SetMetadata(NamedTuple):
    """Remember a value under a key."""

    key: str
    value: bytes


Change = Put | Delete | DropTombstone | SetMetadata
