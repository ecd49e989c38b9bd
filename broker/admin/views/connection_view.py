"""Columns of connections and channels. Names of TLS are Erlang's, as RabbitMQ's tools expect them."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from typing import Any, NamedTuple

from broker.admin.administration import Administration
from broker.admin.views.columns import Column, Columns
from broker.admin.views.listing import View
from broker.session.channel.channel import Channel
from broker.session.connection import Connection
from broker.session.login import certificate_names
from broker.session.login.phase import Phase
from broker.session.peer import Secured
from broker.wire.amqp_errors import DecodeError

# Connections

_STATES = {
    Phase.HEADER: "starting",
    Phase.START: "starting",
    Phase.TUNE: "tuning",
    Phase.OPENING: "opening",
    Phase.CLOSING: "closing",
}


def connection_name(connection: Connection) -> str:
    """The name of a connection: its two addresses."""
    return str(connection.peer)


def connection_state(connection: Connection) -> str:
    """`running`, or why not.

    `blocked`: an alarm holds its publishes back. `blocking`: it would. `flow`: a publish waits for the disk, or the
    connection for the client to read.
    """
    if connection.phase is not Phase.OPEN:
        return _STATES[connection.phase]
    if connection.broker.alarms.raised:
        return "blocked" if connection.blocked else "blocking"
    return "flow" if connection.publishes or not connection.readable else "running"


# TLS


class Suite(NamedTuple):
    """The parts of a cipher suite, such as `ecdhe_rsa`, `aes_256_gcm` and `aead`."""

    key_exchange: str
    cipher: str
    hash: str


def suite(name: str) -> Suite:
    """A cipher suite by OpenSSL's name for it."""
    return _suites().get(name) or Suite("", name, "")


@cache
def _suites() -> dict[str, Suite]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_ciphers("ALL")
    return {each["name"]: _suite(each) for each in context.get_ciphers()}


def _suite(described: Mapping[str, Any]) -> Suite:
    exchange, proof = described["kea"].removeprefix("kx-"), described["auth"].removeprefix("auth-")
    both = exchange if proof in (exchange, "any", "null") else f"{exchange}_{proof}"
    cipher, mac = described["symmetric"] or "", "aead" if described["aead"] else described["digest"]
    return Suite(both.replace("-", "_"), cipher.replace("-", "_"), mac or "")


def _of_certificate(read: Callable[[bytes], str], secured: Secured) -> str:
    try:
        return "" if secured.certificate is None else read(secured.certificate)
    except DecodeError:
        return ""


def _validity(certificate: bytes) -> str:
    first, last = certificate_names.valid_from(certificate), certificate_names.valid_until(certificate)
    return f"{first:%Y-%m-%dT%H:%M:%SZ} - {last:%Y-%m-%dT%H:%M:%SZ}"


TLS_COLUMNS: dict[str, Callable[[Secured], str]] = {
    "ssl_protocol": lambda secured: secured.version.lower(),
    "ssl_key_exchange": lambda secured: suite(secured.cipher).key_exchange,
    "ssl_cipher": lambda secured: suite(secured.cipher).cipher,
    "ssl_hash": lambda secured: suite(secured.cipher).hash,
    "peer_cert_subject": partial(_of_certificate, certificate_names.subject),
    "peer_cert_issuer": partial(_of_certificate, certificate_names.issuer),
    "peer_cert_validity": partial(_of_certificate, _validity),
}
"""The columns of a connection's TLS."""


def _of_tls(column: Callable[[Secured], str], connection: Connection) -> str | None:
    """A column of TLS; None without TLS."""
    secured = connection.peer.secured
    return None if secured is None else column(secured)


serial_number: Column[Connection] = partial(_of_tls, partial(_of_certificate, certificate_names.serial_number))
"""The serial number of the client's certificate, a column since RabbitMQ 4.3."""

