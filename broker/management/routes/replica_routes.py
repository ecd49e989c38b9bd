"""Replicas of quorum queues, by the routes of RabbitMQ 3.13: each queue has one, on this node."""

from __future__ import annotations

from starlette.responses import Response

from broker.entities.arguments.queue_types import QUORUM
from broker.management.access import Tag
from broker.management.api_call import ApiCall
from broker.management.resources import Resource, resource
from broker.management.responses import VARY_OF_ONE_TYPE, Problem, bad_request, empty, in_json, not_found
from broker.management.routes.administration.health_routes import failed
from broker.management.routes.queue_routes import queue_of

MACHINE_VERSION = 8
"""The version of quorum queues in RabbitMQ 4.3."""
STRATEGIES = ("all", "even")


async def add_replica(call: ApiCall) -> Response:
    """Add a replica: nothing to do, the only node has one."""
    await _check_member(call)
    return empty(204)


async def remove_replica(call: ApiCall) -> Response:
    """Refuse to remove the only replica."""
    if call.api.series >= (4, 0):
        queue_of(call)
    await _check_member(call)
    raise _unavailable("last_node")


async def _check_member(call: ApiCall) -> None:
    """Raise Problem unless the request is for a quorum queue and this node."""
    fields = await call.fields()
    if call.api.series >= (4, 0):
        fields.require("node")
        if fields.text("node") != call.api.settings.node:
            raise bad_request("Node is not a cluster member")
    queue = queue_of(call)
    fields.require("node")
    if queue.type is not QUORUM:
        raise _unavailable(f"{queue.type.name}_queue_not_supported")
    if fields.text("node") != call.api.settings.node:
        raise _unavailable("node_not_running")


def _unavailable(reason: str) -> Problem:
    return Problem(503, "service_unavailable", reason)


async def grow(call: ApiCall) -> Response:
    """Add replicas of many queues on a node: nothing to do, this node has all of them."""
    _check_node(call)
    fields = await call.fields()
    fields.require("vhost_pattern", "queue_pattern", "strategy")
    if fields.values["strategy"] not in STRATEGIES:
        raise bad_request(["unknown", fields.values["strategy"]])
    return empty(204)


async def shrink(call: ApiCall) -> Response:
    """Remove the replicas of all queues from a node: the only one of each queue stays, as in RabbitMQ."""
    _check_node(call)
    return empty(202)


async def show_status(call: ApiCall) -> Response:
    """Show the members of a quorum queue: the only one leads. There is no log to be behind in."""
    queue = queue_of(call)
    if queue.type is not QUORUM:
        return failed(f"{queue.type.name}_queue_not_supported")
    member = {"Node Name": call.api.settings.node, "Raft State": "leader", "Membership": "voter"}
    written = dict.fromkeys(
        ("Last Log Index", "Last Written", "Last Applied", "Commit Index"), queue.store.state.messages
    )
    return in_json([{**member, **written, "Snapshot Index": -1, "Term": 1, "Machine Version": MACHINE_VERSION}])


def _check_node(call: ApiCall) -> None:
    if call.names["node"] != call.api.settings.node:
        raise not_found()


_OF_QUEUE = "/api/queues/quorum/{vhost}/{queue}/replicas"
_ON_NODE = "/api/queues/quorum/replicas/on/{node}"

RESOURCES: list[Resource] = [
    resource(
        "/api/queues/quorum/{vhost}/{queue}/status",
        in_vhost=True,
        headless=True,
        GET=(Tag.ANY, show_status),
        since=(4, 0),
    ),
    resource(f"{_OF_QUEUE}/add", in_vhost=True, vary=VARY_OF_ONE_TYPE, POST=(Tag.ADMINISTRATOR, add_replica)),
    resource(f"{_OF_QUEUE}/delete", in_vhost=True, vary=VARY_OF_ONE_TYPE, DELETE=(Tag.ADMINISTRATOR, remove_replica)),
    resource(f"{_ON_NODE}/grow", vary=VARY_OF_ONE_TYPE, POST=(Tag.ADMINISTRATOR, grow)),
    resource(f"{_ON_NODE}/shrink", vary=VARY_OF_ONE_TYPE, DELETE=(Tag.ADMINISTRATOR, shrink)),
]
