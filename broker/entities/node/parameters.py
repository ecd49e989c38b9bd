"""Runtime parameters: named JSON values set by an operator, for a virtual host or for the whole broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from broker.entities.arguments.personality import Series

CLUSTER_NAME = "cluster_name"
CLUSTER_ID = "internal_cluster_id"
CLUSTER_TAGS = "cluster_tags"
"""Global parameters with a meaning: the cluster's name, its permanent id, and its tags, which are none here."""
POLICY, OPERATOR_POLICY, VHOST_LIMITS = "policy", "operator_policy", "vhost-limits"
"""Components under which RabbitMQ has policies and limits."""
SHOVEL = "shovel"
"""The component of dynamic shovels."""
LIMITS = "limits"
"""The name of every vhost-limits parameter."""


class Parameters:
    """All parameters except policies and limits, which `PolicyApplication` and `UserLimits` have."""

    def __init__(self) -> None:
        self.of_vhosts: dict[tuple[str, str, str], Any] = {}
        """Values by virtual host, component and name."""
        self.everywhere: dict[str, Any] = {}
        """Global parameters by name."""
        self.on_shovel: Callable[[str, str], None] | None = None
        """Called with virtual host and name after a shovel was set or removed."""

    def put(self, vhost: str, component: str, name: str, value: Any) -> None:
        """Set a parameter of a virtual host."""
        self.of_vhosts[vhost, component, name] = value
        self._changed(vhost, component, name)

    def discard(self, vhost: str, component: str, name: str) -> None:
        """Remove a parameter of a virtual host, if it exists."""
        self.of_vhosts.pop((vhost, component, name), None)
        self._changed(vhost, component, name)

    def _changed(self, vhost: str, component: str, name: str) -> None:
        if component == SHOVEL and self.on_shovel is not None:
            self.on_shovel(vhost, name)

    def shown_everywhere(self, series: Series) -> dict[str, Any]:
        """Return the global parameters that lists show. Since RabbitMQ 4.0 there are always tags of the cluster."""
        tags: dict[str, Any] = {CLUSTER_TAGS: []} if series >= (4, 0) else {}
        return tags | self.everywhere

    @property
    def cluster_name(self) -> str:
        """The cluster name that an operator has set; empty if none."""
        name = self.everywhere.get(CLUSTER_NAME)
        return name if isinstance(name, str) else ""

    def forget_vhost(self, vhost: str) -> None:
        """Remove a virtual host's parameters."""
        for key in [key for key in self.of_vhosts if key[0] == vhost]:
            self.discard(*key)
