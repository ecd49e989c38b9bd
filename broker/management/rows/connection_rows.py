"""Columns of connections in the HTTP API: the shared ones, and statistics."""

from __future__ import annotations

from functools import partial
from operator import attrgetter
from typing import Any

from broker.admin.json_tables import plain
from broker.admin.views.columns import ABSENT, Column, Columns
from broker.admin.views.connection_view import CONNECTION_COLUMNS, TLS_COLUMNS, connection_name, serial_number
from broker.entities.arguments.personality import Series
from broker.management.rows.erlang_processes import COLLECTION, REDUCTIONS
from broker.management.statistics.history_query import HistoryQuery
from broker.management.statistics.sampler import CONNECTION
from broker.session.connection import Connection
from broker.wire.field_tables import Table

BRIEF = ("name", "node", "user", "vhost")
RATES = ("recv_oct_details", "send_oct_details")


def connection_order(connection: Connection) -> tuple[str, str]:
    """The sort key of lists of connections."""
    return connection.vhost_name, connection_name(connection)


def brief_connection_rows(node: str) -> Columns[Connection]:
    """The columns of connections without statistics, and of the connections of one user."""
    shared = _shared(node)
    return Columns({name: shared[name] for name in BRIEF})


def connection_rows(node: str, query: HistoryQuery, series: Series, *, single: bool = False) -> Columns[Connection]:
    """The columns of connections, with statistics. Without TLS its columns are null, in a `single` row empty."""
    tls = {name: partial(_or_empty, CONNECTION_COLUMNS[name]) for name in TLS_COLUMNS} if single else {}

    def rates(connection: Connection) -> list[Any]:
        found = query.history.connection_traffic(connection, query.ages)
        return [found.get(name, ABSENT) for name in RATES]

    return Columns(
        {
            **_shared(node),
            **tls,
            **(_of_4(single=single) if series >= (4, 0) else {}),
            "type": lambda connection: "direct" if connection.peer.within else "network",
            "user_provided_name": lambda connection: given_name(connection.client_properties),
            "user_who_performed_action": lambda connection: connection.user,
        },
        {RATES: rates},
        partial(query.statistic, CONNECTION, attrgetter("traffic")),
    )


def _of_4(*, single: bool) -> dict[str, Column[Connection]]:
    return {
        "peer_cert_serial_number": partial(_or_empty, serial_number) if single else serial_number,
        **REDUCTIONS,
        **COLLECTION,
    }


def _shared(node: str) -> dict[str, Column[Connection]]:
    return {**CONNECTION_COLUMNS, "node": lambda connection: node}


def _or_empty(column: Column[Connection], connection: Connection) -> Any:
    return column(connection) or ""


def given_name(properties: Table) -> Any:
    """The name that a client has given its connection; ABSENT if it has given none."""
    return plain(properties).get("connection_name", ABSENT)


def connection_details(connection: Connection) -> dict[str, Any]:
    """The columns of a connection within rows of other things."""
    peer = connection.peer
    return {"name": connection_name(connection), "peer_host": peer.host, "peer_port": peer.port}
