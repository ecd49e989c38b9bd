"""What is shown of a queue."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import Any

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

Column = Callable[[Queue], Any]


queue_order: Callable[[Queue], tuple[str, str]] = attrgetter("vhost_name", "name")
"""What lists of queues are ordered by."""
queue_name: Callable[[Queue], str] = attrgetter("name")
"""What lists of queues are filtered by."""


def queue_columns(node: str, past: Past) -> Columns[Queue]:
    """The columns of queues on this node, with what was counted of them."""
    history, ages = past
    table: dict[str, Column] = {
        **_declared(node),
        "state": _running,
        **_status(node),
        **TOTALS,
        **STATISTICS,
        "idle_since": lambda queue: moment(history.queue_idle_since(queue)),
        "message_stats": lambda queue: history.queue_stats(queue, ages) or ABSENT,
    }

    def lengths(queue: Queue) -> list[Any]:
        found = history.queue_lengths(queue, ages)
        return [found.get(name, ABSENT) for name in LENGTHS]

    joint = {OTHER_FIELDS: _other_fields, LENGTHS: lengths}
    return Columns(table, joint, partial(past.statistic, QUEUE, attrgetter("counters")))


def queue_columns_without_statistics(node: str, *, totals: bool = False) -> Columns[Queue]:
    """The few columns that are left then; with `totals` messages are among them."""
    declared = _declared(node)
    policy: dict[str, Column] = {"policy": lambda queue: _policy_name(queue.policies.policy) or ABSENT}
    if totals:
        return Columns({**declared, **policy, "state": _running, **TOTALS})
    return Columns({**declared, **policy, "state": lambda _: "live"})


def _running(_: Queue) -> str:
    return "running"


LENGTHS = tuple(f"{name}_details" for name in TOTALS)
OTHER_FIELDS = Depth._fields[len(TOTALS) :]
"""What is known of a queue's messages beyond the totals."""


def _other_fields(queue: Queue) -> tuple[int, ...]:
    return depth(queue)[len(TOTALS) :]


def _declared(node: str) -> dict[str, Column]:
    return {
        "name": lambda queue: queue.name,
        "vhost": lambda queue: queue.vhost_name,
        "type": lambda queue: queue.type.name,
        "node": lambda _: node,
        "durable": lambda queue: queue.durable,
        "auto_delete": lambda queue: queue.spec.auto_delete,
        "exclusive": lambda queue: queue.owner is not None,
        "arguments": lambda queue: plain(queue.spec.arguments),
    }


def _status(node: str) -> dict[str, Column]:
    """What a queue is at the moment, beside its messages."""
    return {
        "policy": lambda queue: _policy_name(queue.policies.policy),
        "operator_policy": lambda queue: _policy_name(queue.policies.operator),
        "effective_policy_definition": lambda queue: queue.policies.definition,
        "consumers": lambda queue: len(queue.consumers),
        "exclusive_consumer_tag": lambda queue: _of_classic(queue, _exclusive_consumer),
        "single_active_consumer_tag": lambda queue: _of_classic(queue, _single_active_consumer),
        "single_active_consumer_ctag": lambda queue: _of_type(queue, QUORUM, _single_active_consumer),
        "leader": lambda queue: _of_type(queue, QUORUM, lambda _: node),
        "members": lambda queue: _replicated(queue, [node]),
        "online": lambda queue: _replicated(queue, [node]),
        "open_files": lambda queue: _of_type(queue, QUORUM, lambda _: {node: 0}),
        "readers": lambda queue: _of_type(queue, STREAM, lambda queue: {node: len(queue.consumers)}),
        "recoverable_slaves": lambda queue: _of_classic(queue, lambda _: None),
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
