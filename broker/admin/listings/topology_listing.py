"""What is listed of exchanges, bindings and consumers."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from broker.admin.administration import Administration
from broker.admin.command_arguments import Arguments
from broker.admin.kinds.topology_entries import destination_type
from broker.admin.listing import Column, Listing, Place, in_vhosts, vhosts
from broker.admin.listings.queue_listing import policy_name
from broker.entities.exchanges.exchange import Binding, Exchange
from broker.entities.queues.consumers import Consumer
from broker.entities.queues.queue import Queue
from broker.entities.vhosts.vhost import VHost
from broker.session.channel.channel import Channel
from broker.wire.field_tables import Table, decode_table

EXCHANGE_COLUMNS: dict[str, Column] = {
    "vhost": lambda place: place.vhost,
    "name": lambda place: place.it.name,
    "type": lambda place: place.it.type,
    "durable": lambda place: place.it.durable,
    "auto_delete": lambda place: place.it.auto_delete,
    "internal": lambda place: place.it.internal,
    "messages_delayed": lambda place: 0 if place.it.delays is None else place.it.delays.messages,
    "arguments": lambda place: place.it.arguments,
    "policy": lambda place: policy_name(place.it.policies.policy),
}

BINDING_COLUMNS: dict[str, Column] = {
    "vhost": lambda place: place.vhost,
    "source": lambda place: _source(place.it),
    "destination": lambda place: _destination(place.it),
    "destination_type": lambda place: _kind(place.it),
    "routing_key": lambda place: place.it.name if isinstance(place.it, Queue) else place.it.key,
    "arguments": lambda place: _arguments(place.it),
    "source_name": lambda place: _source(place.it),
    "source_kind": lambda place: "exchange",
    "destination_name": lambda place: _destination(place.it),
    "destination_kind": lambda place: _kind(place.it),
}
"""Of a binding or, for the one by which the default exchange reaches it, of a queue."""

CONSUMER_COLUMNS: dict[str, Column] = {
    "vhost": lambda place: place.vhost,
    "queue": lambda place: place.it.queue.name,
    "consumer_tag": lambda place: place.it.tag,
    "channel": lambda place: channel_name(place.it.outlet),
    "ack_required": lambda place: not place.it.no_ack,
    "prefetch_count": lambda place: place.it.prefetch,
    "exclusive": lambda place: place.it.exclusive,
    "active": lambda place: place.it.queue.consumers.active(place.it),
    "activity_status": lambda place: _activity(place.it),
    "priority": lambda place: place.it.priority,
    "arguments": lambda place: place.it.arguments,
    "queue_name": lambda place: place.it.queue.name,
    "channel_pid": lambda place: place.node.pid(place.it.outlet.connection.number, place.it.outlet.number),
}


def _source(binding: Binding | Queue) -> str:
    return "" if isinstance(binding, Queue) else binding.source.name


def _destination(binding: Binding | Queue) -> str:
    return binding.name if isinstance(binding, Queue) else binding.destination.name


def _kind(binding: Binding | Queue) -> str:
    return "queue" if isinstance(binding, Queue) else destination_type(binding)


def _arguments(binding: Binding | Queue) -> Table:
    return {} if isinstance(binding, Queue) else decode_table(binding.arguments)[0]


def channel_name(channel: Channel) -> str:
    """RabbitMQ's name of a channel: its connection's, and its number."""
    return f"{channel.connection.peer} ({channel.number})"


def _activity(consumer: Consumer) -> str:
    if not consumer.queue.arguments.single_active_consumer:
        return "up"
    return "single_active" if consumer.queue.consumers.active(consumer) else "waiting"


def _exchanges(vhost: VHost) -> list[Exchange]:
    return list(vhost.exchanges.values())


def _bindings(vhost: VHost) -> Iterator[Binding | Queue]:
    bound = (binding for exchange in _exchanges(vhost) for binding in list(exchange.bindings))
    return chain(list(vhost.queues.values()), bound)


def _consumers(administration: Administration, arguments: Arguments) -> Iterator[Place]:
    """By their channels: there may be very many queues without consumers."""
    node, chosen = administration.node, {vhost.name for vhost in vhosts(administration, arguments)}
    connections = list(administration.registry.connections)
    return (
        Place(node, channel.vhost.name, consumer)
        for connection in connections
        for channel in list(connection.channels.values())
        for consumer in list(channel.consumers.values())
        if channel.vhost.name in chosen
    )


EXCHANGES = Listing(in_vhosts(_exchanges), EXCHANGE_COLUMNS)
BINDINGS = Listing(in_vhosts(_bindings), BINDING_COLUMNS)
CONSUMERS = Listing(_consumers, CONSUMER_COLUMNS)
