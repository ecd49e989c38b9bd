"""Columns of queues. Those of RabbitMQ that are not here are empty in lists of `rabbitmqctl`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from broker.admin.administration import Administration
from broker.admin.views.columns import ABSENT, Column, Columns, Joint
from broker.admin.views.listing import View, in_vhosts
from broker.entities.arguments.policies import Policy
from broker.entities.arguments.queue_types import QUORUM, STREAM
from broker.entities.queues.consumer_prefetch import Consumer
from broker.entities.queues.depth import Depth, depth, head_timestamp
from broker.entities.queues.queue import Queue
from broker.entities.statistics.node_identity import NodeIdentity
from broker.session.channel.channel import Channel
from broker.session.connection import Connection

TOTALS: Mapping[str, Column[Queue]] = {
    "messages": lambda queue: queue.messages,
    "messages_ready": lambda queue: queue.ready,
    "messages_unacknowledged": lambda queue: queue.unacked,
}
"""The first fields of `Depth`, each by itself."""


def _further_fields(queue: Queue) -> tuple[int, ...]:
    return depth(queue)[len(TOTALS) :]


DEPTH: Joint[Queue] = {Depth._fields[len(TOTALS) :]: _further_fields}
"""The other fields of `Depth`."""


def queue_columns(node: str) -> dict[str, Column[Queue]]:
    """The columns that the HTTP API and lists share, beside `DEPTH`, for queues of a node."""
    return {
        "name": lambda queue: queue.name,
        "vhost": lambda queue: queue.vhost_name,
        "type": lambda queue: queue.type.name,
        "durable": lambda queue: queue.durable,
        "auto_delete": lambda queue: queue.spec.auto_delete,
        "exclusive": lambda queue: queue.owner is not None,
        "arguments": lambda queue: queue.spec.arguments,
        "state": lambda queue: "running",
        "policy": lambda queue: policy_name(queue.policies.policy),
        "operator_policy": lambda queue: policy_name(queue.policies.operator),
        "effective_policy_definition": lambda queue: queue.policies.definition,
        **TOTALS,
        "head_message_timestamp": head_timestamp,
        "consumers": lambda queue: len(queue.consumers),
        "consumer_capacity": _capacity,
        "consumer_utilisation": _capacity,
        "exclusive_consumer_tag": lambda queue: getattr(_exclusive_consumer(queue), "tag", None),
        "leader": lambda queue: node if _replicated(queue) else ABSENT,
        "members": lambda queue: [node] if _replicated(queue) else [],
        "online": lambda queue: [node] if _replicated(queue) else [],
    }


def policy_name(policy: Policy | None) -> str | None:
    """The name of a policy; None for none."""
    return None if policy is None else policy.name


def _capacity(queue: Queue) -> Any:
    return ABSENT if queue.type is STREAM else queue.consumers.capacity or 0


def _exclusive_consumer(queue: Queue) -> Consumer | None:
    """The only consumer of the queue, if it is exclusive."""
    return next(iter(queue.consumers.members)) if queue.consumers.exclusive else None


def _replicated(queue: Queue) -> bool:
    """Return True for the types that RabbitMQ keeps on several nodes; here there is one."""
    return queue.type in (QUORUM, STREAM)


# Lists of the command line


def _listed_columns(administration: Administration) -> Columns[Queue]:
    node = administration.node
    return Columns(
        {
            **queue_columns(node.name),
            "disk_reads": lambda queue: queue.counters.disk_reads,
            "disk_writes": lambda queue: queue.counters.disk_writes,
            "pid": lambda queue: node.pid(queue.store.queue_id),
            "owner": lambda queue: str(queue.owner.peer) if isinstance(queue.owner, Connection) else ABSENT,
            "owner_pid": lambda queue: node.pid(queue.owner.number) if isinstance(queue.owner, Connection) else ABSENT,
            "exclusive_consumer_pid": lambda queue: _exclusive_consumer_pid(queue, node),
        },
        DEPTH,
    )


def _exclusive_consumer_pid(queue: Queue, node: NodeIdentity) -> str | None:
    consumer = _exclusive_consumer(queue)
    channel = None if consumer is None else consumer.outlet
    return node.pid(channel.connection.number, channel.number) if isinstance(channel, Channel) else None


QUEUES = View(in_vhosts(lambda vhost: list(vhost.queues.values())), _listed_columns)
