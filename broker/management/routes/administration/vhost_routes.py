"""Virtual hosts: list, show, put, delete."""

from __future__ import annotations

from starlette.responses import Response

from broker.admin.commands.vhost_admin import DeleteVhost, PutVhost, UpdateVhost
from broker.admin.kinds.vhost_kind import put_queue_type
from broker.admin.short_steps import AT_ONCE, in_steps
from broker.admin.views.columns import Columns
from broker.entities.vhosts.vhost import VHost
from broker.management.access import Tag
from broker.management.api_call import ApiCall
from broker.management.list_query import ListQuery, list_response
from broker.management.resources import Resource, resource
from broker.management.responses import VARY_OF_ONE_TYPE, Problem, bad_request, empty, in_json, not_found
from broker.management.rows.vhost_rows import QueueTotals, brief_vhost_rows, vhost_rows


async def list_vhosts(call: ApiCall) -> Response:
    """List the virtual hosts that the user may list. RabbitMQ 4.3 shows all columns."""
    listed = [vhost for name, vhost in sorted(call.broker.vhosts.items()) if call.account.lists(name)]
    query = call.list_query(paged=True)
    if call.api.series >= (4, 3):
        query = query._replace(columns=())
    return await list_response(listed, await _columns(call, listed, query), query, _name)


async def show_vhost(call: ApiCall) -> Response:
    """Show a virtual host."""
    vhost = call.vhost
    columns = await _columns(call, [vhost], call.list_query())
    return in_json(call.chosen(columns.row(vhost)))


def _name(vhost: VHost) -> str:
    return vhost.name


async def _columns(call: ApiCall, vhosts: list[VHost], query: ListQuery) -> Columns[VHost]:
    """The columns of these virtual hosts. Messages are counted queue by queue, if they are wanted."""
    if call.flag("disable_stats"):
        return brief_vhost_rows(call.api.settings.node, call.broker.personality)
    wanted = not query.columns or any(name.startswith("messages") for name in (*query.columns, query.sort))
    totals = {vhost: await _counted(vhost) if wanted else QueueTotals() for vhost in vhosts}
    return vhost_rows(call.api.settings.node, call.broker.personality, call.history_query, totals)


async def _counted(vhost: VHost) -> QueueTotals:
    ready = unacked = 0
    async for queue in in_steps(list(vhost.queues.values()), at_once=AT_ONCE):
        ready += queue.ready
        unacked += queue.unacked
    return QueueTotals(ready, unacked)


async def put_vhost(call: ApiCall) -> Response:
    """Create a virtual host, with all permissions for the user, or change the one that exists."""
    fields, name = await call.fields(), call.names["vhost"]
    queue_type = fields.values.get("default_queue_type", fields.values.get("defaultqueuetype"))
    tracing = None if fields.values.get("tracing") is None else fields.flag("tracing")
    existed = name in call.broker.vhosts
    await call.change(
        PutVhost.parse(
            {
                **fields.values,
                "name": name,
                "default_queue_type": put_queue_type(call.broker, queue_type),
                "tracing": tracing,
                "user": call.account.name,
            }
        )
    )
    return empty(204 if existed else 201)


async def delete_vhost(call: ApiCall) -> Response:
    """Delete a virtual host with all its contents, and close its connections."""
    await call.change(DeleteVhost(name=call.names["vhost"]))
    return empty(204)


async def show_protection(call: ApiCall) -> Response:
    """Refuse to show it by itself: a virtual host's row has it. RabbitMQ names the method, and crashes."""
    raise Problem(405)


async def protect_vhost(call: ApiCall) -> Response:
    """Protect a virtual host from deletion."""
    return await _protected(call, on=True)


async def unprotect_vhost(call: ApiCall) -> Response:
    """Let a virtual host be deleted again."""
    return await _protected(call, on=False)


async def _protected(call: ApiCall, *, on: bool) -> Response:
    if call.names["vhost"] not in call.broker.vhosts:
        reason = f"Cannot enable deletion protection of virtual host '{call.names['vhost']}' because it does not exist"
        raise Problem(404, "not_found", reason) if on else not_found()
    await call.change(UpdateVhost(name=call.names["vhost"], protected_from_deletion=on))
    return empty(204)


async def start_vhost(call: ApiCall) -> Response:
    """Start a virtual host: all of them run on this node already."""
    node, vhost = call.names["node"], call.names["vhost"]
    if node != call.api.settings.node:
        of_4 = call.api.series >= (4, 0)
        raise bad_request(f"Unknown node: {node}" if of_4 else f"Request to node {node} failed with nodedown")
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
    resource(
        "/api/vhosts/{vhost}/deletion/protection",
        since=(4, 0),
        vary=VARY_OF_ONE_TYPE,
        headless=True,
        GET=(Tag.ADMINISTRATOR, show_protection),
        POST=(Tag.ADMINISTRATOR, protect_vhost),
        DELETE=(Tag.ADMINISTRATOR, unprotect_vhost),
    ),
    resource("/api/vhosts/{vhost}/start/{node}", vary=VARY_OF_ONE_TYPE, POST=(Tag.ADMINISTRATOR, start_vhost)),
]
