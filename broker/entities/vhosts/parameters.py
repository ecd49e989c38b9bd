"""Runtime parameters: JSON values that an operator keeps under a name, for a virtual host or for the whole broker."""

from __future__ import annotations

from typing import Any

CLUSTER_NAME = "cluster_name"
CLUSTER_ID = "internal_cluster_id"
"""Parameters of the whole broker that have a meaning: what it is called, and what it is known by for ever."""
POLICY, OPERATOR_POLICY, VHOST_LIMITS = "policy", "operator_policy", "vhost-limits"
"""Components of parameters under which RabbitMQ knows policies and limits."""
LIMITS = "limits"
"""The one name that a parameter with limits has."""


class Parameters:
    """All parameters but policies and limits, which are kept where they hold."""

    def __init__(self) -> None:
        self.of_vhosts: dict[tuple[str, str, str], Any] = {}
        """By virtual host, component and name."""
        self.everywhere: dict[str, Any] = {}
        """Those of the whole broker, by name."""

    @property
    def cluster_name(self) -> str:
        """What an operator calls the broker; empty if nothing else than the settings do."""
        name = self.everywhere.get(CLUSTER_NAME)
        return name if isinstance(name, str) else ""

    def forget_vhost(self, vhost: str) -> None:
        """Remove a virtual host's parameters."""
        self.of_vhosts = {key: value for key, value in self.of_vhosts.items() if key[0] != vhost}
