"""Metrics of connections and channels.

Of a channel is counted what it has done, not for each exchange and queue by itself as in RabbitMQ.
"""

from __future__ import annotations

from broker.management.prometheus.metric_groups import COUNTER, GAUGE, Group, Labels, Measure
from broker.management.rows.channel_row import acks_uncommitted, channel_name, messages_uncommitted
from broker.management.rows.connection_row import connection_name
from broker.session.channel.channel import Channel
from broker.session.connection import Connection
from broker.session.registry import Registry


def open_connections(registry: Registry) -> list[Connection]:
    """The connections that have been let into a virtual host."""
    return [connection for connection in registry.network_connections if connection.vhost_name]


def channels(registry: Registry) -> list[Channel]:
    """The channels of all of them."""
    return [channel for connection in open_connections(registry) for channel in connection.channels.values()]


def channel_groups(registry: Registry) -> list[Group[Channel]]:
    """The groups of all channels."""
    return [
        Group("channel_metrics", lambda: channels(registry), OF_CHANNEL, STATE),
        Group("channel_exchange_metrics", lambda: channels(registry), OF_CHANNEL, PUBLISHED),
        Group("channel_queue_metrics", lambda: channels(registry), OF_CHANNEL, DELIVERED),
    ]


def connection_groups(registry: Registry) -> list[Group[Connection]]:
    """The groups of all connections. Their label is called `channel`, as in RabbitMQ."""
    return [
        Group("connection_coarse_metrics", lambda: open_connections(registry), OF_CONNECTION, BYTES),
        Group("connection_metrics", lambda: open_connections(registry), OF_CONNECTION, PACKETS),
    ]


OF_CHANNEL = Labels[Channel](("channel",), lambda channel: (channel_name(channel),))
OF_CONNECTION = Labels[Connection](("channel",), lambda connection: (connection_name(connection),))

STATE: tuple[Measure[Channel], ...] = (
    Measure("channel_consumers", GAUGE, "Consumers on a channel", lambda channel: len(channel.consumers)),
    Measure(
        "channel_messages_unacked",
        GAUGE,
        "Deliveries that are not acknowledged",
        lambda channel: len(channel.deliveries.unacked),
    ),
    Measure(
        "channel_messages_unconfirmed",
        GAUGE,
        "Publishes that are neither confirmed nor refused",
        lambda channel: channel.confirms.unanswered if channel.confirms else 0,
    ),
    Measure("channel_messages_uncommitted", GAUGE, "Publishes of an open transaction", messages_uncommitted),
    Measure("channel_acks_uncommitted", GAUGE, "Acknowledgements of an open transaction", acks_uncommitted),
    Measure("consumer_prefetch", GAUGE, "How many messages each consumer may have", lambda channel: channel.prefetch),
    Measure(
        "channel_prefetch",
        GAUGE,
        "How many messages all consumers of a channel may have",
        lambda channel: channel.prefetch_all,
    ),
)


def _counted(name: str, help_: str, counter: str) -> Measure[Channel]:
    return Measure(name, COUNTER, help_, lambda channel: getattr(channel.counters, counter))


PUBLISHED = (
    _counted("channel_messages_published_total", "Messages published on the channel", "publish"),
    _counted("channel_messages_confirmed_total", "Messages confirmed on the channel", "confirm"),
    _counted(
        "channel_messages_unroutable_returned_total",
        "Mandatory messages that reached no queue and were returned",
        "return_unroutable",
    ),
    _counted("channel_messages_unroutable_dropped_total", "Other messages that reached no queue", "drop_unroutable"),
)
DELIVERED = (
    _counted("channel_get_ack_total", "Messages fetched by basic.get, to be acknowledged", "get"),
    _counted("channel_get_total", "Messages fetched by basic.get without acknowledgement", "get_no_ack"),
    _counted("channel_messages_delivered_ack_total", "Messages delivered, to be acknowledged", "deliver"),
    _counted("channel_messages_delivered_total", "Messages delivered without acknowledgement", "deliver_no_ack"),
    _counted("channel_messages_redelivered_total", "Messages delivered or fetched again", "redeliver"),
    _counted("channel_messages_acked_total", "Messages acknowledged by basic.ack", "ack"),
    _counted("channel_get_empty_total", "basic.get that found no message", "get_empty"),
)

BYTES: tuple[Measure[Connection], ...] = (
    Measure(
        "connection_incoming_bytes_total", COUNTER, "Bytes received", lambda connection: connection.traffic.recv_oct
    ),
    Measure("connection_outgoing_bytes_total", COUNTER, "Bytes sent", lambda connection: connection.traffic.send_oct),
)
PACKETS: tuple[Measure[Connection], ...] = (
    Measure(
        "connection_incoming_packets_total",
        COUNTER,
        "Reads of the socket",
        lambda connection: connection.traffic.recv_cnt,
    ),
    Measure(
        "connection_outgoing_packets_total",
        COUNTER,
        "Writes to the socket",
        lambda connection: connection.traffic.send_cnt,
    ),
    Measure("connection_channels", GAUGE, "Channels", lambda connection: len(connection.channels)),
)
