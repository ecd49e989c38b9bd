"""Depth of a queue: messages and bytes by RabbitMQ's names. All of it is counted anyway, so reading it is cheap."""

from __future__ import annotations

from typing import NamedTuple

from broker.entities.queues.queue import Queue
from broker.entities.queues.streams.stream_queue import Stream
from broker.wire.properties import decode_properties


class Depth(NamedTuple):
    """Messages of a queue, and bytes of their bodies."""

    messages: int
    messages_ready: int
    messages_unacknowledged: int
    """Delivered and not acknowledged. In a stream these are still part of `messages_ready` and not added to
    `messages`."""
    messages_persistent: int
    """Messages that survive a restart: persistent ones in a durable queue, all in a quorum queue or stream."""
    messages_ram: int
    """Messages at least partly in memory. The bodies of unacknowledged or returned ones may be on disk only."""
    messages_ready_ram: int
    messages_unacknowledged_ram: int
    messages_paged_out: int
    """Ready messages that are on disk only."""
    message_bytes: int
    message_bytes_ready: int
    message_bytes_unacknowledged: int
    message_bytes_persistent: int
    message_bytes_ram: int
    message_bytes_paged_out: int


def depth(queue: Queue) -> Depth:
    """Return the depth of a queue now."""
    ready, ready_bytes, out, stored = queue.ready, queue.ready_bytes, queue.out, queue.store.state
    in_memory = queue.ready_messages.in_memory
    apart = not isinstance(queue, Stream)
    return Depth(
        messages=queue.messages,
        messages_ready=ready,
        messages_unacknowledged=out.messages,
        messages_persistent=stored.messages,
        messages_ram=in_memory.messages + apart * out.messages,
        messages_ready_ram=in_memory.messages,
        messages_unacknowledged_ram=out.messages,
        messages_paged_out=ready - in_memory.messages,
        message_bytes=queue.message_bytes,
        message_bytes_ready=ready_bytes,
        message_bytes_unacknowledged=out.bytes,
        message_bytes_persistent=stored.bytes,
        message_bytes_ram=in_memory.bytes + apart * out.bytes,
        message_bytes_paged_out=ready_bytes - in_memory.bytes,
    )


def head_timestamp(queue: Queue) -> int | None:
    """Return the timestamp property of the first ready message, in seconds; None without one, or if it is paged out."""
    head = queue.ready_messages.head
    if head is None or head.message is None:
        return None
    return decode_properties(head.message.header).timestamp
