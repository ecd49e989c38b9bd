"""How much is in a queue, by RabbitMQ's names: all of it is known at any moment, so asking costs next to nothing."""

from __future__ import annotations

from typing import NamedTuple

from broker.entities.queues.queue import Queue
from broker.entities.queues.streams.stream_queue import Stream
from broker.wire.properties import decode_properties


class Depth(NamedTuple):
    """Messages of a queue, and the bytes of their bodies."""

    messages: int
    messages_ready: int
    messages_unacknowledged: int
    """Those out with channels. What a stream has delivered is still in it: they are not added to its messages."""
    messages_persistent: int
    """Those that survive a restart: persistent ones in a durable queue, all of a quorum queue or stream."""
    messages_ram: int
    """Those of which anything is in memory. Of what is out, or came back, the body may have been let go."""
    messages_ready_ram: int
    messages_unacknowledged_ram: int
    messages_paged_out: int
    """Ready ones of which nothing is in memory."""
    message_bytes: int
    message_bytes_ready: int
    message_bytes_unacknowledged: int
    message_bytes_persistent: int
    message_bytes_ram: int
    message_bytes_paged_out: int


def depth(queue: Queue) -> Depth:
    """How much is in a queue now."""
    ready, ready_bytes, out, stored = queue.ready, queue.ready_bytes, queue.out, queue.store.state
    in_memory = queue.ready_messages.in_memory
    apart = not isinstance(queue, Stream)
    return Depth(
        messages=ready + apart * out.messages,
        messages_ready=ready,
        messages_unacknowledged=out.messages,
        messages_persistent=stored.messages,
        messages_ram=in_memory.messages + apart * out.messages,
        messages_ready_ram=in_memory.messages,
        messages_unacknowledged_ram=out.messages,
        messages_paged_out=ready - in_memory.messages,
        message_bytes=ready_bytes + apart * out.bytes,
        message_bytes_ready=ready_bytes,
        message_bytes_unacknowledged=out.bytes,
        message_bytes_persistent=stored.bytes,
        message_bytes_ram=in_memory.bytes + apart * out.bytes,
        message_bytes_paged_out=ready_bytes - in_memory.bytes,
    )


def head_timestamp(queue: Queue) -> int | None:
    """The timestamp property of the first ready message, in seconds; None without one, or if it is on disk only."""
    head = queue.ready_messages.head
    if head is None or head.message is None:
        return None
    return decode_properties(head.message.header).timestamp
