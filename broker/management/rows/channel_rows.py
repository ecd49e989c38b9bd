"""Columns of channels in the HTTP API: the shared ones, and statistics."""

from __future__ import annotations

from functools import partial
from operator import attrgetter

from broker.admin.views.columns import ABSENT, Column, Columns
from broker.admin.views.connection_view import CHANNEL_COLUMNS
from broker.entities.arguments.personality import Series
from broker.management.rows.connection_rows import connection_details, given_name
from broker.management.rows.consumer_rows import consumer_rows
from broker.management.rows.erlang_processes import COLLECTION, REDUCTIONS, always
from broker.management.statistics import pair_stats
from broker.management.statistics.history_query import HistoryQuery, moment
from broker.management.statistics.sampler import CHANNEL
from broker.session.channel.channel import Channel


def channel_order(channel: Channel) -> tuple[str, str, int]:
    """The sort key of lists of channels."""
    return channel.vhost.name, str(channel.connection.peer), channel.number


def channel_rows(node: str, query: HistoryQuery, series: Series, *, single: bool = False) -> Columns[Channel]:
    """The columns of channels, with statistics. A `single` row has the consumers of the channel, too."""
    history, ages = query
    columns = dict(CHANNEL_COLUMNS)
    if series >= (4, 0):
        del columns["global_prefetch_count"]
        columns |= {"cached_segments": always(0), **REDUCTIONS, **COLLECTION}
    return Columns(
        {
            **columns,
            **(_of_single(node, query) if single else {}),
            "connection_details": lambda channel: connection_details(channel.connection),
            "idle_since": lambda channel: moment(history.channel_idle_since(channel)),
            "message_stats": lambda channel: history.channel_stats(channel, ages) or ABSENT,
            "node": lambda channel: node,
            "pending_raft_commands": lambda channel: 0,
            "user_who_performed_action": lambda channel: channel.connection.user,
        },
        inner=partial(query.statistic, CHANNEL, attrgetter("counters")),
        on_request={"user_provided_name": lambda channel: given_name(channel.connection.client_properties)},
    )


def _of_single(node: str, query: HistoryQuery) -> dict[str, Column[Channel]]:
    """Consumers, and with rates_mode detailed publishes by exchange and deliveries by queue."""
    row = consumer_rows(node).view()
    return {
        "consumer_details": lambda channel: [row(consumer) for consumer in channel.consumers.values()],
        "deliveries": lambda channel: pair_stats.deliveries(query, channel),
        "publishes": lambda channel: pair_stats.publishes(query, channel),
    }
