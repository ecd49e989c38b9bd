"""What is shown of a virtual host."""

from __future__ import annotations

from typing import Any, NamedTuple

from broker.entities.vhosts.vhost import VHost
from broker.management.columns import Columns


class VHostFigures(NamedTuple):
    """A virtual host, and how many messages its queues have."""

    vhost: VHost
    ready: int = 0
    unacked: int = 0


UNDEFINED = "undefined"
"""RabbitMQ's word for no default queue type."""


def vhost_columns(node: str, *, statistics: bool) -> Columns[VHostFigures]:
    """The columns of virtual hosts, with or without their messages and bytes."""
    said = {
        "name": lambda each: each.vhost.name,
        "description": lambda each: each.vhost.description.description,
        "tags": lambda each: list(each.vhost.description.tags),
        "default_queue_type": lambda each: each.vhost.description.default_queue_type or UNDEFINED,
        "metadata": lambda each: _metadata(each.vhost),
        "tracing": lambda each: each.vhost.traced,
        "cluster_state": lambda each: {node: "running"},
    }
    messages = {
        "messages": lambda each: each.ready + each.unacked,
        "messages_ready": lambda each: each.ready,
        "messages_unacknowledged": lambda each: each.unacked,
    }
    traffic = {
        "recv_oct": lambda each: each.vhost.statistics.traffic().recv_oct,
        "send_oct": lambda each: each.vhost.statistics.traffic().send_oct,
    }
    return Columns(said | (messages | traffic if statistics else {}))


def _metadata(vhost: VHost) -> dict[str, Any]:
    said = vhost.description
    metadata = {"description": said.description, "tags": list(said.tags)}
    if said.default_queue_type:
        metadata["default_queue_type"] = said.default_queue_type
    return metadata
