"""What is shown of an exchange."""

from __future__ import annotations

from functools import partial
from operator import attrgetter
from typing import NamedTuple

from broker.admin.json_tables import plain
from broker.entities.exchanges.exchange import Exchange
from broker.management.columns import ABSENT, Columns
from broker.management.statistics.past import Past
from broker.management.statistics.sampler import EXCHANGE


class ExchangeOf(NamedTuple):
    """An exchange, and the virtual host it is in."""

    vhost: str
    exchange: Exchange


def exchange_order(listed: ExchangeOf) -> tuple[str, str]:
    """What lists of exchanges are ordered by."""
    return listed.vhost, listed.exchange.name


def exchange_name(listed: ExchangeOf) -> str:
    """What lists of exchanges are filtered by."""
    return listed.exchange.name


def exchange_columns(past: Past) -> Columns[ExchangeOf]:
    """The columns of exchanges, with what was counted of them."""
    history, ages = past
    return Columns(
        {
            "name": lambda listed: listed.exchange.name,
            "vhost": lambda listed: listed.vhost,
            "type": lambda listed: listed.exchange.type,
            "durable": lambda listed: listed.exchange.durable,
            "auto_delete": lambda listed: listed.exchange.auto_delete,
            "internal": lambda listed: listed.exchange.internal,
            "arguments": lambda listed: plain(listed.exchange.arguments),
            "policy": lambda listed: _policy(listed.exchange),
            "message_stats": lambda listed: history.exchange_stats(listed.exchange, ages) or ABSENT,
            "messages_delayed": lambda listed: _delayed(listed.exchange),
        },
        inner=partial(past.statistic, EXCHANGE, attrgetter("exchange.counters")),
    )


def _policy(exchange: Exchange) -> str:
    policy = exchange.policies.policy
    return ABSENT if policy is None else policy.name


def _delayed(exchange: Exchange) -> int:
    return ABSENT if exchange.delays is None else exchange.delays.messages
