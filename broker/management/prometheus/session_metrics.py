"""Metrics of connections and channels. Those of a channel are not split by exchange and queue, as RabbitMQ's are."""

from __future__ import annotations

from operator import attrgetter

from broker.admin.views.connection_view import acks_uncommitted, channel_name, connection_name, messages_uncommitted
from broker.management.prometheus.metric_groups import COUNTER, GAUGE, Labels, Measure, MetricGroup, Values
from broker.session.channel.channel import Channel
from broker.session.connection import Connection
from broker.session.registry import Registry


def open_connections(registry: Registry) -> list[Connection]:
    """The connections that have opened a virtual host."""
    return [connection for connection in registry.network_connections if connection.vhost_name]


def channels(registry: Registry) -> list[Channel]:
    """The channels of all connections."""
    return [channel for connection in open_connections(registry) for channel in connection.channels.values()]


def channel_groups(registry: Registry) -> list[MetricGroup[Channel]]:
    """The groups of all channels."""
    return [
        MetricGroup("channel_metrics", lambda: channels(registry), OF_CHANNEL, STATE, _state),
        MetricGroup("channel_exchange_metrics", lambda: channels(registry), IN_VHOST, PUBLISHED, _published),
        MetricGroup("channel_queue_metrics", lambda: channels(registry), IN_VHOST, DELIVERED, _delivered),
    ]


def connection_groups(registry: Registry) -> list[MetricGroup[Connection]]:
    """The groups of all connections. Their label is called `channel`, as in RabbitMQ."""
    return [
        MetricGroup("connection_coarse_metrics", lambda: open_connections(registry), OF_CONNECTION, BYTES, _bytes),
        MetricGroup("connection_metrics", lambda: open_connections(registry), OF_CONNECTION, PACKETS, _packets),
    ]


OF_CHANNEL = Labels[Channel](("channel",), lambda channel: (channel_name(channel),))
IN_VHOST = Labels[Channel](("channel", "vhost"), lambda channel: (channel_name(channel), channel.vhost.name))
OF_CONNECTION = Labels[Connection](("channel",), lambda connection: (connection_name(connection),))

STATE = (
    Measure("channel_consumers", GAUGE, "Consumers on a channel"),
    Measure("channel_messages_unacked", GAUGE, "Deliveries that are not acknowledged"),
    Measure("channel_messages_unconfirmed", GAUGE, "Publishes that are neither confirmed nor refused"),
    Measure("channel_messages_uncommitted", GAUGE, "Publishes of an open transaction"),
    Measure("channel_acks_uncommitted", GAUGE, "Acknowledgements of an open transaction"),
    Measure("consumer_prefetch", GAUGE, "How many messages each consumer may have"),
    Measure("channel_prefetch", GAUGE, "How many messages all consumers of a channel may have"),
)


def _state(channel: Channel) -> Values:
    return (
        len(channel.consumers),
        len(channel.deliveries),
        channel.confirms.unanswered if channel.confirms else 0,
        messages_uncommitted(channel),
        acks_uncommitted(channel),
        channel.prefetch,
        channel.prefetch_all,
    )


PUBLISHED = (
    Measure("channel_messages_published_total", COUNTER, "Messages published on the channel"),
    Measure("channel_messages_confirmed_total", COUNTER, "Messages confirmed on the channel"),
    Measure("channel_messages_unroutable_returned_total", COUNTER, "Mandatory messages that no queue got"),
    Measure("channel_messages_unroutable_dropped_total", COUNTER, "Other messages that no queue got"),
)
_published = attrgetter(
    "counters.publish", "counters.confirm", "counters.return_unroutable", "counters.drop_unroutable"
)

DELIVERED = (
    Measure("channel_get_ack_total", COUNTER, "Messages fetched by basic.get, to be acknowledged"),
    Measure("channel_get_total", COUNTER, "Messages fetched by basic.get without acknowledgement"),
    Measure("channel_messages_delivered_ack_total", COUNTER, "Messages delivered, to be acknowledged"),
    Measure("channel_messages_delivered_total", COUNTER, "Messages delivered without acknowledgement"),
    Measure("channel_messages_redelivered_total", COUNTER, "Messages delivered or fetched again"),
    Measure("channel_messages_acked_total", COUNTER, "Messages acknowledged by basic.ack"),
    Measure("channel_get_empty_total", COUNTER, "basic.get that found no message"),
)
_delivered = attrgetter(
    *(
        f"counters.{name}"
        for name in ("get", "get_no_ack", "deliver", "deliver_no_ack", "redeliver", "ack", "get_empty")
    )
)

BYTES = (
    Measure("connection_incoming_bytes_total", COUNTER, "Bytes received"),
    Measure("connection_outgoing_bytes_total", COUNTER, "Bytes sent"),
)
_bytes = attrgetter("traffic.recv_oct", "traffic.send_oct")

PACKETS = (
    Measure("connection_incoming_packets_total", COUNTER, "Reads of the socket"),
    Measure("connection_outgoing_packets_total", COUNTER, "Writes to the socket"),
    Measure("connection_pending_packets", GAUGE, "Bytes that the client has not taken"),
    Measure("connection_channels", GAUGE, "Channels"),
)


def _packets(connection: Connection) -> Values:
    traffic = connection.traffic
    return traffic.recv_cnt, traffic.send_cnt, connection.output.pending, len(connection.channels)
