"""Offsets that groups of consumers have committed in streams, in the HTTP API."""

from __future__ import annotations

from typing import Any

from broker.entities.queues.queue import Queue
from broker.entities.queues.streams.stream_queue import Stream


def committed_offsets(queue: Queue) -> list[dict[str, Any]]:
    """The groups that have committed an offset in a stream, with their lag; none of other queues.

    `lag` counts the offsets from the committed one to the end, `committed_at` is in milliseconds.
    """
    if not isinstance(queue, Stream):
        return []
    return [
        {"group": group, "offset": offset, "lag": queue.lag(group), "committed_at": at}
        for group, (offset, at) in sorted(queue.committed.items())
    ]
