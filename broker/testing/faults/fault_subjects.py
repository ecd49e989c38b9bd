"""The subjects of faults: connections, channels and deliveries, with the values that scopes match."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.admin.json_tables import plain
from broker.session.connection import Connection
from broker.testing.faults.requested_faults import Subject

if TYPE_CHECKING:
    from broker.session.channel.channel import Channel


def of_connection(connection: Connection) -> Subject:
    """Return a connection as a subject, by its addresses and by the name that its client has given it."""
    given = plain(connection.client_properties).get("connection_name", "")
    return {
        "connection": (str(connection.peer), str(given)),
        "user": connection.user,
        "vhost": connection.vhost_name,
        **_of_consumers(*connection.channels.values()),
    }


def of_channel(channel: Channel) -> Subject:
    """Return a channel as a subject, by its number, and by its consumers and their queues."""
    assert isinstance(channel.connection, Connection)
    return {**of_connection(channel.connection), "channel": channel.number, **_of_consumers(channel)}


def of_delivery(channel: Channel, tag: int, *, multiple: bool) -> Subject:
    """Return the delivery that an acknowledgement names, or the oldest of several, as a subject."""
    deliveries = channel.deliveries
    entry = next((entry for _, entry in deliveries.items()), None) if multiple else deliveries.get(tag)
    if entry is None:
        return of_channel(channel)
    consumer = next((consumer.tag for consumer in channel.consumers.values() if consumer is entry.consumer), "")
    return {**of_channel(channel), "queue": entry.queue.name, "consumer_tag": consumer}


def _of_consumers(*channels: Channel) -> Subject:
    consumers = [consumer for channel in channels for consumer in channel.consumers.values()]
    queues = tuple(dict.fromkeys(consumer.queue.name for consumer in consumers))
    return {"queue": queues, "consumer_tag": tuple(consumer.tag for consumer in consumers)}
