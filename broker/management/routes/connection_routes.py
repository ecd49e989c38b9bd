"""Connections and channels: those of all users for monitors, their own for others."""

from __future__ import annotations

import re
from collections.abc import Iterable

from starlette.responses import Response

from broker.admin.views.columns import Columns
from broker.admin.views.connection_view import channel_name, connection_name
from broker.management.access import NOT_THE_OBJECT, Tag, denied
from broker.management.api_call import ApiCall
from broker.management.list_query import list_response
from broker.management.resources import Resource, resource
from broker.management.responses import bad_request, empty, in_json, not_found
from broker.management.rows.channel_rows import channel_order, channel_rows
from broker.management.rows.connection_rows import brief_connection_rows, connection_order, connection_rows
from broker.session.channel.channel import Channel
from broker.session.connection import Connection

CLOSED = "Closed via management plugin"
"""The reason that clients are sent if the request has none."""
_PEER_PORT = re.compile(":([0-9]{1,5}) -> ")


# Connections


async def list_connections(call: ApiCall) -> Response:
    """List open connections, of all virtual hosts or of one."""
    columns = brief_connection_rows(call.api.settings.node) if call.flag("disable_stats") else _columns(call)
    return await _connections(call, _seen(call, _open(call)), columns, paged="vhost" not in call.names)


async def list_connections_of_user(call: ApiCall) -> Response:
    """List the connections of a user by their names. In RabbitMQ 4 a user may list its own."""
    if not (call.account.monitors or call.names["user"] == call.account.name):
        raise denied(call.account.name, NOT_THE_OBJECT)
    of_user = [connection for connection in _open(call) if connection.user == call.names["user"]]
    return await _connections(call, _seen(call, of_user), brief_connection_rows(call.api.settings.node), paged=False)


async def show_connection(call: ApiCall) -> Response:
    """Show a connection."""
    connection = _connection(call)
    if not (call.account.monitors or connection.user == call.account.name):
        raise denied(call.account.name, NOT_THE_OBJECT)
    return in_json(_columns(call, single=True).row(connection, call.list_query().columns))


async def close_connection(call: ApiCall) -> Response:
    """Close a connection. The client is sent the reason in the header X-Reason."""
    connection = _connection(call)
    if not (call.account.administrates or connection.user == call.account.name):
        raise denied(call.account.name, NOT_THE_OBJECT)
    return _closed(call, [connection])


async def close_connections_of_user(call: ApiCall) -> Response:
    """Close all connections of a user. In RabbitMQ 4 a user may close its own."""
    if not (call.account.administrates or call.names["user"] == call.account.name):
        raise denied(call.account.name, NOT_THE_OBJECT)
    return _closed(call, [connection for connection in _open(call) if connection.user == call.names["user"]])


def _closed(call: ApiCall, connections: Iterable[Connection]) -> Response:
    reason = call.request.headers.get("x-reason") or CLOSED
    for connection in connections:
        connection.force_close(reason)
    call.api.administration.end_turn()
    return empty(204)


def _columns(call: ApiCall, *, single: bool = False) -> Columns[Connection]:
    return connection_rows(call.api.settings.node, call.history_query, call.api.series, single=single)


def _open(call: ApiCall) -> list[Connection]:
    """Connections that have opened the virtual host of the path, or any. Raises Problem 404."""
    of_all = (connection for connection in call.api.registry.network_connections if connection.vhost_name)
    if "vhost" not in call.names:
        return list(of_all)
    vhost = call.vhost
    return [connection for connection in of_all if connection.vhost is vhost]


def _seen(call: ApiCall, connections: list[Connection]) -> list[Connection]:
    """The connections that the user may see."""
    if call.account.monitors:
        return connections
    return [connection for connection in connections if connection.user == call.account.name]


def _connection(call: ApiCall) -> Connection:
    """The connection that the path names. Raises Problem 404."""
    name = call.names["name"]
    port = _PEER_PORT.search(name)
    for connection in _open(call):
        if port and connection.peer.port == int(port[1]) and connection_name(connection) == name:
            return connection
    raise not_found()


async def _connections(
    call: ApiCall, connections: list[Connection], columns: Columns[Connection], *, paged: bool
) -> Response:
    query = call.list_query(paged=paged)
    return await list_response(connections, columns, query, connection_name, connection_order)


# Channels


async def list_channels(call: ApiCall) -> Response:
    """List channels, of all virtual hosts or of one."""
    return await _channels(call, _seen(call, _open(call)), paged="vhost" not in call.names)


async def list_channels_of_connection(call: ApiCall) -> Response:
    """List the channels of a connection."""
    connection = _connection(call)
    if not (call.account.monitors or connection.user == call.account.name):
        raise denied(call.account.name, NOT_THE_OBJECT)
    return await _channels(call, [connection], paged=False)


async def show_channel(call: ApiCall) -> Response:
    """Show a channel with its consumers."""
    _assert_statistics(call)
    name = call.names["name"]
    port = _PEER_PORT.search(name)
    for connection in _open(call):
        if port and connection.peer.port == int(port[1]):
            for channel in connection.channels.values():
                if channel_name(channel) == name:
                    return _shown(call, channel)
    raise not_found()


async def list_sessions(call: ApiCall) -> Response:
    """Refuse: a connection of AMQP 0-9-1 has no sessions."""
    _connection(call)
    raise bad_request("connection does not use AMQP 1.0")


def _shown(call: ApiCall, channel: Channel) -> Response:
    if not (call.account.monitors or channel.connection.user == call.account.name):
        raise denied(call.account.name, NOT_THE_OBJECT)
    return in_json(_channel_columns(call, single=True).row(channel, call.list_query().columns))


async def _channels(call: ApiCall, connections: list[Connection], *, paged: bool) -> Response:
    _assert_statistics(call)
    channels = [channel for connection in connections for channel in connection.channels.values()]
    return await list_response(
        channels, _channel_columns(call), call.list_query(paged=paged), channel_name, channel_order
    )


def _channel_columns(call: ApiCall, *, single: bool = False) -> Columns[Channel]:
    return channel_rows(call.api.settings.node, call.history_query, call.api.series, single=single)


def _assert_statistics(call: ApiCall) -> None:
    """Raise Problem 400 for disable_stats: RabbitMQ shows channels only from statistics."""
    if call.flag("disable_stats"):
        raise bad_request("Stats in management UI are disabled on this node")


RESOURCES: list[Resource] = [
    resource("/api/connections", GET=(Tag.ANY, list_connections)),
    resource(
        "/api/connections/username/{user}",
        GET=(Tag.MONITORING, list_connections_of_user),
        DELETE=(Tag.ADMINISTRATOR, close_connections_of_user),
        until=(4, 0),
    ),
    resource(
        "/api/connections/username/{user}",
        GET=(Tag.ANY, list_connections_of_user),
        DELETE=(Tag.ANY, close_connections_of_user),
        since=(4, 0),
    ),
    resource("/api/connections/{name}", GET=(Tag.ANY, show_connection), DELETE=(Tag.ANY, close_connection)),
    resource("/api/connections/{name}/sessions", GET=(Tag.ANY, list_sessions), since=(4, 1)),
    resource("/api/connections/{name}/channels", GET=(Tag.ANY, list_channels_of_connection)),
    resource("/api/vhosts/{vhost}/connections", GET=(Tag.ANY, list_connections), in_vhost=True),
    resource("/api/channels", GET=(Tag.ANY, list_channels)),
    resource("/api/channels/{name}", GET=(Tag.ANY, show_channel)),
    resource("/api/vhosts/{vhost}/channels", GET=(Tag.ANY, list_channels), in_vhost=True),
]
