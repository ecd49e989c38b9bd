"""Limits of a quorum queue. Delayed messages and waiting dead letters count as messages of the queue.

With `x-overflow` reject-publish the queue accepts one message more than its limit, then none until it has fallen to
four fifths of it. Only publishers are refused, and at-least-once dead letters, which wait: other dead letters, delayed
messages that are due and events would be lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.entities.arguments.queue_arguments import QueueArguments
from broker.entities.messages.message import Message, QueuedMessage
from broker.entities.queues.queue_limits import QueueLimits
from broker.entities.scheduling.background_work import MESSAGE_BYTES

if TYPE_CHECKING:
    from broker.entities.queues.queue import QueueContext
    from broker.entities.queues.quorum.quorum_queue import QuorumQueue

LOW_WATER = 0.8
"""A queue that refuses messages accepts them again once it is down to this fraction of its limit."""


class QuorumLimits(QueueLimits):
    """Limits of a quorum queue."""

    publishers_only = True

    def __init__(self, queue: QuorumQueue, context: QueueContext) -> None:
        self._quorum = queue
        self._refusing = False
        super().__init__(queue, context)

    def set(self, arguments: QueueArguments) -> None:
        """Apply other limits from now on. As in RabbitMQ, reject-publish-dlx is for classic queues only."""
        super().set(arguments)
        self._refusing = False
        if self._overflow != "reject-publish":
            self._overflow = "drop-head"

    def refuses(self, message: Message) -> bool:
        """Return whether the queue has exceeded its limit and not fallen to LOW_WATER since."""
        if self._overflow == "drop-head":
            return False
        self._look_at_amount()
        return self._refusing

    def drop_excess(self) -> None:
        """Drop the oldest messages that exceed the limit, or start refusing messages."""
        if self._overflow == "drop-head":
            super().drop_excess()
        else:
            self._look_at_amount()

    def _is_due(self, entry: QueuedMessage) -> bool:
        """Return whether a message, the first of its front, has expired, or comes back from the process that died."""
        return self._quorum.comes_back(entry) or super()._is_due(entry)

    def _discard_one(self, entry: QueuedMessage | None, reason: str) -> int:
        if entry is None or not self._quorum.comes_back(entry):
            return super()._discard_one(entry, reason)
        copies = self._turn.dead_letter_copies
        self._quorum.finish_return(entry)
        return max(entry.size + MESSAGE_BYTES, MESSAGE_BYTES * (self._turn.dead_letter_copies - copies))

    def over(self, messages: int = 0, size_bytes: int = 0) -> bool:
        """Return whether the queue would exceed its length limits with this much more."""
        count, size = self._amount()
        if self._messages is not None and count + messages > self._messages:
            return True
        return self._bytes is not None and size + size_bytes > self._bytes

    def _look_at_amount(self) -> None:
        if self.over():
            self._refusing = True
        elif self._refusing:
            self._refusing = not self._sunk()

    def _sunk(self) -> bool:
        count, size = self._amount()
        levels = (count, self._messages), (size, self._bytes)
        return all(limit is None or found <= limit * LOW_WATER for found, limit in levels)

    def _amount(self) -> tuple[int, int]:
        """Return the number of messages that the limits apply to, and bytes of their bodies."""
        ready_messages, delayed, dead_letters = self._quorum.kept
        count = len(ready_messages) + len(delayed) + len(dead_letters)
        return count, ready_messages.bytes + delayed.bytes + dead_letters.bytes
