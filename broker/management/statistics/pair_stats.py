"""Statistics of pairs with rates_mode detailed: channel and queue, channel and exchange, exchange and queue.

The lists have RabbitMQ's form; in other modes they are empty. `details` returns the channel_details of a channel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from broker.entities.exchanges.exchange import Exchange
from broker.entities.queues.queue import Queue
from broker.entities.statistics.counters import ChannelCounters
from broker.entities.statistics.pair_counters import Pairs
from broker.entities.vhosts.vhost import VHost
from broker.management.statistics.history_query import HistoryQuery
from broker.management.statistics.message_stats import message_stats
from broker.management.statistics.sampler import DELIVERIES
from broker.session.channel.channel import Channel
from broker.session.registry import Registry

ARRIVALS = ("publish",)
"""Counters of an exchange and a queue."""
OF_CHANNELS = ("publish", "return_unroutable", "drop_unroutable", *DELIVERIES)
"""Counters of a channel and an exchange or queue. Confirms are not counted by exchange."""

Rows = list[dict[str, Any]]
ChannelDetails = Callable[[Channel], dict[str, Any]]


def of_queue(
    query: HistoryQuery, registry: Registry, vhost: VHost, queue: Queue, details: ChannelDetails
) -> dict[str, Rows]:
    """Messages that came into a queue from each exchange, and went out to each channel."""
    deliveries = ((channel, channel.pairs.deliveries) for channel in _channels(registry, vhost) if channel.pairs)
    return {
        "incoming": _named(query, "exchange", vhost, queue.counters.incoming or {}, ARRIVALS),
        "deliveries": _of_channels(query, queue.name, deliveries, details),
    }


def of_exchange(
    query: HistoryQuery, registry: Registry, vhost: VHost, exchange: Exchange, details: ChannelDetails
) -> dict[str, Rows]:
    """Messages that came to an exchange from each channel, and went on to each queue."""
    name = exchange.name
    publishes = ((channel, channel.pairs.publishes) for channel in _channels(registry, vhost) if channel.pairs)
    incoming = ((queue.name, queue.counters.incoming or {}) for queue in vhost.queues.values())
    outgoing = {queue: pairs[name] for queue, pairs in incoming if name in pairs}
    return {
        "incoming": _of_channels(query, name, publishes, details),
        "outgoing": _named(query, "queue", vhost, outgoing, ARRIVALS),
    }


def publishes(query: HistoryQuery, channel: Channel) -> Rows:
    """Messages that a channel has published to each exchange."""
    return _named(query, "exchange", channel.vhost, channel.pairs.publishes if channel.pairs else {}, OF_CHANNELS)


def deliveries(query: HistoryQuery, channel: Channel) -> Rows:
    """Messages that a channel was given from each queue."""
    return _named(query, "queue", channel.vhost, channel.pairs.deliveries if channel.pairs else {}, OF_CHANNELS)


def _channels(registry: Registry, vhost: VHost) -> Iterable[Channel]:
    return (
        channel
        for connection in registry.network_connections
        for channel in connection.channels.values()
        if channel.vhost is vhost
    )


def _named(query: HistoryQuery, kind: str, vhost: VHost, pairs: Pairs, shown: Sequence[str]) -> Rows:
    return [
        {kind: {"name": name, "vhost": vhost.name}, "stats": _stats(query, counters, shown)}
        for name, counters in sorted(pairs.items())
    ]


def _of_channels(
    query: HistoryQuery, name: str, pairs: Iterable[tuple[Channel, Pairs]], details: ChannelDetails
) -> Rows:
    return [
        {"channel_details": details(channel), "stats": _stats(query, of_channel[name], OF_CHANNELS)}
        for channel, of_channel in pairs
        if name in of_channel
    ]


def _stats(query: HistoryQuery, counters: ChannelCounters, shown: Sequence[str]) -> dict[str, Any]:
    values = counters.values()._asdict()
    return message_stats(
        {name: values[name] for name in shown}, query.history.details((counters,), query.ages.msg_rates)
    )
