"""Connections and channels: listed; closed with 320 CONNECTION_FORCED and a reason; login attempts."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar

from broker.admin.commands.admin_command import AdminChange, AdminCommand, ListCommand, Question, RowList, Text
from broker.admin.commands.argument_values import number
from broker.admin.protocol import not_found

if TYPE_CHECKING:
    from broker.admin.administration import Administration
    from broker.admin.views.listing import View


class ListConnections(ListCommand):
    """List connections."""

    def view(self) -> View:
        from broker.admin.views.connection_view import CONNECTIONS

        return CONNECTIONS


class ListChannels(ListCommand):
    """List channels."""

    def view(self) -> View:
        from broker.admin.views.connection_view import CHANNELS

        return CHANNELS


class OpenAmqp(AdminCommand):
    """Speak AMQP on this socket after the answer, in a virtual host, as a client with these properties."""

    vhost: Text
    properties: object = None


class CloseConnection(AdminChange):
    """Close the connection with a name or a pid. Raises AdministrationError `not_found`."""

    log_words: ClassVar[str] = "connection {name} is closed: {reason}"
    name: Text
    reason: Text

    async def apply(self, administration: Administration) -> None:
        node, connections = administration.node, administration.registry.network_connections
        names = {connection: (str(connection.peer), node.pid(connection.number)) for connection in connections}
        found = [connection for connection in connections if self.name in names[connection]]
        if not found:
            raise not_found(f"no connection '{self.name}'")
        for connection in found:
            connection.force_close(self.reason)


class CloseConnections(AdminChange):
    """Close at most `limit` connections of a virtual host and of a user, or of all. Answers with their number."""

    log_words: ClassVar[str] = "connections are closed: {reason}"
    reason: Text
    vhost: Text | None = None
    user: Text | None = None
    limit: int | float | None = None

    async def apply(self, administration: Administration) -> dict[str, int]:
        wanted = (
            connection
            for connection in administration.registry.network_connections
            if self.vhost in (None, connection.vhost_name) and self.user in (None, connection.user)
        )
        chosen = list(islice(wanted, None if self.limit is None else int(number(self.limit, "limit"))))
        for connection in chosen:
            connection.force_close(self.reason)
        return {"closed": len(chosen)}


class ListAuthAttempts(RowList):
    """List the numbers of login attempts by protocol, without protocols that were not used."""

    row_columns: ClassVar[tuple[str, ...]] = (
        "protocol",
        "auth_attempts",
        "auth_attempts_failed",
        "auth_attempts_succeeded",
    )

    def rows(self, administration: Administration) -> list[dict[str, Any]]:
        return [
            {
                "protocol": protocol,
                "auth_attempts": logins.succeeded + logins.failed,
                "auth_attempts_failed": logins.failed,
                "auth_attempts_succeeded": logins.succeeded,
            }
            for protocol, logins in administration.broker.statistics.logins.items()
        ]


class ResetAuthAttempts(Question):
    """Set the numbers of login attempts to 0."""

    def answer(self, administration: Administration) -> None:
        for logins in administration.broker.statistics.logins.values():
            logins.reset()
