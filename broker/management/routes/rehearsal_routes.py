"""The rehearsal of a later series of RabbitMQ: what it would do differently for the clients so far."""

from __future__ import annotations

from starlette.responses import Response

from broker.management.access import Tag
from broker.management.api_call import ApiCall
from broker.management.resources import Resource, resource
from broker.management.responses import empty, in_json


async def show_findings(call: ApiCall) -> Response:
    """Show findings and closures; none while the setting `rehearsal.watch` is empty."""
    watch, own = call.broker.watch, call.broker.personality.series_name
    if watch is None:
        return in_json({"series": own, "watch": "", "findings": [], "closures": [], "missed": 0})
    shown = {
        "series": own,
        "watch": watch.target.series_name,
        "findings": [finding.shown() for finding in watch.findings()],
        "closures": list(watch.closures()),
        "missed": watch.missed,
    }
    return in_json(shown)


async def forget_findings(call: ApiCall) -> Response:
    """Delete findings and closures."""
    if call.broker.watch is not None:
        call.broker.watch.clear()
    return empty(204)


RESOURCES: list[Resource] = [
    resource(
        "/api/rehearsal",
        GET=(Tag.MONITORING, show_findings),
        DELETE=(Tag.ADMINISTRATOR, forget_findings),
    ),
]
