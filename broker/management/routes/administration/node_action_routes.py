"""What RabbitMQ's operators ask of a node: balance queues, forget statistics, show the settings in force."""

from __future__ import annotations

from starlette.responses import Response

from broker.management.access import Tag
from broker.management.answers import empty, not_found
from broker.management.call import Call
from broker.management.resources import Resource, resource


async def rebalance_queues(call: Call) -> Response:
    """Spread queues over the nodes. On one node they are where they belong."""
    return empty(204)


async def forget_samples(call: Call) -> Response:
    """Drop what was collected for charts. Counters go on, as in RabbitMQ: they count since the start."""
    if call.names.get("node", call.api.settings.node) != call.api.settings.node:
        raise not_found()
    return empty(204)


RESOURCES: list[Resource] = [
    *(resource(path, DELETE=(Tag.ADMINISTRATOR, forget_samples)) for path in ("/api/reset", "/api/reset/{node}")),
    resource("/api/rebalance/queues", POST=(Tag.ADMINISTRATOR, rebalance_queues)),
]
