"""Exchanges, queues and bindings in definitions files.

They have no DefinitionKind: their changes begin in memory and lead to the store. An import declares them as a client
would.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from contextlib import aclosing
from random import Random
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

from msgspec import Meta

from broker.admin.json_tables import plain, table
from broker.admin.kinds.definition_entry import DefinitionEntry, FieldTable, Name
from broker.admin.protocol import AdministrationError, invalid
from broker.admin.short_steps import in_steps
from broker.entities.arguments import queue_arguments, queue_types
from broker.entities.arguments.personality import Personality
from broker.entities.exchanges.exchange import Binding, Destination, Exchange, Router
from broker.entities.exchanges.exchange_type_table import ROUTERS, RouterRules
from broker.entities.node.broker import Broker
from broker.entities.queues.queue import Queue, QueueSpec
from broker.entities.scheduling.future import Future
from broker.entities.vhosts.vhost import DEFAULT_EXCHANGES, VHost
from broker.session.connection import Connection
from broker.wire.amqp_errors import AmqpError
from broker.wire.field_tables import Table, decode_table

T = TypeVar("T")
Row = dict[str, Any]

# Entries


NameOrDefault = Annotated[str, Meta(max_length=255)]
"""The name of an exchange; empty is the default exchange, which files of people and of LavinMQ list."""


class ExchangeEntry(DefinitionEntry, frozen=True):
    """An exchange. The default exchange is passed over, as in RabbitMQ."""

    name: NameOrDefault
    vhost: Name
    type: str
    durable: bool = True
    auto_delete: bool = False
    internal: bool = False
    arguments: FieldTable = {}

    def check(self, broker: Broker) -> None:
        """Raise AdministrationError or AmqpError for an unknown type, and for arguments that the type does not take."""
        new_router(self.type, self.arguments)
        alternate = table(self.arguments).get("alternate-exchange")
        if alternate is not None and alternate.kind != "S":
            raise invalid("argument alternate-exchange: expected a text")


class QueueEntry(DefinitionEntry, frozen=True):
    """A queue."""

    name: Name
    vhost: Name
    durable: bool = True
    auto_delete: bool = False
    arguments: FieldTable = {}

    def check(self, broker: Broker) -> None:
        """Raise AmqpError for arguments and properties that the type of queue does not take."""
        vhost = broker.vhosts.get(self.vhost)
        self._check(table(self.arguments) if vhost is None else self._typed(vhost), broker.personality)

    def spec(self, vhost: VHost) -> QueueSpec:
        """Return the queue, of the virtual host's default type if it names none.

        Raises AdministrationError `invalid` where that type, of a virtual host in the same file, does not take it.
        """
        arguments = self._typed(vhost)
        try:
            self._check(arguments, vhost.context.personality)
        except AmqpError as error:
            raise invalid(f"definitions: {error.text}") from None
        return QueueSpec(self.name, self.durable, False, self.auto_delete, arguments)

    def _typed(self, vhost: VHost) -> Table:
        properties = {"durable": self.durable, "exclusive": False, "auto_delete": self.auto_delete}
        return vhost.default_type.added(table(self.arguments), **properties)

    def _check(self, arguments: Table, personality: Personality) -> None:
        queue_arguments.check(self.name, self.vhost, arguments, personality.argument_rules)
        queue_types.check_properties(
            self.name, self.vhost, arguments, durable=self.durable, exclusive=False, auto_delete=self.auto_delete
        )


class BindingEntry(DefinitionEntry, frozen=True):
    """A binding. Its ends are checked by the import; bindings of the default exchange are passed over."""

    source: NameOrDefault
    vhost: Name
    destination: Name
    destination_type: Literal["queue", "exchange"] = "queue"
    routing_key: Annotated[str, Meta(max_length=255)] = ""
    arguments: FieldTable = {}


_RULES = RouterRules(Random(), exact_headers=True, typed_hashes=True, modulus_by_name=False)


def new_router(type_: str, arguments: FieldTable) -> Router:
    """Return what an exchange of a type routes by. Raises AdministrationError and AmqpError."""
    if type_ not in ROUTERS:
        raise invalid(f"unknown exchange type '{type_}'")
    return ROUTERS[type_](table(arguments), _RULES)


# Export


class VhostContents(NamedTuple):
    """The entities of a virtual host at one moment. Exclusive queues, and bindings to them, are not exported."""

    vhost: VHost
    queues: list[Queue]
    exchanges: list[Exchange]
    bindings: list[Binding]


def contents_of(vhost: VHost) -> VhostContents:
    """Return the entities that a virtual host has now."""
    return VhostContents(vhost, list(vhost.queues.values()), list(vhost.exchanges.values()), list(bindings(vhost)))


def exported_queues(contents: Iterable[VhostContents]) -> Iterator[Row]:
    """Yield queues as definitions files have them."""
    return (
        _queue(each.vhost, queue)
        for each in contents
        for queue in each.queues
        if not isinstance(queue.owner, Connection)
    )


def exported_exchanges(contents: Iterable[VhostContents]) -> Iterator[Row]:
    """Yield exchanges as definitions files have them, without those that each virtual host has.

    RabbitMQ 4 does not write that an exchange is internal, and leaves out those that are. Here they are kept.
    """
    return (
        _exchange(each.vhost, exchange)
        for each in contents
        for exchange in each.exchanges
        if exchange.name not in DEFAULT_EXCHANGES
    )


def exported_bindings(contents: Iterable[VhostContents]) -> Iterator[Row]:
    """Yield bindings as definitions files have them."""
    return (
        {"vhost": each.vhost.name, **binding_row(binding)}
        for each in contents
        for binding in each.bindings
        if getattr(binding.destination, "owner", None) is None
    )


def _queue(vhost: VHost, queue: Queue) -> Row:
    return {
        "name": queue.name,
        "vhost": vhost.name,
        "durable": queue.durable,
        "auto_delete": queue.spec.auto_delete,
        "type": queue.type.name,
        "arguments": plain(queue.spec.arguments),
    }


def _exchange(vhost: VHost, exchange: Exchange) -> Row:
    row = {
        "name": exchange.name,
        "vhost": vhost.name,
        "type": exchange.type,
        "durable": exchange.durable,
        "auto_delete": exchange.auto_delete,
        "internal": exchange.internal,
        "arguments": plain(exchange.arguments),
    }
    if vhost.context.personality.series >= (4, 0) and not exchange.internal:
        del row["internal"]
    return row


def bindings(vhost: VHost) -> Iterable[Binding]:
    """Return every binding of a virtual host."""
    return (binding for exchange in vhost.exchanges.values() for binding in exchange.bindings)


def binding_row(binding: Binding) -> Row:
    """Return a binding as definitions files have it, without its virtual host."""
    return {
        "source": binding.source.name,
        "destination": binding.destination.name,
        "destination_type": destination_type(binding),
        "routing_key": binding.key,
        "arguments": plain(decode_table(binding.arguments)[0]),
    }


def destination_type(binding: Binding) -> str:
    """Return `queue` or `exchange`."""
    return "queue" if isinstance(binding.destination, Queue) else "exchange"


# Import: declarations begin one after the other, in short steps; each future settles when one is on disk


async def declare_exchanges(broker: Broker, entries: Iterable[ExchangeEntry], by: str) -> AsyncGenerator[Future[Any]]:
    """Declare the exchanges that are not there."""
    seen = set()
    async with aclosing(in_steps(entries)) as given:
        async for entry in given:
            vhost = broker.vhosts[entry.vhost]
            if entry.name not in vhost.exchanges and (vhost, entry.name) not in seen:
                seen.add((vhost, entry.name))
                yield vhost.declare_exchange(
                    entry.name,
                    entry.type,
                    durable=entry.durable,
                    auto_delete=entry.auto_delete,
                    internal=entry.internal,
                    arguments=table(entry.arguments),
                    by=by,
                )


async def declare_queues(broker: Broker, entries: Iterable[QueueEntry], by: str) -> AsyncGenerator[Future[Any]]:
    """Declare the queues that are not there."""
    seen = set()
    async with aclosing(in_steps(entries)) as given:
        async for entry in given:
            vhost = broker.vhosts[entry.vhost]
            if entry.name not in vhost.queues and (vhost, entry.name) not in seen:
                seen.add((vhost, entry.name))
                yield vhost.declare_queue(entry.spec(vhost), None, by)


async def bind(broker: Broker, entries: Iterable[BindingEntry], by: str) -> AsyncGenerator[Future[Any]]:
    """Make the bindings that are not there. Raises AdministrationError `failed` where an end was deleted meanwhile."""
    begun = set[Binding]()
    alike = dict[Exchange, set[str]]()
    async with aclosing(in_steps(entries)) as given:
        async for entry in given:
            if not entry.source:
                continue
            vhost = broker.vhosts[entry.vhost]
            source, arguments = _end(vhost.exchanges, entry.source, entry), table(entry.arguments)
            destination: Destination
            if entry.destination_type == "queue":
                destination = _end(vhost.queues, entry.destination, entry)
            else:
                destination = _end(vhost.exchanges, entry.destination, entry)
            binding = source.binding(destination, entry.routing_key, arguments)
            if binding in source.bindings or binding in begun:
                continue
            if arguments:
                if source not in alike:
                    alike[source] = {_in_json(each) async for each in in_steps(list(source.bindings))}
                if _in_json(binding) in alike[source]:
                    continue
                alike[source].add(_in_json(binding))
            begun.add(binding)
            yield vhost.bindings.bind(binding, arguments, by)


def _end(there: Mapping[str, T], name: str, entry: BindingEntry) -> T:
    if name not in there:
        raise AdministrationError("failed", f"definitions: '{name}' of a binding in vhost '{entry.vhost}' was deleted")
    return there[name]


def _in_json(binding: Binding) -> str:
    """Return the same text for a binding that was exported and imported, whose arguments have lost their types."""
    return json.dumps(binding_row(binding), sort_keys=True)
