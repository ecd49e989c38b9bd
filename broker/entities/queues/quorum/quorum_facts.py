"""Facts of a quorum queue by the names of RabbitMQ's API, beside those in `depth`."""

from __future__ import annotations

from typing import NamedTuple

from broker.entities.queues.quorum.quorum_queue import QuorumQueue


class QuorumFacts(NamedTuple):
    """Facts of a quorum queue now. Reading them is cheap."""

    messages_delayed: int
    """Returned and not due yet: part of `messages`, not of `messages_ready`."""
    messages_ready_returned: int
    """Ready messages that were returned, or delayed before."""
    messages_by_priority: dict[int, int]
    """The other ready messages by priority, the lowest first."""
    messages_active_priorities: int
    messages_dlx: int
    """At-least-once dead letters that no target has accepted yet: part of `messages`."""
    message_bytes_dlx: int
    delayed_retry: str
    """The delay of returned messages, "disabled" without one."""
    next_delayed_at: int | None
    """Due time of the first delayed message, in milliseconds since the epoch; None without one."""
    last_delayed_at: int | None
    """Due time of the last one."""


def facts(queue: QuorumQueue) -> QuorumFacts:
    """Return the facts of a queue now."""
    ready_messages, delayed, dead_letters = queue.kept
    by_priority, retry = ready_messages.by_priority, queue.rules.retry
    return QuorumFacts(
        messages_delayed=len(delayed),
        messages_ready_returned=len(ready_messages.returned),
        messages_by_priority=by_priority,
        messages_active_priorities=len(by_priority),
        messages_dlx=len(dead_letters),
        message_bytes_dlx=dead_letters.bytes,
        delayed_retry="disabled" if retry is None else str(retry),
        next_delayed_at=delayed.next_due,
        last_delayed_at=delayed.last_due,
    )
