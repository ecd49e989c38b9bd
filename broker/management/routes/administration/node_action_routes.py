"""Rebalancing of queues, and the settings in force."""

from __future__ import annotations

from starlette.responses import PlainTextResponse, Response

from broker.admin.json_terms import settings_text
from broker.management.access import Tag
from broker.management.api_call import ApiCall
from broker.management.resources import TEXT_RANGES, Resource, resource
from broker.management.responses import SECURITY, VARY_OF_ONE_TYPE, empty


async def rebalance_queues(call: ApiCall) -> Response:
    """Rebalance queues over the nodes: with one node there is nothing to do."""
    return empty(204)


async def show_settings(call: ApiCall) -> Response:
    """Show the settings in force, without secrets, as text in Erlang's notation."""
    settings = call.api.administration.process.settings()
    return PlainTextResponse(f"{settings_text(settings)}\n", headers={**SECURITY, "vary": "accept-encoding, origin"})


RESOURCES: list[Resource] = [
    resource(
        "/api/config/effective", ranges=TEXT_RANGES, vary=VARY_OF_ONE_TYPE, GET=(Tag.ADMINISTRATOR, show_settings)
    ),
    resource("/api/rebalance/queues", vary=VARY_OF_ONE_TYPE, POST=(Tag.ADMINISTRATOR, rebalance_queues)),
]
