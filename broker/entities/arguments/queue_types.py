"""The queue types: one row each, with the arguments that it knows and the properties that it requires.

Arguments are in the order in which RabbitMQ 3.10 compares them at a second declaration, because its reply text names
the first one that differs.
"""

from __future__ import annotations

from typing import NamedTuple

from broker.wire.amqp_errors import precondition_failed
from broker.wire.field_tables import TYPE_NAMES, Field, Table


class QueueType(NamedTuple):
    """A queue type. `module`: its name in RabbitMQ's reply texts."""

    name: str
    module: str
    arguments: tuple[str, ...]
    may_be_temporary: bool
    """It may be transient, exclusive or auto-delete, and be named by the server."""


CLASSIC = QueueType(
    "classic",
    "rabbit_classic_queue",
    (
        "x-expires",
        "x-message-ttl",
        "x-dead-letter-exchange",
        "x-dead-letter-routing-key",
        "x-max-length",
        "x-max-length-bytes",
        "x-max-priority",
        "x-overflow",
        "x-queue-mode",
        "x-queue-version",
        "x-single-active-consumer",
        "x-queue-type",
        "x-queue-master-locator",
        "x-queue-leader-locator",
    ),
    may_be_temporary=True,
)

QUORUM = QueueType(
    "quorum",
    "rabbit_quorum_queue",
    (
        "x-dead-letter-exchange",
        "x-dead-letter-routing-key",
        "x-dead-letter-strategy",
        "x-expires",
        "x-max-length",
        "x-max-length-bytes",
        "x-max-in-memory-length",
        "x-max-in-memory-bytes",
        "x-overflow",
        "x-single-active-consumer",
        "x-queue-type",
        "x-quorum-initial-group-size",
        "x-delivery-limit",
        "x-message-ttl",
        "x-queue-leader-locator",
    ),
    may_be_temporary=False,
)

STREAM = QueueType(
    "stream",
    "rabbit_stream_queue",
    (
        "x-max-length-bytes",
        "x-queue-type",
        "x-max-age",
        "x-stream-max-segment-size-bytes",
        "x-initial-cluster-size",
        "x-queue-leader-locator",
    ),
    may_be_temporary=False,
)

TYPES = {type_.name: type_ for type_ in (CLASSIC, QUORUM, STREAM)}
"""The queue types by their value of `x-queue-type`."""


def type_of(arguments: Table) -> QueueType:
    """Return the type that arguments name; classic if they name none or an unknown one."""
    return TYPES.get(_named(arguments.get("x-queue-type")), CLASSIC)


def check_type(field: Field | None, where: str, none: tuple[str, ...] = ()) -> None:
    """Refuse an unknown value of x-queue-type; those of `none` mean no type. Raises ChannelException 406."""
    if field is None:
        return
    if field.kind != "S":
        problem = f"{{unacceptable_type,{TYPE_NAMES[field.kind]}}}"
    elif (name := _named(field)) not in TYPES and name not in none:
        problem = f"\"unsupported queue type '{name}'\""
    else:
        return
    raise precondition_failed(f"invalid arg 'x-queue-type' {where}: {problem}")


def check_name(name: str, arguments: Table) -> None:
    """Refuse an empty name, for a server-named queue, of a type that requires a name. Raises ChannelException 406."""
    type_ = type_of(arguments)
    if not name and not type_.may_be_temporary:
        raise precondition_failed(f"Cannot declare a server-named queue for type {type_.module}")


def check_properties(
    queue: str, vhost: str, arguments: Table, *, durable: bool, exclusive: bool, auto_delete: bool
) -> None:
    """Refuse a transient, exclusive or auto-delete queue of a type that cannot be one. Raises ChannelException 406."""
    if type_of(arguments).may_be_temporary:
        return
    properties = {"auto-delete": auto_delete, "exclusive-owner": exclusive, "non-durable": not durable}
    for name, present in properties.items():
        if present:
            raise precondition_failed(f"invalid property '{name}' for queue '{queue}' in vhost '{vhost}'")


class DefaultType(NamedTuple):
    """The queue type of queues that are declared without one."""

    type: QueueType | None
    """None: no argument is added, which means classic."""
    fallback: bool
    """A queue that cannot be of the type gets x-queue-type classic; otherwise no argument."""

    def added(self, arguments: Table, *, durable: bool, exclusive: bool, auto_delete: bool) -> Table:
        """Return arguments with x-queue-type, if they have none."""
        if self.type is None or "x-queue-type" in arguments:
            return arguments
        temporary = exclusive or auto_delete or not durable
        if self.type.may_be_temporary or not temporary:
            return {**arguments, "x-queue-type": Field("S", self.type.name.encode())}
        return {**arguments, "x-queue-type": Field("S", CLASSIC.name.encode())} if self.fallback else arguments


def _named(field: Field | None) -> str:
    value = None if field is None else field.value
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else ""
