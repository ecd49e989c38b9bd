"""Columns of virtual hosts in the HTTP API: the shared ones, and statistics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from broker.admin.kinds.vhost_kind import UNDEFINED
from broker.admin.views.access_view import vhost_columns
from broker.admin.views.columns import ABSENT, Column, Columns
from broker.entities.arguments.personality import Personality
from broker.entities.vhosts.vhost import VHost
from broker.management.statistics.history_query import HistoryQuery

LENGTHS = ("messages_details", "messages_ready_details", "messages_unacknowledged_details")
TRAFFIC = ("recv_oct", "recv_oct_details", "send_oct", "send_oct_details")


class QueueTotals(NamedTuple):
    """Messages in all queues of a virtual host."""

    ready: int = 0
    unacked: int = 0


def brief_vhost_rows(node: str, personality: Personality) -> Columns[VHost]:
    """The columns of virtual hosts without statistics."""
    return Columns(_described(node, personality))


def vhost_rows(
    node: str, personality: Personality, query: HistoryQuery, totals: Mapping[VHost, QueueTotals]
) -> Columns[VHost]:
    """The columns of virtual hosts, with statistics; `totals` are those of the queues of each."""
    history, ages = query
    messages: dict[str, Column[VHost]] = {
        "messages": lambda vhost: sum(totals[vhost]),
        "messages_ready": lambda vhost: totals[vhost].ready,
        "messages_unacknowledged": lambda vhost: totals[vhost].unacked,
        "message_stats": lambda vhost: history.vhost_stats(vhost, ages) or ABSENT,
    }

    def lengths(vhost: VHost) -> list[Any]:
        found = history.overview_lengths((vhost,), ages)
        return [found.get(name, ABSENT) for name in LENGTHS]

    def traffic(vhost: VHost) -> list[Any]:
        found = history.vhost_traffic(vhost, ages)
        return [found.get(name, ABSENT) for name in TRAFFIC]

    return Columns({**_described(node, personality), **messages}, {LENGTHS: lengths, TRAFFIC: traffic})


def _described(node: str, personality: Personality) -> dict[str, Column[VHost]]:
    shared = vhost_columns(node)
    if not personality.protection:
        del shared["protected_from_deletion"]
    return {
        **shared,
        "default_queue_type": lambda vhost: shared["default_queue_type"](vhost) or UNDEFINED,
    }
