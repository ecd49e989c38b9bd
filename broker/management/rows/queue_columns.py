"""What is shown of a queue."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple

from broker.admin.json_tables import plain
from broker.entities.arguments.policies import Policy
from broker.entities.arguments.queue_types import QUORUM, STREAM, QueueType
from broker.entities.queues.depth import Depth, depth
from broker.entities.queues.queue import Queue
from broker.management.columns import ABSENT, Columns
from broker.management.rows.queue_statistics import STATISTICS, TOTALS
from broker.management.statistics.past import Past, moment
from broker.management.statistics.sampler import QUEUE
from broker.session.connection import Connection


class QueueOf(NamedTuple):
    """A queue, and the virtual host it is in."""

    vhost: str
    queue: Queue


Column = Callable[[QueueOf], Any]


def queue_order(listed: QueueOf) -> tuple[str, str]:
    """What lists of queues are ordered by."""
    return listed.vhost, listed.queue.name


def queue_name(listed: QueueOf) -> str:
    """What lists of queues are filtered by."""
    return listed.queue.name


def queue_columns(node: str, past: Past) -> Columns[QueueOf]:
    """The columns of queues on this node, with what was counted of them."""
    history, ages = past
    table: dict[str, Column] = {
        **_declared(node),
        "state": _running,
        **_status(node),
        **_of(TOTALS),
        **_of(STATISTICS),
        "idle_since": lambda listed: moment(history.queue_idle_since(listed.queue)),
        "message_stats": lambda listed: history.queue_stats(listed.queue, ages) or ABSENT,
    }

    def lengths(listed: QueueOf) -> list[Any]:
        found = history.queue_lengths(listed.queue, ages)
        return [found.get(name, ABSENT) for name in LENGTHS]

    joint = {OTHER_FIELDS: _other_fields, LENGTHS: lengths}
    return Columns(table, joint, partial(past.statistic, QUEUE, attrgetter("queue.counters")))


def queue_columns_without_statistics(node: str, *, totals: bool = False) -> Columns[QueueOf]:
    """The few columns that are left then; with `totals` messages are among them."""
    declared = _declared(node)
    policy: dict[str, Column] = {"policy": lambda listed: _policy_name(listed.queue.policies.policy) or ABSENT}
    if totals:
        return Columns({**declared, **policy, "state": _running, **_of(TOTALS)})
    return Columns({**declared, **policy, "state": lambda _: "live"})


def _running(_: QueueOf) -> str:
    return "running"


LENGTHS = tuple(f"{name}_details" for name in TOTALS)
OTHER_FIELDS = Depth._fields[len(TOTALS) :]
"""What is known of a queue's messages beyond the totals."""


def _other_fields(listed: QueueOf) -> tuple[int, ...]:
    return depth(listed.queue)[len(TOTALS) :]


def _of(columns: Mapping[str, Callable[[Queue], Any]]) -> dict[str, Column]:
    return {name: partial(_column, column) for name, column in columns.items()}


def _column(column: Callable[[Queue], Any], listed: QueueOf) -> Any:
    return column(listed.queue)


def _declared(node: str) -> dict[str, Column]:
    return {
        "name": lambda listed: listed.queue.name,
        "vhost": lambda listed: listed.vhost,
        "type": lambda listed: listed.queue.type.name,
        "node": lambda _: node,
        "durable": lambda listed: listed.queue.durable,
        "auto_delete": lambda listed: listed.queue.spec.auto_delete,
        "exclusive": lambda listed: listed.queue.owner is not None,
        "arguments": lambda listed: plain(listed.queue.spec.arguments),
    }


def _status(node: str) -> dict[str, Column]:
    """What a queue is at the moment, beside its messages."""
    return {
        "policy": lambda listed: _policy_name(listed.queue.policies.policy),
        "operator_policy": lambda listed: _policy_name(listed.queue.policies.operator),
        "effective_policy_definition": lambda listed: listed.queue.policies.definition,
        "consumers": lambda listed: len(listed.queue.consumers),
        "exclusive_consumer_tag": lambda listed: _of_classic(listed.queue, _exclusive_consumer),
        "single_active_consumer_tag": lambda listed: _of_classic(listed.queue, _single_active_consumer),
        "single_active_consumer_ctag": lambda listed: _of_type(listed.queue, QUORUM, _single_active_consumer),
        "leader": lambda listed: _of_type(listed.queue, QUORUM, lambda _: node),
        "members": lambda listed: _replicated(listed.queue, [node]),
        "online": lambda listed: _replicated(listed.queue, [node]),
        "open_files": lambda listed: _of_type(listed.queue, QUORUM, lambda _: {node: 0}),
        "readers": lambda listed: _of_type(listed.queue, STREAM, lambda queue: {node: len(queue.consumers)}),
        "recoverable_slaves": lambda listed: _of_classic(listed.queue, lambda _: None),
    }


def owner(queue: Queue) -> dict[str, Any]:
    """The connection that a queue is exclusive to, which lists do not show; nothing for other queues."""
    if not isinstance(queue.owner, Connection):
        return {}
    peer = queue.owner.peer
    return {"owner_pid_details": {"name": str(peer), "peer_host": peer.host, "peer_port": peer.port}}


def _policy_name(policy: Policy | None) -> str | None:
    return None if policy is None else policy.name


def _of_type(queue: Queue, type_: QueueType, column: Callable[[Queue], Any]) -> Any:
    return column(queue) if queue.type is type_ else ABSENT


def _of_classic(queue: Queue, column: Callable[[Queue], Any]) -> Any:
    return ABSENT if queue.type in (QUORUM, STREAM) else column(queue)


def _replicated(queue: Queue, nodes: list[str]) -> Any:
    return nodes if queue.type in (QUORUM, STREAM) else ABSENT


def _exclusive_consumer(queue: Queue) -> str | None:
    if not queue.consumers.exclusive:
        return None
    return next(iter(queue.consumers.members)).tag


def _single_active_consumer(queue: Queue) -> str | None:
    if not queue.arguments.single_active_consumer:
        return None
    return next((consumer.tag for consumer in queue.consumers.members if queue.consumers.active(consumer)), None)
