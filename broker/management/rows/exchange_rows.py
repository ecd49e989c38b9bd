"""Columns of exchanges in the HTTP API: the shared ones, and statistics."""

from __future__ import annotations

from functools import partial
from operator import attrgetter

from broker.admin.views.columns import ABSENT, Column, Columns
from broker.admin.views.topology_view import EXCHANGE_COLUMNS, ExchangeOf
from broker.entities.arguments.personality import Series
from broker.management.statistics.history_query import HistoryQuery
from broker.management.statistics.sampler import EXCHANGE


def exchange_order(listed: ExchangeOf) -> tuple[str, str]:
    """The sort key of lists of exchanges."""
    return listed.vhost, listed.exchange.name


def exchange_name(listed: ExchangeOf) -> str:
    """The text that lists of exchanges are filtered by."""
    return listed.exchange.name


def exchange_rows(query: HistoryQuery, series: Series) -> Columns[ExchangeOf]:
    """The columns of exchanges, with statistics."""
    history, ages = query
    by: dict[str, Column[ExchangeOf]] = {"user_who_performed_action": lambda listed: listed.exchange.declared_by}
    return Columns(
        {
            **EXCHANGE_COLUMNS,
            **(by if series >= (4, 0) else {}),
            "messages_delayed": lambda listed: (
                ABSENT if listed.exchange.delays is None else EXCHANGE_COLUMNS["messages_delayed"](listed)
            ),
            "message_stats": lambda listed: history.exchange_stats(listed.exchange, ages) or ABSENT,
        },
        inner=partial(query.statistic, EXCHANGE, attrgetter("exchange.counters")),
    )
