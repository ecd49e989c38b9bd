"""Bindings: list, show, bind, unbind."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from starlette.responses import Response

from broker.admin.short_steps import mapped
from broker.admin.views.topology_view import BindingOf, implied, named
from broker.entities.exchanges.exchange import Destination
from broker.entities.queues.queue import Queue
from broker.entities.vhosts.vhost import VHost
from broker.management.access import Tag
from broker.management.api_call import ApiCall
from broker.management.list_query import list_response
from broker.management.resources import Resource, resource
from broker.management.responses import empty, in_json, not_found
from broker.management.routes.exchange_routes import exchange_in_path
from broker.management.rows.binding_rows import (
    BINDING_ROWS,
    all_bindings,
    location,
    matches,
    properties_key,
)
from broker.wire import methods
from broker.wire.field_tables import decode_table, encode_table
from broker.wire.method import Method


async def list_bindings(call: ApiCall) -> Response:
    """List bindings, including those of the default exchange."""
    bindings: list[BindingOf] = []
    for vhost in call.vhosts():
        bindings += await all_bindings(vhost)
    return await _answer(call, bindings)


async def list_of_queue(call: ApiCall) -> Response:
    """List the bindings of a queue; empty if it does not exist."""
    queue = call.vhost.queues.get(call.names["queue"])
    return await _answer(call, [] if queue is None else await _leading_to(call.vhost, queue))


async def list_from_exchange(call: ApiCall) -> Response:
    """List the bindings with an exchange as source."""
    vhost, name = call.vhost, exchange_in_path(call)
    if not name:
        return await _answer(call, await mapped(partial(implied, vhost.name), list(vhost.queues)))
    exchange = vhost.exchanges.get(name)
    bindings = [] if exchange is None else list(exchange.bindings)
    return await _answer(call, await mapped(partial(named, vhost.name), bindings))


async def list_to_exchange(call: ApiCall) -> Response:
    """List the bindings with an exchange as destination."""
    exchange = call.vhost.exchanges.get(exchange_in_path(call))
    return await _answer(call, [] if exchange is None else await _leading_to(call.vhost, exchange))


async def list_between(call: ApiCall) -> Response:
    """List the bindings between an exchange and a queue or another exchange."""
    return await _answer(call, await _between(call))


async def _answer(call: ApiCall, bindings: list[BindingOf]) -> Response:
    return await list_response(bindings, BINDING_ROWS, call.list_query(), _key, _itself)


def _key(binding: BindingOf) -> str:
    return binding.routing_key


def _itself(binding: BindingOf) -> BindingOf:
    return binding


async def _leading_to(vhost: VHost, destination: Destination) -> list[BindingOf]:
    found = await mapped(partial(named, vhost.name), vhost.bindings.leading_to(destination))
    if isinstance(destination, Queue):
        found.append(implied(vhost.name, destination.name))
    return found


async def _between(call: ApiCall) -> list[BindingOf]:
    """The bindings between the ends that the path names. Raises Problem 404 if there is no such virtual host."""
    source, destination = exchange_in_path(call, "source"), _destination(call)
    if destination is None:
        return []
    return [binding for binding in await _leading_to(call.vhost, destination) if binding.source == source]


def _destination(call: ApiCall) -> Destination | None:
    if "queue" in call.names:
        return call.vhost.queues.get(call.names["queue"])
    return call.vhost.exchanges.get(exchange_in_path(call))


async def show_binding(call: ApiCall) -> Response:
    """Show a binding."""
    return in_json(call.chosen(BINDING_ROWS.row(await _binding(call))))


async def _binding(call: ApiCall) -> BindingOf:
    """The binding that the path names. Raises Problem 404."""
    properties = call.names["properties"]
    for binding in await _between(call):
        if matches(binding, properties):
            return binding
    raise not_found()


async def bind(call: ApiCall) -> Response:
    """Create a binding, if it does not exist; the answer has its location."""
    fields = await call.fields()
    key, arguments = fields.short_text("routing_key"), fields.amqp_table("arguments")
    source = exchange_in_path(call, "source")
    method: Method
    if "queue" in call.names:
        destination = call.short_name("queue")
        method = methods.QueueBind(destination, source, key, False, arguments)
    else:
        destination = exchange_in_path(call)
        method = methods.ExchangeBind(destination, source, key, False, arguments)
    async with call.session() as session:
        await call.answered(session.ask(method))
    properties = properties_key(key, encode_table(dict(sorted(arguments.items()))))
    path = call.request.scope["path"]
    vhost, source = call.names["vhost"], call.names["source"]
    kind = "q" if "queue" in call.names else "e"
    names = (vhost, "e", source, kind, destination)
    return empty(201, {"location": location(path, names, properties)})


async def unbind(call: ApiCall) -> Response:
    """Remove a binding."""
    binding = await _binding(call)
    arguments = decode_table(binding.arguments)[0]
    method: Method
    if binding.destination_type == "queue":
        method = methods.QueueUnbind(binding.destination, binding.source, binding.routing_key, arguments)
    else:
        method = methods.ExchangeUnbind(binding.destination, binding.source, binding.routing_key, False, arguments)
    async with call.session() as session:
        await call.answered(session.ask(method))
    return empty(204)


def _between_ends(ends: Iterable[str]) -> list[Resource]:
    found = []
    for path in ends:
        place = f"/api/bindings/{{vhost}}/e/{{source}}/{path}"
        found += [
            resource(place, in_vhost=True, GET=(Tag.ANY, list_between), POST=(Tag.ANY, bind)),
            resource(place + "/{properties}", in_vhost=True, GET=(Tag.ANY, show_binding), DELETE=(Tag.ANY, unbind)),
        ]
    return found


RESOURCES: list[Resource] = [
    resource("/api/bindings", GET=(Tag.ANY, list_bindings)),
    resource("/api/bindings/{vhost}", in_vhost=True, GET=(Tag.ANY, list_bindings)),
    *_between_ends(["q/{queue}", "e/{exchange}"]),
    resource("/api/queues/{vhost}/{queue}/bindings", in_vhost=True, GET=(Tag.ANY, list_of_queue)),
    resource("/api/exchanges/{vhost}/{exchange}/bindings/source", in_vhost=True, GET=(Tag.ANY, list_from_exchange)),
    resource("/api/exchanges/{vhost}/{exchange}/bindings/destination", in_vhost=True, GET=(Tag.ANY, list_to_exchange)),
]
