"""Columns of exchanges, bindings and consumers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from broker.admin.administration import Administration
from broker.admin.kinds.topology_entries import destination_type
from broker.admin.views.columns import ABSENT, Column, Columns
from broker.admin.views.connection_view import channel_name
from broker.admin.views.listing import View, in_vhosts
from broker.admin.views.queue_view import policy_name
from broker.entities.exchanges.exchange import Binding, Exchange
from broker.entities.queues.consumer_prefetch import Consumer
from broker.entities.vhosts.vhost import VHost
from broker.session.channel.channel import Channel
from broker.wire.field_tables import decode_table, encode_table

# Exchanges


class ExchangeOf(NamedTuple):
    """An exchange, and the virtual host it is in."""

    vhost: str
    exchange: Exchange


EXCHANGE_COLUMNS: Mapping[str, Column[ExchangeOf]] = {
    "name": lambda listed: listed.exchange.name,
    "vhost": lambda listed: listed.vhost,
    "type": lambda listed: listed.exchange.type,
    "durable": lambda listed: listed.exchange.durable,
    "auto_delete": lambda listed: listed.exchange.auto_delete,
    "internal": lambda listed: listed.exchange.internal,
    "arguments": lambda listed: listed.exchange.arguments,
    "policy": lambda listed: policy_name(listed.exchange.policies.policy) or ABSENT,
    "messages_delayed": lambda listed: 0 if listed.exchange.delays is None else listed.exchange.delays.messages,
}
"""The columns that the HTTP API and lists share."""


# Bindings

NO_ARGUMENTS = encode_table({})


class BindingOf(NamedTuple):
    """A binding by the names of its ends; `arguments` are an encoded table. Lists are sorted by these fields."""

    vhost: str
    source: str
    destination: str
    destination_type: str
    routing_key: str
    arguments: bytes


def named(vhost: str, binding: Binding) -> BindingOf:
    """Return a binding of a virtual host by its names."""
    kind = destination_type(binding)
    return BindingOf(vhost, binding.source.name, binding.destination.name, kind, binding.key, binding.arguments)


def implied(vhost: str, queue: str) -> BindingOf:
    """Return the binding by which the default exchange leads to a queue."""
    return BindingOf(vhost, "", queue, "queue", queue, NO_ARGUMENTS)


BINDING_COLUMNS: Mapping[str, Column[BindingOf]] = {
    "source": lambda binding: binding.source,
    "vhost": lambda binding: binding.vhost,
    "destination": lambda binding: binding.destination,
    "destination_type": lambda binding: binding.destination_type,
    "routing_key": lambda binding: binding.routing_key,
    "arguments": lambda binding: decode_table(binding.arguments)[0],
}
"""The columns that the HTTP API and lists share."""


# Consumers


def _active(consumer: Consumer) -> bool:
    return consumer.queue.consumers.active(consumer)


def _activity(consumer: Consumer) -> str:
    """`single_active`, `waiting` to be that, or `up` where all consumers of the queue are served."""
    if not consumer.queue.arguments.single_active_consumer:
        return "up"
    return "single_active" if _active(consumer) else "waiting"


CONSUMER_COLUMNS: Mapping[str, Column[Consumer]] = {
    "consumer_tag": lambda consumer: consumer.tag,
    "ack_required": lambda consumer: not consumer.no_ack,
    "exclusive": lambda consumer: consumer.exclusive,
    "active": _active,
    "activity_status": _activity,
    "prefetch_count": lambda consumer: consumer.prefetch,
    "arguments": lambda consumer: consumer.arguments,
}
"""The columns that the HTTP API and lists share."""


# Lists of the command line


def _listed_exchanges(administration: Administration) -> Columns[ExchangeOf]:
    return Columns(EXCHANGE_COLUMNS)


def _listed_bindings(administration: Administration) -> Columns[BindingOf]:
    return Columns(
        {
            **BINDING_COLUMNS,
            "source_name": BINDING_COLUMNS["source"],
            "source_kind": lambda binding: "exchange",
            "destination_name": BINDING_COLUMNS["destination"],
            "destination_kind": BINDING_COLUMNS["destination_type"],
        }
    )


def _listed_consumers(administration: Administration) -> Columns[Consumer]:
    node = administration.node

    def channel_pid(consumer: Consumer) -> Any:
        channel = consumer.outlet
        return node.pid(channel.connection.number, channel.number) if isinstance(channel, Channel) else ABSENT

    return Columns(
        {
            "vhost": lambda consumer: consumer.queue.vhost_name,
            "queue": lambda consumer: consumer.queue.name,
            **CONSUMER_COLUMNS,
            "channel": lambda consumer: (
                channel_name(consumer.outlet) if isinstance(consumer.outlet, Channel) else ABSENT
            ),
            "priority": lambda consumer: consumer.priority,
            "queue_name": lambda consumer: consumer.queue.name,
            "channel_pid": channel_pid,
        }
    )


def _exchanges(vhost: VHost) -> Iterator[ExchangeOf]:
    return (ExchangeOf(vhost.name, exchange) for exchange in list(vhost.exchanges.values()))


def _bindings(vhost: VHost) -> Iterator[BindingOf]:
    yield from (implied(vhost.name, queue) for queue in list(vhost.queues))
    for exchange in list(vhost.exchanges.values()):
        yield from (named(vhost.name, binding) for binding in list(exchange.bindings))


def _consumers(administration: Administration, vhost: str | None) -> Iterator[Consumer]:
    """Consumers of network and direct connections. Channels are gone through: most queues may have no consumer."""
    chosen = {each.name for each in administration.vhosts(vhost)}
    connections = list(administration.registry.connections)
    return (
        consumer
        for connection in connections
        for channel in list(connection.channels.values())
        for consumer in list(channel.consumers.values())
        if channel.vhost.name in chosen
    )


EXCHANGES = View(in_vhosts(_exchanges), _listed_exchanges)
BINDINGS = View(in_vhosts(_bindings), _listed_bindings)
CONSUMERS = View(_consumers, _listed_consumers)
