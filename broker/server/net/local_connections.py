"""Connections within the broker: socket pairs of which one end is served like a client's that has logged in.

So turns, gates, alarms and limits apply to them as to all clients.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from itertools import count
from typing import TYPE_CHECKING, Protocol

from broker.session import connection_event_messages
from broker.session.connection import enter
from broker.session.login.passwords import verify
from broker.session.peer import Peer
from broker.wire.field_tables import Table, from_python

if TYPE_CHECKING:
    from broker.client.link import Entered
    from broker.client.uris import AmqpEndpoint
    from broker.server.net.transport import Transport
    from broker.session.registry import Registry

TRUSTED = "none"
"""The user that RabbitMQ shows for a direct connection without one."""

_numbers = count(1)


class Host(Protocol):
    """The broker's clients as local connections see them."""

    registry: Registry

    def transport(self, sock: socket.socket, peer: Peer) -> Transport:
        """Return a transport for a socket without TLS."""

    def serve_transport(self, transport: Transport) -> None:
        """Serve a client until it has gone."""


def open_pair(host: Host, endpoint: AmqpEndpoint, properties: Mapping[str, object]) -> Entered:
    """Return a connection to a virtual host, as the URI's user or, if it has none, one that may do anything.

    Raises ClientError.
    """
    from broker.client.client_state import ClientError
    from broker.client.link import Entered

    refused = _refusal(host, endpoint)
    if refused:
        raise ClientError(refused)
    ours, theirs = socket.socketpair()
    for end in ours, theirs:
        end.setblocking(False)
    admit(host, ours, endpoint.vhost, endpoint.user, from_python(properties))
    return Entered(theirs, host.registry.settings.frame_max)


def admit(host: Host, sock: socket.socket, vhost: str, user: str | None, properties: Table) -> None:
    """Serve a non-blocking socket as an open connection: it begins with a frame, not with the protocol header."""
    transport = host.transport(sock, Peer("", next(_numbers), "", 0, loopback=True))
    connection = transport.connection
    connection.user = TRUSTED if user is None else user
    connection.frame_max = connection.settings.frame_max
    connection.channel_max = connection.settings.channel_max
    connection.opened(properties)
    enter(connection, host.registry.broker.vhosts[vhost], trusted=user is None)
    connection.registry.handshaking.pop(connection, None)
    connection_event_messages.connection_created(connection)
    host.serve_transport(transport)


def _refusal(host: Host, endpoint: AmqpEndpoint) -> str:
    """Return the reason for which a connection is refused; empty if it is not."""
    broker = host.registry.broker
    if endpoint.vhost not in broker.vhosts:
        return f"there is no virtual host '{endpoint.vhost}'"
    if endpoint.user is None:
        return ""
    user = broker.users.by_name.get(endpoint.user)
    password = endpoint.password
    right = user is not None and (
        password is None or verify(password.encode("utf-8"), user.password_hash, user.hashing_algorithm)
    )
    if not right or not broker.users.may_enter(endpoint.user, endpoint.vhost):
        return f"user '{endpoint.user}' may not connect to virtual host '{endpoint.vhost}'"
    return ""
