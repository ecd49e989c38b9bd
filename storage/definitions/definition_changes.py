"""What the definitions store holds, and every change that can be made to it.

Names are text; one that is not UTF-8 carries its bytes as surrogate escapes. `arguments` are an AMQP field
table, encoded; `definition` and `value` of policies and parameters are JSON text. All of it is opaque here.
"""

from __future__ import annotations

from typing import NamedTuple


class VhostRow(NamedTuple):
    """A virtual host. `default_queue_type` is empty where none was chosen."""

    name: str
    description: str = ""
    tags: tuple[str, ...] = ()
    default_queue_type: str = ""


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


class QueueRow(NamedTuple):
    """A durable queue; `id` is its key in the message store."""

    id: int
    vhost: str
    name: str
    auto_delete: bool
    arguments: bytes


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
    """A limit of a virtual host, such as `max-connections`; negative means none."""

    vhost: str
    name: str
    value: int


class UserLimitRow(NamedTuple):
    """A limit of a user, such as `max-channels`; negative means none."""

    user: str
    name: str
    value: int


class Definitions(NamedTuple):
    """Everything in the store, rows in the order of their creation."""

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
    tombstones: frozenset[int]
    """Ids of deleted queues whose messages may still be in the message store."""
    queue_id_sequence: int
    """The highest queue id ever used or lifted to; the next queue takes a higher one."""
    metadata: dict[str, bytes]


# Putting what is there already replaces it. Deleting what is not there changes nothing.
# (Tuples, because thirty dataclasses would take ten milliseconds of every start to build.)


class PutVhost(NamedTuple):
    """Create or update a virtual host."""

    row: VhostRow


class DeleteVhost(NamedTuple):
    """Remove a virtual host with all that is in it; its queues and delayed messages leave tombstones."""

    name: str


class PutUser(NamedTuple):
    """Create or update a user."""

    row: UserRow


class DeleteUser(NamedTuple):
    """Remove a user with its permissions and limits."""

    name: str


class PutPermission(NamedTuple):
    """Set what a user may do in a virtual host; both must exist."""

    row: PermissionRow


class DeletePermission(NamedTuple):
    """Take a user's permissions in a virtual host away."""

    user: str
    vhost: str


class PutTopicPermission(NamedTuple):
    """Set a user's permissions on a topic exchange; user and virtual host must exist."""

    row: TopicPermissionRow


class DeleteTopicPermission(NamedTuple):
    """Take a user's topic permissions away: on one exchange, or (None) on all of the virtual host."""

    user: str
    vhost: str
    exchange: str | None = None


class PutExchange(NamedTuple):
    """Create or update a durable exchange. The queue id of something deleted is refused."""

    row: ExchangeRow


class DeleteExchange(NamedTuple):
    """Remove an exchange with the bindings from it and to it; delayed messages leave a tombstone."""

    vhost: str
    name: str


class PutQueue(NamedTuple):
    """Create a durable queue, or update the one of the same id. The id of a deleted queue is refused."""

    row: QueueRow


class DeleteQueue(NamedTuple):
    """Remove a queue with its bindings and leave a tombstone, all in one transaction."""

    id: int


class PutBinding(NamedTuple):
    """Create a binding."""

    row: BindingRow


class DeleteBinding(NamedTuple):
    """Remove the binding that equals `row`."""

    row: BindingRow


class PutPolicy(NamedTuple):
    """Create or update a policy."""

    row: PolicyRow


class DeletePolicy(NamedTuple):
    """Remove a policy."""

    vhost: str
    name: str
    operator: bool = False


class PutParameter(NamedTuple):
    """Create or update a runtime parameter."""

    row: ParameterRow


class DeleteParameter(NamedTuple):
    """Remove a runtime parameter."""

    vhost: str
    component: str
    name: str


class PutGlobalParameter(NamedTuple):
    """Create or update a global parameter."""

    row: GlobalParameterRow


class DeleteGlobalParameter(NamedTuple):
    """Remove a global parameter."""

    name: str


class PutVhostLimit(NamedTuple):
    """Set a limit of a virtual host."""

    row: VhostLimitRow


class DeleteVhostLimit(NamedTuple):
    """Lift a limit of a virtual host."""

    vhost: str
    name: str


class PutUserLimit(NamedTuple):
    """Set a limit of a user."""

    row: UserLimitRow


class DeleteUserLimit(NamedTuple):
    """Lift a limit of a user."""

    user: str
    name: str


class DropTombstone(NamedTuple):
    """The message store holds nothing of this deleted queue any more."""

    queue_id: int


class SetMetadata(NamedTuple):
    """Remember a value under a key."""

    key: str
    value: bytes


Change = (
    PutVhost
    | DeleteVhost
    | PutUser
    | DeleteUser
    | PutPermission
    | DeletePermission
    | PutTopicPermission
    | DeleteTopicPermission
    | PutExchange
    | DeleteExchange
    | PutQueue
    | DeleteQueue
    | PutBinding
    | DeleteBinding
    | PutPolicy
    | DeletePolicy
    | PutParameter
    | DeleteParameter
    | PutGlobalParameter
    | DeleteGlobalParameter
    | PutVhostLimit
    | DeleteVhostLimit
    | PutUserLimit
    | DeleteUserLimit
    | DropTombstone
    | SetMetadata
)
