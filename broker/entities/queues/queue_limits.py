"""QueueLimits of a queue: message time to live, maximum length and bytes, overflow.

Expired and excess messages leave at the head only, as in RabbitMQ: an expired message behind one that has not expired
stays until it is first. With overflow reject-publish the queue refuses new messages instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from broker.entities.arguments.queue_arguments import QueueArguments
from broker.entities.messages.message import Message, QueuedMessage
from broker.entities.queues.queue_background_work import CHUNK_BYTES
from broker.entities.queues.ready_messages import Front
from broker.entities.queues.unlimited import Unlimited
from broker.entities.scheduling.background_work import MESSAGE_BYTES, PORTION_BYTES

if TYPE_CHECKING:
    from broker.entities.queues.ordered_queue import OrderedQueue
    from broker.entities.queues.queue import QueueContext


DEAD_LETTER_DEPTH_MAX = 2
"""Length of a chain of dead letters, each caused by the one before, in one turn. Then the message waits in its
queue."""

DEAD_LETTER_COPIES_MAX = PORTION_BYTES // MESSAGE_BYTES
"""Copies of dead letters in one turn, after which queues drop excess messages in a later turn."""


class QueueLimits(Unlimited):
    """Time to live and length limits of one queue."""

    def __init__(self, queue: OrderedQueue, context: QueueContext) -> None:
        self._queue = queue
        self._timers = context.timers
        self._background_work = queue.background_work
        self._turn = context.turn
        self._now = context.now
        self._watched = 0
        self._came = 0  # publish time of the first message with a time to live since the last deliveries
        self._strictly = False
        self._dropping = False
        self.set(queue.arguments)

    def set(self, arguments: QueueArguments) -> None:
        """Apply other limits from now on. Messages keep the expiry time that they were given at their publish."""
        self._message_ttl = arguments.message_ttl
        self._messages = arguments.max_length
        self._bytes = arguments.max_length_bytes
        self._overflow = arguments.overflow
        self.on_time = self._message_ttl is not None
        self.on_length = self._messages is not None or self._bytes is not None

    def expires_at(self, message: Message, now: int = 0) -> int:
        """Return when a message published now expires, in milliseconds since the epoch; 0: never.

        `now`: the current time if the caller has it, else 0.
        """
        own, given = self._message_ttl, message.expiration
        if own is None and given is None:
            return 0
        self.timed = True
        now = now or self._now()
        self._came = self._came or now
        if own is None or (given is not None and given < own):
            own = given
        assert own is not None
        return now + own

    def moment(self) -> int:
        """Return the time up to which expired messages are not delivered; 0 if nothing expires.

        It is now, or, if messages were published in this turn, the time of the first such publish: a consumer that was
        served at once would have got them, even with a time to live of 0.
        """
        return (self._came or self._now()) if self.timed else 0

    def refuses(self, message: Message) -> bool:
        """Return whether the queue refuses a message because it is full."""
        return self.on_length and self._overflow != "drop-head" and self.over(1, len(message.body))

    def turn_away(self, message: Message) -> None:
        """Drop a refused message, or dead-letter it with overflow reject-publish-dlx."""
        if self._overflow == "reject-publish-dlx":
            self._queue.turn_away(message, "maxlen")

    def drop_excess(self) -> None:
        """Deliver to consumers with credit, then drop the oldest messages that exceed the limit.

        A lower limit set by a policy can make most of a queue excess, each message a long dead letter: one step is
        done now, the rest in the background.
        """
        if not self._dropping and self.over():
            self._queue.deliver()
            self._drop_head()

    def drop_excess_of_returned(self) -> None:
        """Drop the oldest messages if returned ones exceed the limit, before any delivery, as in RabbitMQ."""
        if self._overflow == "drop-head" and not self._dropping:
            self._drop_head()

    def _drop_head(self) -> None:
        if self._drop_some() and self._too_many:
            self._dropping = True
            self._background_work.begin()

    @property
    def _too_many(self) -> bool:
        return self.over() and len(self._queue.ready_in_order) > 0

    def _drop_some(self) -> int:
        """Drop one step of excess messages, the oldest first; return its size in bytes."""
        dropped = 0
        while dropped < CHUNK_BYTES and self._too_many:
            if (
                self._turn.dead_letter_depth >= DEAD_LETTER_DEPTH_MAX
                or self._turn.dead_letter_copies >= DEAD_LETTER_COPIES_MAX
            ):
                return PORTION_BYTES  # a cycle of queues goes on in a later turn: each dead letter is longer
            # With a limit on the count alone the number to drop is known, and they are taken together.
            left, too_many = CHUNK_BYTES - dropped, 0
            if self._messages is not None and self._bytes is None:
                too_many = min(len(self._queue.ready_in_order) - self._messages, left // MESSAGE_BYTES)
            if too_many > 1 and (entries := self._queue.ready_in_order.run(too_many, left, 0)):
                dropped += self._discard(entries, "maxlen")
            else:
                dropped += self._discard_one(self._queue.ready_in_order.pop(), "maxlen")
        return dropped

    def resume(self) -> None:
        """Expire and drop what has become due while the broker was stopped."""
        self._queue.touch()
        if self._overflow == "drop-head":
            self.drop_excess()

    def remove_some(self) -> int:
        """Do one step of a removal that takes several; return its size in bytes, 0 when nothing is left."""
        if self.expiring:
            if expired := self._expire_some():
                return expired
            self.expiring = False
        if self._dropping:
            if self._overflow == "drop-head" and self._too_many:
                self._queue.deliver()
                return self._drop_some() or MESSAGE_BYTES
            self._dropping = False
        return 0

    def expire(self, *, strictly: bool = False) -> None:
        """Remove expired messages at the head: one step now, the rest in the background.

        `strictly`: only those that `moment` does not allow to be delivered, and expired redelivered ones.
        """
        if not strictly:
            self._came = 0
        self._strictly = strictly
        if self.expiring:  # the background work removes them
            self._background_work.begin()
        elif self._due_front() is not None:
            if not self._background_work.head_has_to_wait:
                self._expire_some()
            if self._due_front() is not None:
                self.expiring = True
                self._background_work.begin()

    def _due_front(self) -> Front | None:
        """Return ready messages of which the first has to be removed; None if there are none."""
        for front in self._queue.ready_in_order.fronts:
            entry = front.peek()
            if entry is not None and self._is_due(entry):
                return front
        return None

    def _is_due(self, entry: QueuedMessage) -> bool:
        """Return whether a message, the first of its front, has to be removed."""
        spared = self._strictly and not entry.redelivered
        return 0 < entry.expires_at <= (self.moment() - 1 if spared else self._now())

    def _expire_some(self) -> int:
        """Remove one step of expired messages at the head; return its size in bytes."""
        done = 0
        while done < CHUNK_BYTES and (front := self._due_front()) is not None:
            now = self.moment() - 1 if self._strictly else self._now()
            if entries := front.due(now, CHUNK_BYTES - done):
                done += self._discard(entries, "expired")
            else:
                done += self._discard_one(front.pop(), "expired")
        return done

    def _discard_one(self, entry: QueuedMessage | None, reason: str) -> int:
        """Discard a message that was taken, or just drop it if its content cannot be read; return its size in bytes."""
        if entry is not None and entry.message is None:
            self._queue.store.load((entry,))
        if entry is not None and entry.message is not None:
            return self._discard((entry,), reason)
        return MESSAGE_BYTES if entry is None else entry.size + MESSAGE_BYTES

    def _discard(self, entries: Sequence[QueuedMessage], reason: str) -> int:
        """Discard messages taken from the head, and put back those that are too many for one step.

        Return the size in bytes, MESSAGE_BYTES for each message and for each copy of a dead letter included.
        """
        copies = self._turn.dead_letter_copies
        count = self._queue.discard(entries, reason)
        if count < len(entries):
            self._queue.ready_in_order.put_back(entries[count:])
        gone = sum(entry.size + MESSAGE_BYTES for entry in entries[:count])
        return max(gone, MESSAGE_BYTES * (self._turn.dead_letter_copies - copies))

    def watch(self) -> None:
        """Set a timer for the first expiry of the messages that may expire, unless an earlier one is set."""
        if self.expiring:
            return
        first = 0
        for front in self._queue.ready_in_order.fronts:
            entry = front.peek()
            if entry is not None and entry.expires_at and not 0 < first <= entry.expires_at:
                first = entry.expires_at
        if first and not 0 < self._watched <= first:
            self._watched = first
            self._timers.at(first, self._look, self._queue)

    def _look(self) -> None:
        self._watched = 0
        self._queue.touch()

    def over(self, messages: int = 0, size_bytes: int = 0) -> bool:
        """Return whether the queue would exceed its length limits with this much more."""
        ready_messages = self._queue.ready_in_order
        if self._messages is not None and len(ready_messages) + messages > self._messages:
            return True
        return self._bytes is not None and ready_messages.bytes + size_bytes > self._bytes
