"""What is listed of connections and channels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from broker.admin.administration import Administration
from broker.admin.command_arguments import Arguments
from broker.admin.listing import Column, Listing
from broker.admin.listings.topology_listing import channel_name
from broker.entities.statistics.node_identity import NodeIdentity
from broker.session.connection import Connection
from broker.session.login import certificate_names
from broker.session.login.phase import Phase
from broker.wire.amqp_errors import DecodeError

STATES = {
    Phase.HEADER: "starting",
    Phase.START: "starting",
    Phase.TUNE: "tuning",
    Phase.OPENING: "opening",
    Phase.OPEN: "running",
    Phase.CLOSING: "closing",
}


class Client(NamedTuple):
    """A connection of this node, or a channel of one."""

    node: NodeIdentity
    it: Any


CONNECTION_COLUMNS: dict[str, Column] = {
    "name": lambda client: str(client.it.peer),
    "user": lambda client: client.it.user,
    "vhost": lambda client: client.it.vhost_name,
    "state": lambda client: "blocked" if client.it.blocked else STATES[client.it.phase],
    "channels": lambda client: len(client.it.channels),
    "peer_host": lambda client: client.it.peer.host,
    "peer_port": lambda client: client.it.peer.port,
    "host": lambda client: client.it.peer.local_host,
    "port": lambda client: client.it.peer.local_port,
    "protocol": lambda client: "AMQP 0-9-1",
    "ssl": lambda client: client.it.peer.secured is not None,
    "ssl_protocol": lambda client: getattr(client.it.peer.secured, "version", ""),
    "ssl_cipher": lambda client: getattr(client.it.peer.secured, "cipher", ""),
    "peer_cert_subject": lambda client: _subject(client.it),
    "timeout": lambda client: client.it.heartbeat,
    "frame_max": lambda client: client.it.frame_max,
    "channel_max": lambda client: client.it.channel_max,
    "client_properties": lambda client: client.it.client_properties,
    "pid": lambda client: client.node.pid(client.it.number),
    "send_pend": lambda client: client.it.output.pending,
}

CHANNEL_COLUMNS: dict[str, Column] = {
    "name": lambda client: channel_name(client.it),
    "connection": lambda client: str(client.it.connection.peer),
    "number": lambda client: client.it.number,
    "user": lambda client: client.it.connection.user,
    "vhost": lambda client: client.it.vhost.name,
    "consumer_count": lambda client: len(client.it.consumers),
    "messages_unacknowledged": lambda client: len(client.it.deliveries.unacked),
    "prefetch_count": lambda client: client.it.prefetch,
    "global_prefetch_count": lambda client: client.it.prefetch_all,
    "confirm": lambda client: client.it.confirms is not None,
    "transactional": lambda client: client.it.transaction is not None,
    "state": lambda client: "closing" if client.it.closing else "running",
    "pid": lambda client: client.node.pid(client.it.connection.number, client.it.number),
    "connection_pid": lambda client: client.node.pid(client.it.connection.number),
}


def _subject(connection: Connection) -> str:
    secured = connection.peer.secured
    if secured is None or secured.certificate is None:
        return ""
    try:
        return certificate_names.subject(secured.certificate)
    except DecodeError:
        return ""


def _connections(administration: Administration, arguments: Arguments) -> Iterator[Client]:
    node, connections = administration.node, list(administration.registry.network_connections)
    return (Client(node, connection) for connection in connections)


def _channels(administration: Administration, arguments: Arguments) -> Iterator[Client]:
    node, connections = administration.node, list(administration.registry.network_connections)
    return (Client(node, channel) for connection in connections for channel in list(connection.channels.values()))


CONNECTIONS = Listing(_connections, CONNECTION_COLUMNS)
CHANNELS = Listing(_channels, CHANNEL_COLUMNS)
