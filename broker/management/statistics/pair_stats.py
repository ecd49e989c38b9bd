"""What the API says of pairs with rates_mode detailed: of channels and queues, exchanges and channels, and so on.

For those who write routes, each a list of rows as RabbitMQ has them, empty in the other modes:

    queue_incoming(history, vhost, queue, ages)          [{"exchange": {"name", "vhost"}, "stats": message_stats}, ...]
    queue_deliveries(history, vhost, queue, channels, ages)     [{"channel_details": Channel, "stats": ...}, ...]
    exchange_incoming(history, vhost, exchange, channels, ages) the same
    exchange_outgoing(history, vhost, exchange, ages)    [{"queue": {"name", "vhost"}, "stats": ...}, ...]
    channel_publishes(history, channel, ages)            as incoming of a queue
    channel_deliveries(history, channel, ages)           as outgoing of an exchange

`channels` are those that the user may see. Where RabbitMQ has channel_details the channel itself stands, for the route
to put its row's details there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from broker.entities.exchanges.exchange import Exchange
from broker.entities.queues.queue import Queue
from broker.entities.statistics.counters import ChannelCounters
from broker.entities.statistics.pair_counters import Pairs
from broker.entities.vhosts.vhost import VHost
from broker.management.statistics.history import History
from broker.management.statistics.message_stats import message_stats
from broker.management.statistics.windows import NO_SAMPLES, Ages
from broker.session.channel.channel import Channel

Rows = list[dict[str, Any]]


def queue_incoming(history: History, vhost: VHost, queue: Queue, ages: Ages = NO_SAMPLES) -> Rows:
    """What came into a queue from each exchange."""
    return _named(history, "exchange", vhost, queue.counters.incoming or {}, ages)


def queue_deliveries(
    history: History, vhost: VHost, queue: Queue, channels: Iterable[Channel], ages: Ages = NO_SAMPLES
) -> Rows:
    """What each of these channels was given of a queue."""
    pairs = [(channel, channel.pairs.deliveries) for channel in channels if channel.pairs and channel.vhost is vhost]
    return _of_channels(history, queue.name, pairs, ages)


def exchange_incoming(
    history: History, vhost: VHost, exchange: Exchange, channels: Iterable[Channel], ages: Ages = NO_SAMPLES
) -> Rows:
    """What each of these channels has published to an exchange."""
    pairs = [(channel, channel.pairs.publishes) for channel in channels if channel.pairs and channel.vhost is vhost]
    return _of_channels(history, exchange.name, pairs, ages)


def exchange_outgoing(history: History, vhost: VHost, exchange: Exchange, ages: Ages = NO_SAMPLES) -> Rows:
    """What came into each queue from an exchange."""
    found = {
        name: queue.counters.incoming[exchange.name]
        for name, queue in vhost.queues.items()
        if queue.counters.incoming is not None and exchange.name in queue.counters.incoming
    }
    return _named(history, "queue", vhost, found, ages)


def channel_publishes(history: History, channel: Channel, ages: Ages = NO_SAMPLES) -> Rows:
    """What a channel has published to each exchange."""
    return _named(history, "exchange", channel.vhost, channel.pairs.publishes if channel.pairs else {}, ages)


def channel_deliveries(history: History, channel: Channel, ages: Ages = NO_SAMPLES) -> Rows:
    """What a channel was given of each queue."""
    return _named(history, "queue", channel.vhost, channel.pairs.deliveries if channel.pairs else {}, ages)


def _named(history: History, kind: str, vhost: VHost, pairs: Pairs, ages: Ages) -> Rows:
    return [
        {kind: {"name": name, "vhost": vhost.name}, "stats": _stats(history, counters, ages)}
        for name, counters in sorted(pairs.items())
    ]


def _of_channels(history: History, name: str, pairs: Iterable[tuple[Channel, Pairs]], ages: Ages) -> Rows:
    return [
        {"channel_details": channel, "stats": _stats(history, of_channel[name], ages)}
        for channel, of_channel in pairs
        if name in of_channel
    ]


def _stats(history: History, counters: ChannelCounters, ages: Ages) -> dict[str, Any]:
    """message_stats of a pair, without confirms: they are not counted for each."""
    values = counters.values()._asdict()
    del values["confirm"]
    return message_stats(values, history.details((counters,), ages.msg_rates))
