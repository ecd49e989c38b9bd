"""Messages moved from one queue to another on an operator's request."""

from __future__ import annotations

from broker.entities.messages.message import QueuedMessage
from broker.entities.queues.ordered_queue import OrderedQueue
from broker.entities.queues.queue import Queue
from broker.entities.scheduling.background_work import MESSAGE_BYTES


def move(source: OrderedQueue, target: Queue, messages: int, size_bytes: int) -> int:
    """Move the first ready messages, at most `messages` and roughly `size_bytes`, at least one; return their number.

    They keep their order, headers, exchange and routing key. The put into one queue and the settlement in the other are
    in one batch, so a crash leaves each message in exactly one of the two. Stops at the first message that the target
    refuses.
    """
    source.deliver_now()
    moved: list[QueuedMessage] = []
    while len(moved) < messages and size_bytes > 0 and (entry := source.pop()) is not None:
        if not _enter(source, target, entry):
            source.ready_in_order.put_back((entry,))
            break
        if source.events is not None:
            source.events.released(entry)
        moved.append(entry)
        size_bytes -= entry.size + MESSAGE_BYTES
    if moved:
        source.finish(moved, moved=True)
    source.limits.watch()
    return len(moved)


def _enter(source: OrderedQueue, target: Queue, entry: QueuedMessage) -> bool:
    """Put a message into the target; return False if it refuses."""
    assert entry.message is not None, "a popped message has its content"
    message = entry.message.copy()
    message.body_id = 0  # a shared body is stored again, with the message in this queue
    if target.limits.on_length and target.limits.refuses(message):
        return False
    if source.events is not None:
        source.events.moves_on(message, entry)
    target.publish(message)
    return True
