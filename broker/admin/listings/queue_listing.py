"""What is listed of queues. Columns that RabbitMQ has and this table does not are empty in `rabbitmqctl`'s lists."""

from __future__ import annotations

from broker.admin.listing import Column, Listing, Place, in_vhosts
from broker.entities.arguments.policies import Policy
from broker.entities.arguments.queue_types import QUORUM, STREAM
from broker.entities.queues.consumer_prefetch import Consumer
from broker.entities.queues.depth import Depth, depth, head_timestamp
from broker.entities.queues.queue import Queue
from broker.session.channel.channel import Channel
from broker.session.connection import Connection


def _of_depth(name: str) -> Column:
    field = Depth._fields.index(name)
    return lambda place: depth(place.it)[field]


COLUMNS: dict[str, Column] = {
    "vhost": lambda place: place.vhost,
    "name": lambda place: place.it.name,
    "messages_ready": lambda place: place.it.ready,
    "messages_unacknowledged": lambda place: place.it.unacked,
    "messages": lambda place: place.it.messages,
    "consumers": lambda place: len(place.it.consumers),
    "consumer_capacity": lambda place: _capacity(place.it),
    "consumer_utilisation": lambda place: _capacity(place.it),
    "message_bytes_ready": lambda place: place.it.ready_bytes,
    **{name: _of_depth(name) for name in Depth._fields[3:] if name != "message_bytes_ready"},
    "head_message_timestamp": lambda place: _blank(head_timestamp(place.it)),
    "disk_reads": lambda place: place.it.counters.disk_reads,
    "disk_writes": lambda place: place.it.counters.disk_writes,
    "durable": lambda place: place.it.durable,
    "auto_delete": lambda place: place.it.spec.auto_delete,
    "exclusive": lambda place: place.it.owner is not None,
    "owner": lambda place: _owner(place.it),
    "type": lambda place: place.it.type.name,
    "state": lambda place: "running",
    "arguments": lambda place: place.it.spec.arguments,
    "policy": lambda place: policy_name(place.it.policies.policy),
    "operator_policy": lambda place: policy_name(place.it.policies.operator),
    "effective_policy_definition": lambda place: place.it.policies.definition,
    "pid": lambda place: place.node.pid(place.it.store.queue_id),
    "owner_pid": lambda place: _owner_pid(place),
    "exclusive_consumer_tag": lambda place: getattr(_exclusive_consumer(place.it), "tag", ""),
    "exclusive_consumer_pid": lambda place: _exclusive_consumer_pid(place),
    "leader": lambda place: place.node.name if _replicated(place.it) else "",
    "members": lambda place: [place.node.name] if _replicated(place.it) else [],
    "online": lambda place: [place.node.name] if _replicated(place.it) else [],
}


def policy_name(policy: Policy | None) -> str:
    """The policy's name; empty for none."""
    return "" if policy is None else policy.name


def _blank(value: int | None) -> int | str:
    return "" if value is None else value


def _capacity(queue: Queue) -> float | str:
    """Streams have none."""
    return "" if queue.type is STREAM else queue.consumers.capacity or 0


def _owner(queue: Queue) -> str:
    return str(queue.owner.peer) if isinstance(queue.owner, Connection) else ""


def _owner_pid(place: Place) -> str:
    owner = place.it.owner
    return place.node.pid(owner.number) if isinstance(owner, Connection) else ""


def _exclusive_consumer(queue: Queue) -> Consumer | None:
    """An exclusive consumer is the only one."""
    return next(iter(queue.consumers.members)) if queue.consumers.exclusive else None


def _exclusive_consumer_pid(place: Place) -> str:
    consumer = _exclusive_consumer(place.it)
    channel = None if consumer is None else consumer.outlet
    return place.node.pid(channel.connection.number, channel.number) if isinstance(channel, Channel) else ""


def _replicated(queue: Queue) -> bool:
    """Of a type that RabbitMQ keeps on several nodes; here there is one."""
    return queue.type in (QUORUM, STREAM)


QUEUES = Listing(in_vhosts(lambda vhost: list(vhost.queues.values())), COLUMNS)
