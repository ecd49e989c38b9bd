"""What RabbitMQ's operators ask of a node: balance queues, forget statistics, show the settings in force."""

from __future__ import annotations

from starlette.responses import PlainTextResponse, Response

from broker.admin.json_terms import settings_text
from broker.management.access import Tag
from broker.management.api_call import ApiCall
from broker.management.resources import TEXT_RANGES, Resource, resource
from broker.management.responses import SECURITY, empty, not_found


async def rebalance_queues(call: ApiCall) -> Response:
    """Spread queues over the nodes. On one node they are where they belong."""
    return empty(204)


async def forget_samples(call: ApiCall) -> Response:
    """Drop what was collected for charts. Counters go on, as in RabbitMQ: they count since the start."""
    if call.names.get("node", call.api.settings.node) != call.api.settings.node:
        raise not_found()
    return empty(204)


async def show_settings(call: ApiCall) -> Response:
    """The settings that the broker runs with, without secrets: as a text, in Erlang's notation."""
    settings = call.api.administration.process.settings()
    return PlainTextResponse(f"{settings_text(settings)}\n", headers={**SECURITY, "vary": "accept-encoding, origin"})


RESOURCES: list[Resource] = [
    resource("/api/config/effective", ranges=TEXT_RANGES, GET=(Tag.ADMINISTRATOR, show_settings)),
    *(resource(path, DELETE=(Tag.ADMINISTRATOR, forget_samples)) for path in ("/api/reset", "/api/reset/{node}")),
    resource("/api/rebalance/queues", POST=(Tag.ADMINISTRATOR, rebalance_queues)),
]
