"""Queues: list, show, declare, delete, purge."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from starlette.responses import Response

from broker.admin.short_steps import AT_ONCE, in_steps
from broker.admin.views.columns import Columns
from broker.entities.queues.queue import Queue
from broker.entities.queues.quorum.quorum_queue import QuorumQueue
from broker.entities.rehearsal.rehearsal_rules import LIMIT_SHOWN
from broker.entities.rehearsal.rehearsal_watch import RehearsalWatch
from broker.management.access import Tag
from broker.management.api_call import ApiCall
from broker.management.json_bodies import BodyFields
from broker.management.list_query import ListQuery, list_response
from broker.management.resources import Resource, resource
from broker.management.responses import VARY_OF_ONE_TYPE, Problem, bad_request, empty, in_json, not_found
from broker.management.rows.consumer_rows import channel_details, consumer_rows
from broker.management.rows.queue_rows import (
    QueueRows,
    owner,
    queue_name,
    queue_order,
    queue_rows,
    queue_rows_without_statistics,
)
from broker.management.statistics import pair_stats
from broker.session.direct_session import Refused
from broker.session.methods import deprecated_features
from broker.wire import methods
from broker.wire.constants import ReplyCode

ACTIONS = ("sync", "cancel_sync")
"""Actions of RabbitMQ 3 on mirrored queues. With one node there is nothing to synchronize."""

SELECTIONS: dict[str, Callable[[Queue], bool]] = {
    "filled": lambda queue: queue.messages > 0,
    "unacknowledged": lambda queue: queue.unacked > 0,
    "unconsumed": lambda queue: queue.messages > 0 and not queue.consumers,
}
"""Queues that a page of the list may be limited to."""


async def list_queues(call: ApiCall) -> Response:
    """List queues."""
    return await _listed(call, detailed=False)


async def list_queues_in_detail(call: ApiCall) -> Response:
    """List queues; in RabbitMQ 4 with the columns of single rows."""
    return await _listed(call, detailed=True)


async def _listed(call: ApiCall, *, detailed: bool) -> Response:
    query = _selected(call, call.list_query(paged=True))
    queues = [queue for vhost in call.vhosts() for queue in vhost.queues.values()]
    return await list_response(queues, _columns(call, single=detailed, listed=True), query, queue_name, queue_order)


def _selected(call: ApiCall, query: ListQuery) -> ListQuery:
    """The query with the selection that the parameter `only` names. Raises Problem 400."""
    only = call.parameters.get("only")
    if query.page is None or not only:
        return query
    if only not in SELECTIONS:
        raise bad_request(f"only is one of {', '.join(SELECTIONS)}")
    return query._replace(page=query.page._replace(keeps=SELECTIONS[only]))


async def list_queues_of_user(call: ApiCall) -> Response:
    """List the queues that a user declared, in all virtual hosts that the asking one sees; none for an unknown user."""
    vhosts, user = call.vhosts(), call.names["user"]
    every = (queue for vhost in vhosts for queue in list(vhost.queues.values()))
    queues = [queue async for queue in in_steps(every, at_once=AT_ONCE) if queue.spec.declared_by == user]
    return await list_response(queues, _columns(call), call.list_query(paged=True), queue_name, queue_order)


async def show_queue(call: ApiCall) -> Response:
    """Show a queue with its consumers."""
    queue = queue_of(call)
    if call.broker.watch is not None and isinstance(queue, QuorumQueue):
        _note_limit(call, call.broker.watch, queue)
    row = _columns(call, single=True).row(queue) | owner(queue)
    if not call.flag("disable_stats"):
        details = channel_details(call.api.settings.node)
        pairs = pair_stats.of_queue(call.history_query, call.api.registry, call.vhost, queue, details)
        row |= {"consumer_details": _consumers(call, queue), **pairs}
    return in_json(call.chosen(row))


def _note_limit(call: ApiCall, watch: RehearsalWatch, queue: QuorumQueue) -> None:
    """Note that a later series shows a delivery limit to a program; people see it on a page."""
    agent, then = call.agent, queue.rules._replace(personality=watch.target)
    if then.limit_shown and not queue.rules.limit_shown and "Mozilla" not in agent:
        shown = "unlimited" if then.limit is None else f"{then.limit:g}"
        client = f"HTTP client {agent or 'without a name'}"
        watch.note(LIMIT_SHOWN, queue.vhost_name, ("queue", queue.name), client, f"delivery_limit: {shown}")


def _consumers(call: ApiCall, queue: Queue) -> list[dict[str, Any]]:
    row = consumer_rows(call.api.settings.node).view()
    return [row(consumer) for consumer in queue.consumers.members]


def _columns(call: ApiCall, *, single: bool = False, listed: bool = False) -> Columns[Queue]:
    node, rows = call.api.settings.node, QueueRows(call.api.series, single, listed)
    if call.flag("disable_stats"):
        return queue_rows_without_statistics(node, rows, totals=call.flag("enable_queue_totals"))
    return queue_rows(node, call.history_query, rows)


def queue_of(call: ApiCall) -> Queue:
    """The queue that the path names. Raises Problem 404."""
    queue = call.vhost.queues.get(call.names["queue"])
    if queue is None:
        raise not_found()
    return queue


def assert_queue(call: ApiCall) -> None:
    """Raise Problem 404 as RabbitMQ 4 does for actions on the queue that the path names."""
    if call.names["queue"] not in call.vhost.queues:
        raise Problem(404, "not_found", "queue_not_found")


async def declare_queue(call: ApiCall) -> Response:
    """Declare a queue; answered when it is on disk."""
    fields, name = await call.fields(), call.short_name("queue")
    _check_node(call, fields)
    # A queue that is exclusive to a request would end with it: it becomes a transient one, as in RabbitMQ.
    durable = fields.flag("durable") and not fields.flag("exclusive")
    method = methods.QueueDeclare(
        name, fields.flag("passive"), durable, False, fields.flag("auto_delete"), False, fields.amqp_table("arguments")
    )
    async with call.session() as session:
        existed = name in call.vhost.queues
        try:
            await call.answered(session.ask(method))
        except Refused as refused:
            if refused.code == ReplyCode.INTERNAL_ERROR:
                _check_features(call, method)
            raise
    return empty(204 if existed else 201)


def _check_features(call: ApiCall, method: methods.QueueDeclare) -> None:
    """Raise Problem 400 with the whole text: a connection is sent the first 255 bytes of it."""
    personality = call.broker.personality
    try:
        deprecated_features.check_new_queue(personality, method.arguments, durable=method.durable, exclusive=False)
    except deprecated_features.NotPermitted as refused:
        raise bad_request(refused.text) from None


def _check_node(call: ApiCall, fields: BodyFields) -> None:
    node = fields.text("node", call.api.settings.node)
    if node != call.api.settings.node:
        of_4 = call.api.series >= (4, 0)
        raise bad_request(f"Node {node} " + ("is not a cluster member" if of_4 else "could not be contacted"))


async def delete_queue(call: ApiCall) -> Response:
    """Delete a queue; answered when that is on disk."""
    name = queue_of(call).name
    async with call.session() as session:
        await call.answered(
            session.ask(methods.QueueDelete(name, call.flag("if-unused"), call.flag("if-empty"), False))
        )
    return empty(204)


async def purge_queue(call: ApiCall) -> Response:
    """Delete the ready messages of a queue."""
    name = queue_of(call).name
    async with call.session() as session:
        await call.answered(session.ask(methods.QueuePurge(name, False)))
    return empty(204)


async def act_on_queue(call: ApiCall) -> Response:
    """Start or stop the synchronization of a mirrored queue: there is nothing to do. RabbitMQ 4 has no actions."""
    fields, of_4 = await call.fields(), call.api.series >= (4, 0)
    if of_4:
        assert_queue(call)
    queue_of(call)
    fields.require("action")
    if of_4 or fields.values["action"] not in ACTIONS:
        raise bad_request(["unknown", fields.values["action"]])
    return empty(204)


RESOURCES: list[Resource] = [
    resource("/api/queues", GET=(Tag.ANY, list_queues)),
    resource("/api/queues/detailed", GET=(Tag.ANY, list_queues_in_detail)),
    resource("/api/users/{user}/queues", GET=(Tag.ANY, list_queues_of_user), since=(4, 3)),
    resource("/api/queues/{vhost}", in_vhost=True, GET=(Tag.ANY, list_queues)),
    resource(
        "/api/queues/{vhost}/{queue}",
        in_vhost=True,
        GET=(Tag.ANY, show_queue),
        PUT=(Tag.ANY, declare_queue),
        DELETE=(Tag.ANY, delete_queue),
    ),
    resource(
        "/api/queues/{vhost}/{queue}/contents", in_vhost=True, vary=VARY_OF_ONE_TYPE, DELETE=(Tag.ANY, purge_queue)
    ),
    resource(
        "/api/queues/{vhost}/{queue}/actions",
        in_vhost=True,
        vary=VARY_OF_ONE_TYPE,
        POST=(Tag.ADMINISTRATOR, act_on_queue),
    ),
]
