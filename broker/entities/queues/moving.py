"""Messages moved from one queue to another because an operator wants it."""

from __future__ import annotations

from broker.entities.messages.message import QueuedMessage
from broker.entities.queues.ordered_queue import OrderedQueue
from broker.entities.queues.queue import Queue
from broker.entities.scheduling.background_work import MESSAGE_BYTES


def move(source: OrderedQueue, target: Queue, messages: int, size_bytes: int) -> int:
    """Move the first ready messages, so many at most and of roughly so many bytes, one at least; how many that were.

    They keep their order, headers, exchange and routing key. What enters one queue and leaves the other is written with
    one batch, so that each message is in one of the two after a crash. The first that the target refuses stays, and
    what is behind it.
    """
    source.deliver_now()
    moved: list[QueuedMessage] = []
    while len(moved) < messages and size_bytes > 0 and (entry := source.pop()) is not None:
        if not _enter(target, entry):
            source.ready_in_order.give_back((entry,))
            break
        if source.events is not None:
            source.events.released(entry)
        moved.append(entry)
        size_bytes -= entry.size + MESSAGE_BYTES
    if moved:
        source.finish(moved, moved=True)
    source.limits.watch()
    return len(moved)


def _enter(target: Queue, entry: QueuedMessage) -> bool:
    """Put a message into the target too; False if it is refused there."""
    assert entry.message is not None, "a queue hands over what it has loaded"
    message = entry.message.copy()
    message.body_id = 0  # a body that several queues share is stored with the message in this one
    if target.limits.on_length and target.limits.refuses(message):
        return False
    target.publish(message)
    return True
