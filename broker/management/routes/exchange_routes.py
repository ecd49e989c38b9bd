"""Exchanges: list, show, declare, delete."""

from __future__ import annotations

from functools import partial

from starlette.responses import Response

from broker.admin.short_steps import mapped
from broker.admin.views.topology_view import ExchangeOf
from broker.entities.exchanges.exchange import Exchange
from broker.management.access import Tag
from broker.management.api_call import ApiCall
from broker.management.list_query import list_response
from broker.management.resources import Resource, resource
from broker.management.responses import empty, in_json, not_found
from broker.management.rows.consumer_rows import channel_details
from broker.management.rows.exchange_rows import exchange_name, exchange_order, exchange_rows
from broker.management.statistics import pair_stats
from broker.wire import methods

DEFAULT = "amq.default"
"""The default exchange in a path, because its name is empty."""


async def list_exchanges(call: ApiCall) -> Response:
    """List exchanges."""
    query = call.list_query(paged=True)
    exchanges: list[ExchangeOf] = []
    for vhost in call.vhosts():
        exchanges += await mapped(partial(ExchangeOf, vhost.name), list(vhost.exchanges.values()))
    columns = exchange_rows(call.history_query, call.api.series)
    return await list_response(exchanges, columns, query, exchange_name, exchange_order)


async def show_exchange(call: ApiCall) -> Response:
    """Show an exchange."""
    vhost, exchange = call.vhost, exchange_of(call)
    row = exchange_rows(call.history_query, call.api.series).row(ExchangeOf(vhost.name, exchange))
    details = channel_details(call.api.settings.node)
    pairs = pair_stats.of_exchange(call.history_query, call.api.registry, vhost, exchange, details)
    return in_json(call.chosen(row | pairs))


def exchange_in_path(call: ApiCall, part: str = "exchange") -> str:
    """The name of an exchange in the path. Raises Problem 400 if it is too long for one."""
    name = call.short_name(part)
    return "" if name == DEFAULT else name


def exchange_of(call: ApiCall) -> Exchange:
    """The exchange that the path names. Raises Problem 404."""
    exchange = call.vhost.exchanges.get(exchange_in_path(call))
    if exchange is None:
        raise not_found()
    return exchange


async def declare_exchange(call: ApiCall) -> Response:
    """Declare an exchange; answered when it is on disk."""
    fields, name = await call.fields(), exchange_in_path(call)
    method = methods.ExchangeDeclare(
        name,
        fields.short_text("type", "direct"),
        fields.flag("passive"),
        fields.flag("durable"),
        fields.flag("auto_delete"),
        fields.flag("internal"),
        False,
        fields.amqp_table("arguments"),
    )
    async with call.session() as session:
        existed = name in call.vhost.exchanges
        await call.answered(session.ask(method))
    return empty(204 if existed else 201)


async def delete_exchange(call: ApiCall) -> Response:
    """Delete an exchange; answered when that is on disk."""
    name = exchange_of(call).name
    async with call.session() as session:
        await call.answered(session.ask(methods.ExchangeDelete(name, call.flag("if-unused"), False)))
    return empty(204)


RESOURCES: list[Resource] = [
    resource("/api/exchanges", GET=(Tag.ANY, list_exchanges)),
    resource("/api/exchanges/{vhost}", in_vhost=True, GET=(Tag.ANY, list_exchanges)),
    resource(
        "/api/exchanges/{vhost}/{exchange}",
        in_vhost=True,
        GET=(Tag.ANY, show_exchange),
        PUT=(Tag.ANY, declare_exchange),
        DELETE=(Tag.ANY, delete_exchange),
    ),
]
