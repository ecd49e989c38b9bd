"""Virtual hosts: listed, made, described, deleted, traced."""

from __future__ import annotations

from collections.abc import Iterable

from starlette.responses import Response

from broker.admin.kinds.vhost_kind import UNDEFINED
from broker.admin.short_steps import AT_ONCE, in_steps
from broker.entities.vhosts.vhost import VHost
from broker.management.access import Tag
from broker.management.answers import bad_request, empty, in_json
from broker.management.call import Call
from broker.management.list_query import list_answer
from broker.management.resources import Resource, resource
from broker.management.rows.vhost_row import VHostFigures, vhost_columns


async def list_vhosts(call: Call) -> Response:
    """The virtual hosts that the user may know of, or a page of them."""
    listed = [vhost for name, vhost in sorted(call.broker.vhosts.items()) if call.account.lists(name)]
    columns = vhost_columns(call.api.settings.node, call.past, statistics=_wants_statistics(call))
    return await list_answer(await _figures(call, listed), columns, call.list_query(paged=True), _name)


async def show_vhost(call: Call) -> Response:
    """One virtual host."""
    columns = vhost_columns(call.api.settings.node, call.past, statistics=_wants_statistics(call))
    (figures,) = await _figures(call, [call.vhost])
    return in_json(call.chosen(columns.row(figures)))


def _name(figures: VHostFigures) -> str:
    return figures.vhost.name


def _wants_statistics(call: Call) -> bool:
    return not call.flag("disable_stats")


async def _figures(call: Call, vhosts: Iterable[VHost]) -> list[VHostFigures]:
    """Virtual hosts with the messages of their queues, where those are wanted: counting looks at each queue."""
    wanted = call.list_query().columns
    counted = _wants_statistics(call) and (not wanted or any(name.startswith("messages") for name in wanted))
    return [await _counted(vhost) if counted else VHostFigures(vhost) for vhost in vhosts]


async def _counted(vhost: VHost) -> VHostFigures:
    ready = unacked = 0
    async for queue in in_steps(list(vhost.queues.values()), at_once=AT_ONCE):
        ready += queue.ready
        unacked += queue.unacked
    return VHostFigures(vhost, ready, unacked)


async def put_vhost(call: Call) -> Response:
    """Make a virtual host in which the user may do everything, or describe the one that is there."""
    fields, name = await call.fields(), call.names["vhost"]
    given = {key: fields.values.get(key) for key in ("description", "tags")}
    queue_type = fields.values.get("default_queue_type", fields.values.get("defaultqueuetype"))
    tracing = None if fields.values.get("tracing") is None else fields.flag("tracing")
    existed = name in call.broker.vhosts
    await call.change(
        "put_vhost",
        name=name,
        **given,
        default_queue_type=None if queue_type == UNDEFINED else queue_type,
        tracing=tracing,
        user=call.account.name,
    )
    return empty(204 if existed else 201)


async def delete_vhost(call: Call) -> Response:
    """Delete a virtual host with all that is in it; its clients are sent away."""
    await call.change("delete_vhost", name=call.names["vhost"])
    return empty(204)


async def start_vhost(call: Call) -> Response:
    """Start a virtual host on the node where it always runs."""
    node, vhost = call.names["node"], call.names["vhost"]
    if node != call.api.settings.node:
        raise bad_request(f"Request to node {node} failed with nodedown")
    if vhost not in call.broker.vhosts:
        raise bad_request(f'Request to node {node} failed with {{no_such_vhost,<<"{vhost}">>}}')
    return empty(204)


RESOURCES: list[Resource] = [
    resource("/api/vhosts", GET=(Tag.ANY, list_vhosts)),
    resource(
        "/api/vhosts/{vhost}",
        GET=(Tag.ADMINISTRATOR, show_vhost),
        PUT=(Tag.ADMINISTRATOR, put_vhost),
        DELETE=(Tag.ADMINISTRATOR, delete_vhost),
    ),
    resource("/api/vhosts/{vhost}/start/{node}", POST=(Tag.ADMINISTRATOR, start_vhost)),
]
