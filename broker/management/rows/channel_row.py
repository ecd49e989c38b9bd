"""What is shown of a channel, and of the consumers on it."""

from __future__ import annotations

from typing import Any

from broker.admin.json_tables import plain
from broker.entities.queues.consumers import Consumer
from broker.management.columns import Columns
from broker.session.channel.channel import Channel


def channel_name(channel: Channel) -> str:
    """The name of a channel: its connection's, and its number."""
    return f"{channel.connection.peer} ({channel.number})"


def channel_order(channel: Channel) -> tuple[str, str, int]:
    """What lists of channels are ordered by."""
    return channel.vhost.name, str(channel.connection.peer), channel.number


def channel_columns(node: str, *, single: bool = False) -> Columns[Channel]:
    """What is shown of channels. A `single` one has its consumers, too."""
    return Columns(
        {
            "acks_uncommitted": acks_uncommitted,
            "confirm": lambda channel: channel.confirms is not None,
            "connection_details": _connection_details,
            "consumer_count": lambda channel: len(channel.consumers),
            **({"consumer_details": lambda channel: consumer_details(node, channel)} if single else {}),
            "global_prefetch_count": lambda channel: channel.prefetch_all,
            "messages_unacknowledged": lambda channel: len(channel.deliveries.unacked),
            "messages_uncommitted": messages_uncommitted,
            "messages_unconfirmed": lambda channel: channel.confirms.unanswered if channel.confirms else 0,
            "name": channel_name,
            "node": lambda channel: node,
            "number": lambda channel: channel.number,
            "pending_raft_commands": lambda channel: 0,
            "prefetch_count": lambda channel: channel.prefetch,
            "state": lambda channel: "closing" if channel.closing else "running",
            "transactional": lambda channel: channel.transaction is not None,
            "user": lambda channel: channel.connection.user,
            "user_who_performed_action": lambda channel: channel.connection.user,
            "vhost": lambda channel: channel.vhost.name,
        }
    )


def messages_uncommitted(channel: Channel) -> int:
    """How many publishes the open transaction of a channel has."""
    return 0 if channel.transaction is None else len(channel.transaction.publishes)


def acks_uncommitted(channel: Channel) -> int:
    """How many acknowledgements it has."""
    transaction = channel.transaction
    return 0 if transaction is None else sum(len(settlement.entries) for settlement in transaction.settlements)


def _connection_details(channel: Channel) -> dict[str, Any]:
    peer = channel.connection.peer
    return {"name": str(peer), "peer_host": peer.host, "peer_port": peer.port}


def consumer_details(node: str, channel: Channel) -> list[dict[str, Any]]:
    """The consumers on a channel."""
    return [_consumer(node, channel, consumer) for consumer in channel.consumers.values()]


def _consumer(node: str, channel: Channel, consumer: Consumer) -> dict[str, Any]:
    peer, queue = channel.connection.peer, consumer.queue
    active = queue.consumers.active(consumer)
    single = queue.arguments.single_active_consumer
    return {
        "ack_required": not consumer.no_ack,
        "active": active,
        "activity_status": "waiting" if not active else "single_active" if single else "up",
        "arguments": plain(consumer.arguments),
        "channel_details": {
            "connection_name": str(peer),
            "name": channel_name(channel),
            "node": node,
            "number": channel.number,
            "peer_host": peer.host,
            "peer_port": peer.port,
            "user": channel.connection.user,
        },
        "consumer_tag": consumer.tag,
        "exclusive": consumer.exclusive,
        "prefetch_count": consumer.prefetch,
        "queue": {"name": queue.name, "vhost": channel.vhost.name},
    }
