"""What is shown of a virtual host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from broker.admin.kinds.vhost_kind import UNDEFINED, metadata
from broker.entities.vhosts.vhost import VHost
from broker.management.columns import ABSENT, Columns
from broker.management.statistics.past import Past


class VHostFigures(NamedTuple):
    """A virtual host, and how many messages its queues have."""

    vhost: VHost
    ready: int = 0
    unacked: int = 0


def vhost_columns(node: str, past: Past, *, statistics: bool) -> Columns[VHostFigures]:
    """The columns of virtual hosts, with or without their messages and bytes, and what was counted of them."""
    history, ages = past
    said: dict[str, Callable[[VHostFigures], Any]] = {
        "name": lambda each: each.vhost.name,
        "description": lambda each: each.vhost.description.description,
        "tags": lambda each: list(each.vhost.description.tags),
        "default_queue_type": lambda each: each.vhost.description.default_queue_type or UNDEFINED,
        "metadata": lambda each: metadata(each.vhost.description),
        "tracing": lambda each: each.vhost.traced,
        "cluster_state": lambda each: {node: "running"},
    }
    messages: dict[str, Callable[[VHostFigures], Any]] = {
        "messages": lambda each: each.ready + each.unacked,
        "messages_ready": lambda each: each.ready,
        "messages_unacknowledged": lambda each: each.unacked,
    }
    if not statistics:
        return Columns(said)
    messages["message_stats"] = lambda each: history.vhost_stats(each.vhost, ages) or ABSENT

    def lengths(each: VHostFigures) -> list[Any]:
        found = history.overview_lengths((each.vhost,), ages)
        return [found.get(name, ABSENT) for name in LENGTHS]

    def traffic(each: VHostFigures) -> list[Any]:
        found = history.vhost_traffic(each.vhost, ages)
        return [found.get(name, ABSENT) for name in TRAFFIC]

    return Columns(said | messages, {LENGTHS: lengths, TRAFFIC: traffic})


LENGTHS = ("messages_details", "messages_ready_details", "messages_unacknowledged_details")
TRAFFIC = ("recv_oct", "recv_oct_details", "send_oct", "send_oct_details")
