"""All routes of the API. Of two that fit a path the first one is taken."""

from __future__ import annotations

from broker.management.resources import Resource
from broker.management.routes import event_log_routes, node_routes

RESOURCES: list[Resource] = [
    *node_routes.RESOURCES,
    *event_log_routes.RESOURCES,
]
