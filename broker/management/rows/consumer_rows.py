"""Columns of consumers in the HTTP API: the shared ones, and those that belong to HTTP alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from broker.admin.views.columns import ABSENT, Columns
from broker.admin.views.connection_view import channel_name
from broker.admin.views.topology_view import CONSUMER_COLUMNS
from broker.entities.queues.consumer_prefetch import Consumer
from broker.session.channel.channel import Channel
from broker.session.consumer_timeout import announced_timeout, milliseconds


def consumer_rows(node: str) -> Columns[Consumer]:
    """The columns of consumers."""
    details = channel_details(node)
    return Columns(
        {
            **CONSUMER_COLUMNS,
            "queue": lambda consumer: {"name": consumer.queue.name, "vhost": consumer.queue.vhost_name},
            "consumer_timeout": _timeout,
            "channel_details": lambda consumer: (
                details(consumer.outlet) if isinstance(consumer.outlet, Channel) else {}
            ),
        }
    )


def consumer_order(consumer: Consumer) -> tuple[str, str, str]:
    """The sort key of lists of consumers."""
    return consumer.queue.vhost_name, consumer.queue.name, consumer.tag


def _timeout(consumer: Consumer) -> Any:
    """Milliseconds for which a delivery may be unacknowledged; 0: no limit."""
    channel = consumer.outlet
    if not isinstance(channel, Channel):
        return ABSENT
    return announced_timeout(consumer, consumer.queue, milliseconds(channel.connection.settings))


def channel_details(node: str) -> Callable[[Channel], dict[str, Any]]:
    """Return a function for the columns of a channel within rows of other things."""

    def details(channel: Channel) -> dict[str, Any]:
        connection = channel.connection
        return {
            "name": channel_name(channel),
            "number": channel.number,
            "user": connection.user,
            "node": node,
            "connection_name": str(connection.peer),
            "peer_host": connection.peer.host,
            "peer_port": connection.peer.port,
        }

    return details
