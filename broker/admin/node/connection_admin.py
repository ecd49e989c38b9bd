"""Connections: sent away one by one or many at a time, with 320 CONNECTION_FORCED and a reason."""

from __future__ import annotations

from itertools import islice

from broker.admin.administration import Administration
from broker.admin.command_arguments import Arguments
from broker.admin.protocol import not_found


async def close_connection(administration: Administration, arguments: Arguments) -> None:
    """Close the connection of a name or a pid. Raises AdministrationError `not_found`."""
    name, reason = arguments.text("name"), arguments.text("reason")
    node, connections = administration.node, administration.registry.network_connections
    found = [connection for connection in connections if name in (str(connection.peer), node.pid(connection.number))]
    if not found:
        raise not_found(f"no connection '{name}'")
    for connection in found:
        connection.force_close(reason)


async def close_connections(administration: Administration, arguments: Arguments) -> dict[str, int]:
    """Close connections: of a virtual host, of a user, or all; no more than `limit`, if there is one. Their number."""
    vhost, user, reason = arguments.optional("vhost"), arguments.optional("user"), arguments.text("reason")
    wanted = (
        connection
        for connection in administration.registry.network_connections
        if vhost in (None, connection.vhost_name) and user in (None, connection.user)
    )
    limit = int(arguments.number("limit")) if arguments.given("limit") else None
    chosen = list(islice(wanted, limit))
    for connection in chosen:
        connection.force_close(reason)
    return {"closed": len(chosen)}