CONNECTION_COLUMNS: Mapping[str, Column[Connection]] = {
    "name": connection_name,
    "user": lambda connection: connection.user,
    "vhost": lambda connection: connection.vhost_name,
    "state": connection_state,
    "channels": lambda connection: len(connection.channels),
    "peer_host": lambda connection: connection.peer.host,
    "peer_port": lambda connection: connection.peer.port,
    "host": lambda connection: connection.peer.local_host,
    "port": lambda connection: connection.peer.local_port,
    "protocol": lambda connection: "Direct 0-9-1" if connection.peer.within else "AMQP 0-9-1",
    "ssl": lambda connection: connection.peer.secured is not None,
    **{name: partial(_of_tls, column) for name, column in TLS_COLUMNS.items()},
    "auth_mechanism": lambda connection: connection.mechanism,
    "timeout": lambda connection: connection.heartbeat,
    "frame_max": lambda connection: connection.frame_max,
    "channel_max": lambda connection: connection.channel_max,
    "client_properties": lambda connection: connection.client_properties,
    "recv_oct": lambda connection: connection.traffic.recv_oct,
    "recv_cnt": lambda connection: connection.traffic.recv_cnt,
    "send_oct": lambda connection: connection.traffic.send_oct,
    "send_cnt": lambda connection: connection.traffic.send_cnt,
    "send_pend": lambda connection: connection.output.pending,
    "connected_at": lambda connection: connection.connected_at,
}
"""The columns that the HTTP API and lists share."""


# Channels


def channel_name(channel: Channel) -> str:
    """RabbitMQ's name of a channel: its connection's, and its number."""
    return f"{channel.connection.peer} ({channel.number})"


def messages_uncommitted(channel: Channel) -> int:
    """Publishes in the open transaction of a channel."""
    return 0 if channel.transaction is None else len(channel.transaction.publishes)


def acks_uncommitted(channel: Channel) -> int:
    """Acknowledgements in the open transaction of a channel."""
    transaction = channel.transaction
    return 0 if transaction is None else sum(len(settlement.entries) for settlement in transaction.settlements)


CHANNEL_COLUMNS: Mapping[str, Column[Channel]] = {
    "name": channel_name,
    "number": lambda channel: channel.number,
    "user": lambda channel: channel.connection.user,
    "vhost": lambda channel: channel.vhost.name,
    "consumer_count": lambda channel: len(channel.consumers),
    "messages_unacknowledged": lambda channel: len(channel.deliveries),
    "messages_uncommitted": messages_uncommitted,
    "acks_uncommitted": acks_uncommitted,
    "messages_unconfirmed": lambda channel: channel.confirms.unanswered if channel.confirms else 0,
    "prefetch_count": lambda channel: channel.prefetch,
    "global_prefetch_count": lambda channel: channel.prefetch_all,
    "confirm": lambda channel: channel.confirms is not None,
    "transactional": lambda channel: channel.transaction is not None,
    "state": lambda channel: "closing" if channel.closing else "running",
}
"""The columns that the HTTP API and lists share."""


# Lists of the command line


def _listed_connections(administration: Administration) -> Columns[Connection]:
    node = administration.node
    return Columns(
        {**CONNECTION_COLUMNS, "pid": lambda connection: node.pid(connection.number)},
    )


def _listed_channels(administration: Administration) -> Columns[Channel]:
    node = administration.node
    return Columns(
        {
            **CHANNEL_COLUMNS,
            "connection": lambda channel: connection_name(channel.connection),
            "pid": lambda channel: node.pid(channel.connection.number, channel.number),
            "connection_pid": lambda channel: node.pid(channel.connection.number),
        }
    )


def _connections(administration: Administration, owner: None) -> list[Connection]:
    return administration.registry.network_connections


def _channels(administration: Administration, owner: None) -> Iterator[Channel]:
    connections = administration.registry.network_connections
    return (channel for connection in connections for channel in list(connection.channels.values()))


CONNECTIONS = View(_connections, _listed_connections)
CHANNELS = View(_channels, _listed_channels)
