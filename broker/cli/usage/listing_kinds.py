"""Kinds of things that `leveret list` shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from broker.admin.commands.admin_command import ListCommand, VhostList
from broker.admin.commands.connection_admin import ListChannels, ListConnections
from broker.admin.commands.feature_flags import ListFeatureFlags
from broker.admin.commands.node_admin import ListAlarms, ListCertificates, ListListeners
from broker.admin.commands.parameter_admin import ListGlobalParameters, ListParameters
from broker.admin.commands.permission_admin import ListPermissions, ListTopicPermissions
from broker.admin.commands.policy_admin import ListOperatorPolicies, ListPolicies
from broker.admin.commands.queue_admin import ListBindings, ListConsumers, ListExchanges, ListQueues
from broker.admin.commands.shovel_admin import ListShovels
from broker.admin.commands.user_admin import ListUsers
from broker.admin.commands.vhost_admin import ListVhosts
from broker.credentials import without_credentials


class ListingKind(NamedTuple):
    """A kind of thing that can be listed: the command that answers with rows, and the columns shown by default."""

    command: type[ListCommand]
    columns: tuple[str, ...]
    running_only: bool = False
    secret: bool = False
    """Values may have credentials, which are not shown."""

    def rows(
        self, carry_out: Callable[[ListCommand], Any], columns: Sequence[str], vhost: str | None = None
    ) -> list[dict[str, Any]]:
        """Return what `carry_out` answers, as it may be shown: the columns, all if none is named, of a virtual host."""
        command = self.command(columns=list(columns) or None)
        if isinstance(command, VhostList):
            command.vhost = vhost
        found: list[dict[str, Any]] = carry_out(command)
        return without_credentials(found) if self.secret else found


LISTINGS = {
    "queues": ListingKind(
        ListQueues, ("vhost", "name", "messages_ready", "messages_unacknowledged", "messages", "consumers")
    ),
    "exchanges": ListingKind(ListExchanges, ("vhost", "name", "type")),
    "bindings": ListingKind(ListBindings, ("vhost", "source", "destination", "destination_type", "routing_key")),
    "connections": ListingKind(ListConnections, ("name", "user", "vhost", "state", "channels"), running_only=True),
    "channels": ListingKind(
        ListChannels,
        ("name", "user", "vhost", "consumer_count", "messages_unacknowledged", "prefetch_count"),
        running_only=True,
    ),
    "consumers": ListingKind(
        ListConsumers,
        ("vhost", "queue", "consumer_tag", "channel", "ack_required", "prefetch_count"),
        running_only=True,
    ),
    "users": ListingKind(ListUsers, ("name", "tags")),
    "vhosts": ListingKind(ListVhosts, ("name",)),
    "permissions": ListingKind(ListPermissions, ("vhost", "user", "configure", "write", "read")),
    "policies": ListingKind(ListPolicies, ("vhost", "name", "pattern", "apply-to", "definition", "priority")),
    "operator-policies": ListingKind(
        ListOperatorPolicies, ("vhost", "name", "pattern", "apply-to", "definition", "priority")
    ),
    "parameters": ListingKind(ListParameters, ("vhost", "component", "name", "value"), secret=True),
    "global-parameters": ListingKind(ListGlobalParameters, ("name", "value"), secret=True),
    "topic-permissions": ListingKind(ListTopicPermissions, ("vhost", "user", "exchange", "write", "read")),
    "listeners": ListingKind(ListListeners, ("interface", "port", "protocol", "purpose"), running_only=True),
    "alarms": ListingKind(ListAlarms, ("node", "resource"), running_only=True),
    "certificates": ListingKind(ListCertificates, ("file", "subject", "until"), running_only=True),
    "shovels": ListingKind(ListShovels, ("vhost", "name", "type", "state", "src_uri", "dest_uri"), running_only=True),
    "feature-flags": ListingKind(ListFeatureFlags, ("name", "state", "desc")),
}
