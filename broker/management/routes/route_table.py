"""All routes of the API. Of two that fit a path the first one is taken."""

from __future__ import annotations

from broker.management.resources import Resource
from broker.management.routes import (
    binding_routes,
    connection_routes,
    consumer_routes,
    event_log_routes,
    exchange_routes,
    leveret_routes,
    message_routes,
    node_routes,
    overview_routes,
    queue_routes,
    replica_routes,
    testing_routes,
)
from broker.management.routes.administration import administration_table

RESOURCES: list[Resource] = [
    *node_routes.RESOURCES,
    *overview_routes.RESOURCES,
    *connection_routes.RESOURCES,
    *queue_routes.RESOURCES,
    *replica_routes.RESOURCES,
    *exchange_routes.RESOURCES,
    *binding_routes.RESOURCES,
    *consumer_routes.RESOURCES,
    *message_routes.RESOURCES,
    *event_log_routes.RESOURCES,
    *administration_table.RESOURCES,
    *leveret_routes.RESOURCES,
    *testing_routes.RESOURCES,
]
