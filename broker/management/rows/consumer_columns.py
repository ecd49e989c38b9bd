"""What is shown of a consumer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from broker.admin.json_tables import plain
from broker.entities.queues.consumer_prefetch import Consumer
from broker.management.columns import ABSENT, Columns
from broker.session.channel.channel import Channel
from broker.session.consumer_timeout import milliseconds, timeout_of


class ConsumerOf(NamedTuple):
    """A consumer, and the virtual host that its queue is in."""

    vhost: str
    consumer: Consumer


def consumer_columns(node: str) -> Columns[ConsumerOf]:
    """The columns of consumers whose channels are on this node."""
    details = channel_details(node)
    return Columns(
        {
            "consumer_tag": lambda listed: listed.consumer.tag,
            "queue": lambda listed: {"name": listed.consumer.queue.name, "vhost": listed.vhost},
            "ack_required": lambda listed: not listed.consumer.no_ack,
            "exclusive": lambda listed: listed.consumer.exclusive,
            "active": lambda listed: _active(listed.consumer),
            "activity_status": lambda listed: _activity(listed.consumer),
            "prefetch_count": lambda listed: listed.consumer.prefetch,
            "arguments": lambda listed: plain(listed.consumer.arguments),
            "consumer_timeout": lambda listed: _timeout(listed.consumer),
            "channel_details": lambda listed: _channel(listed.consumer, details),
        }
    )


def consumer_order(listed: ConsumerOf) -> tuple[str, str, str]:
    """What lists of consumers are ordered by."""
    return listed.vhost, listed.consumer.queue.name, listed.consumer.tag


def _active(consumer: Consumer) -> bool:
    return consumer.queue.consumers.active(consumer)


def _activity(consumer: Consumer) -> str:
    """`single_active`, `waiting` to be that, or `up` where all consumers of the queue are served."""
    if not consumer.queue.arguments.single_active_consumer:
        return "up"
    return "single_active" if _active(consumer) else "waiting"


def _timeout(consumer: Consumer) -> Any:
    """How many milliseconds a delivery may be unacknowledged; 0: for ever."""
    channel = consumer.outlet
    if not isinstance(channel, Channel):
        return ABSENT
    return timeout_of(consumer, consumer.queue, milliseconds(channel.connection.settings))


def _channel(consumer: Consumer, details: Callable[[Channel], dict[str, Any]]) -> dict[str, Any]:
    return details(consumer.outlet) if isinstance(consumer.outlet, Channel) else {}


def channel_details(node: str) -> Callable[[Channel], dict[str, Any]]:
    """What other rows show of a channel."""

    def details(channel: Channel) -> dict[str, Any]:
        connection = channel.connection
        return {
            "name": f"{connection.peer} ({channel.number})",
            "number": channel.number,
            "user": connection.user,
            "node": node,
            "connection_name": str(connection.peer),
            "peer_host": connection.peer.host,
            "peer_port": connection.peer.port,
        }

    return details
