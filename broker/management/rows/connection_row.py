"""What is shown of a connection."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import Any

from broker.admin.json_tables import plain
from broker.admin.listings.client_listing import connection_state
from broker.admin.listings.tls_columns import TLS_COLUMNS
from broker.management.columns import ABSENT, Columns
from broker.management.statistics.past import Past
from broker.management.statistics.sampler import CONNECTION
from broker.session.connection import Connection
from broker.wire.field_tables import Table

Column = Callable[[Connection], Any]


def connection_name(connection: Connection) -> str:
    """The name of a connection: both of its ends."""
    return str(connection.peer)


def connection_order(connection: Connection) -> tuple[str, str]:
    """What lists of connections are ordered by."""
    return connection.vhost_name, connection_name(connection)


def brief_columns(node: str) -> Columns[Connection]:
    """What is shown of connections without statistics, and of those of one user."""
    return Columns(
        {
            "name": connection_name,
            "node": lambda connection: node,
            "user": lambda connection: connection.user,
            "vhost": lambda connection: connection.vhost_name,
        }
    )


def connection_columns(node: str, past: Past, *, without_tls: str | None) -> Columns[Connection]:
    """All that is shown of connections. `without_tls` stands for what TLS says where there is none."""

    def rates(connection: Connection) -> list[Any]:
        found = past.history.connection_traffic(connection, past.ages)
        return [found.get(name, ABSENT) for name in RATES]

    return Columns(
        {
            "auth_mechanism": lambda connection: connection.mechanism,
            "channel_max": lambda connection: connection.channel_max,
            "channels": lambda connection: len(connection.channels),
            "client_properties": lambda connection: plain(connection.client_properties),
            "connected_at": lambda connection: connection.connected_at,
            "frame_max": lambda connection: connection.frame_max,
            "host": lambda connection: connection.peer.local_host,
            "name": connection_name,
            "node": lambda connection: node,
            "peer_host": lambda connection: connection.peer.host,
            "peer_port": lambda connection: connection.peer.port,
            "port": lambda connection: connection.peer.local_port,
            "protocol": lambda connection: "Direct 0-9-1" if connection.peer.within else "AMQP 0-9-1",
            "recv_cnt": lambda connection: connection.traffic.recv_cnt,
            "recv_oct": lambda connection: connection.traffic.recv_oct,
            "send_cnt": lambda connection: connection.traffic.send_cnt,
            "send_oct": lambda connection: connection.traffic.send_oct,
            "send_pend": lambda connection: connection.output.pending,
            "ssl": lambda connection: connection.peer.secured is not None,
            **{name: _of_tls(column, without_tls) for name, column in TLS_COLUMNS.items()},
            "state": connection_state,
            "timeout": lambda connection: connection.heartbeat,
            "type": lambda connection: "direct" if connection.peer.within else "network",
            "user": lambda connection: connection.user,
            "user_provided_name": lambda connection: given_name(connection.client_properties),
            "user_who_performed_action": lambda connection: connection.user,
            "vhost": lambda connection: connection.vhost_name,
        },
        {RATES: rates},
        partial(past.statistic, CONNECTION, attrgetter("traffic")),
    )


RATES = ("recv_oct_details", "send_oct_details")


def _of_tls(column: Callable[..., Any], without: str | None) -> Column:
    def value(connection: Connection) -> Any:
        secured = connection.peer.secured
        return without if secured is None else column(secured)

    return value


def given_name(properties: Table) -> Any:
    """What a client calls its connection; ABSENT where it does not."""
    """The name that a client has given its connection; ABSENT if it has given none."""
    return plain(properties).get("connection_name", ABSENT)
