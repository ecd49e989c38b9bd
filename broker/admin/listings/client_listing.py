"""What is listed of connections and channels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from broker.admin.administration import Administration
from broker.admin.command_arguments import Arguments
from broker.admin.listing import Column, Listing
from broker.admin.listings.tls_columns import TLS_COLUMNS
from broker.admin.listings.topology_listing import channel_name
from broker.entities.statistics.node_identity import NodeIdentity
from broker.session.channel.channel import Channel
from broker.session.connection import Connection
from broker.session.login.phase import Phase
from broker.session.peer import Secured

_STATES = {
    Phase.HEADER: "starting",
    Phase.START: "starting",
    Phase.TUNE: "tuning",
    Phase.OPENING: "opening",
    Phase.CLOSING: "closing",
}


class Client(NamedTuple):
    """A connection of this node, or a channel of one."""

    node: NodeIdentity
    it: Any


def connection_state(connection: Connection) -> str:
    """`running`, or why not.

    Publishing is `blocked` by an alarm, or would be (`blocking`); in `flow` it waits for the disk, or for the client to
    read.
    """
    if connection.phase is not Phase.OPEN:
        return _STATES[connection.phase]
    if connection.broker.alarms.raised:
        return "blocked" if connection.blocked else "blocking"
    return "flow" if connection.publishes or not connection.readable else "running"


def messages_uncommitted(channel: Channel) -> int:
    """How many publishes the open transaction of a channel has."""
    return 0 if channel.transaction is None else len(channel.transaction.publishes)


def acks_uncommitted(channel: Channel) -> int:
    """How many acknowledgements it has."""
    transaction = channel.transaction
    return 0 if transaction is None else sum(len(settlement.entries) for settlement in transaction.settlements)


def _of_tls(column: Callable[[Secured], str]) -> Column:
    """Empty without TLS."""
    return lambda client: "" if client.it.peer.secured is None else column(client.it.peer.secured)


CONNECTION_COLUMNS: dict[str, Column] = {
    "name": lambda client: str(client.it.peer),
    "user": lambda client: client.it.user,
    "vhost": lambda client: client.it.vhost_name,
    "state": lambda client: connection_state(client.it),
    "channels": lambda client: len(client.it.channels),
    "peer_host": lambda client: client.it.peer.host,
    "peer_port": lambda client: client.it.peer.port,
    "host": lambda client: client.it.peer.local_host,
    "port": lambda client: client.it.peer.local_port,
    "protocol": lambda client: "AMQP 0-9-1",
    "ssl": lambda client: client.it.peer.secured is not None,
    **{name: _of_tls(column) for name, column in TLS_COLUMNS.items()},
    "auth_mechanism": lambda client: client.it.mechanism,
    "timeout": lambda client: client.it.heartbeat,
    "frame_max": lambda client: client.it.frame_max,
    "channel_max": lambda client: client.it.channel_max,
    "client_properties": lambda client: client.it.client_properties,
    "pid": lambda client: client.node.pid(client.it.number),
    "recv_oct": lambda client: client.it.traffic.recv_oct,
    "recv_cnt": lambda client: client.it.traffic.recv_cnt,
    "send_oct": lambda client: client.it.traffic.send_oct,
    "send_cnt": lambda client: client.it.traffic.send_cnt,
    "send_pend": lambda client: client.it.output.pending,
    "connected_at": lambda client: client.it.connected_at,
}

CHANNEL_COLUMNS: dict[str, Column] = {
    "name": lambda client: channel_name(client.it),
    "connection": lambda client: str(client.it.connection.peer),
    "number": lambda client: client.it.number,
    "user": lambda client: client.it.connection.user,
    "vhost": lambda client: client.it.vhost.name,
    "consumer_count": lambda client: len(client.it.consumers),
    "messages_unacknowledged": lambda client: len(client.it.deliveries),
    "messages_uncommitted": lambda client: messages_uncommitted(client.it),
    "acks_uncommitted": lambda client: acks_uncommitted(client.it),
    "messages_unconfirmed": lambda client: client.it.confirms.unanswered if client.it.confirms else 0,
    "prefetch_count": lambda client: client.it.prefetch,
    "global_prefetch_count": lambda client: client.it.prefetch_all,
    "confirm": lambda client: client.it.confirms is not None,
    "transactional": lambda client: client.it.transaction is not None,
    "state": lambda client: "closing" if client.it.closing else "running",
    "pid": lambda client: client.node.pid(client.it.connection.number, client.it.number),
    "connection_pid": lambda client: client.node.pid(client.it.connection.number),
}


def _connections(administration: Administration, arguments: Arguments) -> Iterator[Client]:
    node, connections = administration.node, list(administration.registry.network_connections)
    return (Client(node, connection) for connection in connections)


def _channels(administration: Administration, arguments: Arguments) -> Iterator[Client]:
    node, connections = administration.node, list(administration.registry.network_connections)
    return (Client(node, channel) for connection in connections for channel in list(connection.channels.values()))


CONNECTIONS = Listing(_connections, CONNECTION_COLUMNS)
CHANNELS = Listing(_channels, CHANNEL_COLUMNS)
