"""All routes of administration, in the order in which paths are tried."""

from __future__ import annotations

from broker.management.resources import Resource
from broker.management.routes.administration import (
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

RESOURCES: list[Resource] = [
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
]
