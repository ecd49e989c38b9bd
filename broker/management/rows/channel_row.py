"""What is shown of a channel."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import Any

from broker.admin.listings.client_listing import acks_uncommitted, messages_uncommitted
from broker.admin.listings.topology_listing import channel_name
from broker.management.columns import ABSENT, Columns
from broker.management.rows.consumer_columns import ConsumerOf, consumer_columns
from broker.management.statistics import pair_stats
from broker.management.statistics.past import Past, moment
from broker.management.statistics.sampler import CHANNEL
from broker.session.channel.channel import Channel


def channel_order(channel: Channel) -> tuple[str, str, int]:
    """What lists of channels are ordered by."""
    return channel.vhost.name, str(channel.connection.peer), channel.number


def channel_columns(node: str, past: Past, *, single: bool = False) -> Columns[Channel]:
    """What is shown of channels. A `single` one has its consumers, too."""
    history, ages = past
    return Columns(
        {
            "acks_uncommitted": acks_uncommitted,
            "confirm": lambda channel: channel.confirms is not None,
            "connection_details": _connection_details,
            "consumer_count": lambda channel: len(channel.consumers),
            **(_of_single(node, past) if single else {}),
            "global_prefetch_count": lambda channel: channel.prefetch_all,
            "idle_since": lambda channel: moment(history.channel_idle_since(channel)),
            "message_stats": lambda channel: history.channel_stats(channel, ages) or ABSENT,
            "messages_unacknowledged": lambda channel: len(channel.deliveries),
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
        },
        inner=partial(past.statistic, CHANNEL, attrgetter("counters")),
    )


def _connection_details(channel: Channel) -> dict[str, Any]:
    peer = channel.connection.peer
    return {"name": str(peer), "peer_host": peer.host, "peer_port": peer.port}


def _of_single(node: str, past: Past) -> dict[str, Callable[[Channel], Any]]:
    """Its consumers; what it publishes to each exchange, and gets from each queue, where that is counted."""
    row = consumer_columns(node).view()
    return {
        "consumer_details": lambda channel: [
            row(ConsumerOf(channel.vhost.name, consumer)) for consumer in channel.consumers.values()
        ],
        "deliveries": lambda channel: pair_stats.deliveries(past, channel),
        "publishes": lambda channel: pair_stats.publishes(past, channel),
    }
