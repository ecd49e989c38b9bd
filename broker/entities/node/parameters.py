"""Runtime parameters: JSON values that an operator keeps under a name, for a virtual host or for the whole broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

CLUSTER_NAME = "cluster_name"
CLUSTER_ID = "internal_cluster_id"
"""Parameters of the whole broker that have a meaning: what it is called, and what it is known by for ever."""
POLICY, OPERATOR_POLICY, VHOST_LIMITS = "policy", "operator_policy", "vhost-limits"
"""Components of parameters under which RabbitMQ knows policies and limits."""
SHOVEL = "shovel"
"""The component of dynamic shovels."""
LIMITS = "limits"
"""The one name that a parameter with limits has."""


class Parameters:
    """All parameters but policies and limits, which are kept where they hold."""

    def __init__(self) -> None:
        self.of_vhosts: dict[tuple[str, str, str], Any] = {}
        """By virtual host, component and name."""
        self.everywhere: dict[str, Any] = {}
        """Those of the whole broker, by name."""
        self.on_shovel: Callable[[str, str], None] | None = None
        """Called with virtual host and name when a shovel is set or removed, after it is."""

    def put(self, vhost: str, component: str, name: str, value: Any) -> None:
        """Set a parameter of a virtual host."""
        self.of_vhosts[vhost, component, name] = value
        self._changed(vhost, component, name)

    def discard(self, vhost: str, component: str, name: str) -> None:
        """Remove a parameter of a virtual host, if it is there."""
        self.of_vhosts.pop((vhost, component, name), None)
        self._changed(vhost, component, name)

    def _changed(self, vhost: str, component: str, name: str) -> None:
        if component == SHOVEL and self.on_shovel is not None:
            self.on_shovel(vhost, name)

    @property
    def cluster_name(self) -> str:
        """What an operator calls the broker; empty if nothing else than the settings do."""
        name = self.everywhere.get(CLUSTER_NAME)
        return name if isinstance(name, str) else ""

    def forget_vhost(self, vhost: str) -> None:
        """Remove a virtual host's parameters."""
        for key in [key for key in self.of_vhosts if key[0] == vhost]:
            self.discard(*key)
