"""Returned messages of a quorum queue, as a later series of RabbitMQ would treat them: for the rehearsal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from broker.entities.messages.message import QueuedMessage
from broker.entities.queues.consumer_prefetch import Consumer
from broker.entities.queues.queue import Queue
from broker.entities.queues.quorum.return_rules import ReturnRules
from broker.entities.rehearsal.rehearsal_rules import DELIVERY_COUNT, DELIVERY_LIMIT, ENDLESS_RETURNS, RETURN_ORDER
from broker.entities.rehearsal.rehearsal_watch import RehearsalWatch

RETURNS_MAX: Final = 20
"""Returns without an end that are named: as many as 4.x permits by default."""


def note(
    watch: RehearsalWatch,
    queue: Queue,
    now: ReturnRules,
    entries: Sequence[QueuedMessage],
    *,
    failed: bool,
    abandoned: bool,
) -> None:
    """Note what differs for messages that come back; their delivery is counted already."""
    then, subject = now._replace(personality=watch.target), ("queue", queue.name)
    for entry in entries:
        client = entry.consumer.outlet.client_name if isinstance(entry.consumer, Consumer) else ""
        if _loops(entry, now, then):
            watch.note(ENDLESS_RETURNS, queue.vhost_name, subject, client, f"returned {entry.deliveries} times")
        if _is_dropped(entry, now, then):
            detail = f"returned {entry.deliveries} times; the limit is {then.limit:g}"
            watch.note(DELIVERY_LIMIT, queue.vhost_name, subject, client, detail)
        if not failed and not watch.target.nacks_count and watch.own.nacks_count and not now.exhausted(entry):
            watch.note(DELIVERY_COUNT, queue.vhost_name, subject, client)
        if now.to_the_end and not then.to_the_end and not abandoned and queue.ready:
            watch.note(RETURN_ORDER, queue.vhost_name, subject, client)


def _loops(entry: QueuedMessage, now: ReturnRules, then: ReturnRules) -> bool:
    """Return whether none of a message's returns counts then, and there are too many now: once for each message."""
    if then.limit is None or then.personality.nacks_count or then.counted(entry) > 0:
        return False
    return now.exhausted(entry) or entry.deliveries == RETURNS_MAX + 1


def _is_dropped(entry: QueuedMessage, now: ReturnRules, then: ReturnRules) -> bool:
    """Return whether a message reaches the limit of then with this return, and not that of now."""
    return then.limit is not None and then.counted(entry) == then.limit + 1 and not now.exhausted(entry)
