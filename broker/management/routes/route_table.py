"""All routes of the API. The first one that matches a path is taken."""

from __future__ import annotations

from broker.entities.arguments.personality import Series
from broker.management.resources import Resource
from broker.management.routes import (
    binding_routes,
    connection_routes,
    consumer_routes,
    event_log_routes,
    exchange_routes,
    leveret_routes,
    message_routes,
    overview_routes,
    queue_routes,
    rehearsal_routes,
    replica_routes,
    stream_offset_routes,
    testing_routes,
)
from broker.management.routes.administration import (
    backup_routes,
    definitions_routes,
    feature_routes,
    health_routes,
    limit_routes,
    login_routes,
    node_action_routes,
    parameter_routes,
    permission_routes,
    policy_routes,
    shovel_routes,
    user_routes,
    vhost_routes,
)

_RESOURCES: list[Resource] = [
    *overview_routes.RESOURCES,
    *connection_routes.RESOURCES,
    *queue_routes.RESOURCES,
    *replica_routes.RESOURCES,
    *exchange_routes.RESOURCES,
    *binding_routes.RESOURCES,
    *consumer_routes.RESOURCES,
    *message_routes.RESOURCES,
    *event_log_routes.RESOURCES,
    *definitions_routes.RESOURCES,
    *feature_routes.RESOURCES,
    *health_routes.RESOURCES,
    *limit_routes.RESOURCES,
    *login_routes.RESOURCES,
    *node_action_routes.RESOURCES,
    *parameter_routes.RESOURCES,
    *permission_routes.RESOURCES,
    *policy_routes.RESOURCES,
    *shovel_routes.RESOURCES,
    *user_routes.RESOURCES,
    *vhost_routes.RESOURCES,
    *leveret_routes.RESOURCES,
    *backup_routes.RESOURCES,
    *stream_offset_routes.RESOURCES,
    *rehearsal_routes.RESOURCES,
    *testing_routes.RESOURCES,
]


def resources_of(series: Series) -> list[Resource]:
    """Return the routes that a series of RabbitMQ has, and Leveret's own."""
    found = [each for each in _RESOURCES if each.since <= series < each.until]
    return found if series >= (4, 0) else [each._replace(headless=False) for each in found]
