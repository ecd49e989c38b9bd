"""What a queue lets go of by itself: messages past their time, and messages too many.

Both leave at the head, in order, as in RabbitMQ: a message whose time has passed behind one whose time has
not stays until it gets there. With overflow reject-publish the queue refuses new messages instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from broker.entities.arguments.queue_arguments import QueueArguments
from broker.entities.messages.message import Message, QueuedMessage
from broker.entities.queues.queue_background_work import CHUNK_BYTES
from broker.entities.scheduling.background_work import MESSAGE_BYTES, PORTION_BYTES

if TYPE_CHECKING:
    from broker.entities.queues.ordered_queue import OrderedQueue
    from broker.entities.queues.queue import QueueContext


DEAD_LETTER_DEPTH_MAX = 2
"""So many dead letters, each the reason of the next, are published in one turn. Then the message waits where it is."""

DEAD_LETTER_COPIES_MAX = PORTION_BYTES // MESSAGE_BYTES
"""After so many copies of dead letters in one turn a queue that has too many waits for another one to drop some."""


class Unlimited:
    """A queue without limits: nothing expires in it, and nothing is refused. What every queue can be asked.

    `timed` says that messages with a time to live may be here: without it expired ones are not looked for.
    `expiring` says that more of them are at the head than could go at once: nothing is delivered until they are gone.
    `on_time` and `on_length` say that the queue itself has a time to live, or a limit on messages or bytes; publishers
    ask them first.
    """

    timed = False
    expiring = False
    on_time = False
    on_length = False

    def set(self, arguments: QueueArguments) -> None:
        """Hold to these limits from now on. Messages keep the time that they were given when they came."""

    def expires_at(self, message: Message, now: int = 0) -> int:
        """When a message published now expires, in milliseconds since the epoch; 0: never. `now` is that time, if it
        is known already."""
        return 0

    def refuses(self, message: Message) -> bool:
        """The queue has no room for a message, and does not make any."""
        return False

    def turn_away(self, message: Message) -> None:
        """A message the queue refuses is gone, or a dead letter with overflow reject-publish-dlx."""

    def drop_excess(self) -> None:
        """Let go of the oldest messages while there are too many, after consumers had their chance."""

    def drop_excess_of_returned(self) -> None:
        """Messages have come back and may be too many: the oldest go before any consumer is asked, as in RabbitMQ."""

    def moment(self) -> int:
        """Whatever expired before it is no longer to be delivered; 0 where nothing expires."""
        return 0

    def expire(self, *, strictly: bool = False) -> None:
        """Let go of messages at the head whose time has passed; `strictly` spares what `moment` says may go out."""

    def watch(self) -> None:
        """Come back when the message now at the head expires."""

    def remove_some(self) -> int:
        """Let go of some of what could not go at once. How much that was in bytes, 0 when nothing is left."""
        return 0

    def resume(self) -> None:
        """After a start: messages may have expired meanwhile, and making room may have been cut short."""

    def over(self, messages: int = 0, size_bytes: int = 0) -> bool:
        """There would be too much with so much more."""
        return False


class QueueLimits(Unlimited):
    """Time to live and length limits of one queue."""

    def __init__(self, queue: OrderedQueue, context: QueueContext) -> None:
        self._queue = queue
        self._timers = context.timers
        self._background_work = queue.background_work
        self._turn = context.turn
        self._now = context.now
        self._watched = 0
        self._came = 0  # when the first message with a time to live came since consumers were last served
        self._strictly = False
        self._dropping = False
        self.set(queue.arguments)

    def set(self, arguments: QueueArguments) -> None:
        """Hold to these limits from now on. Messages keep the time that they were given when they came."""
        self._message_ttl = arguments.message_ttl
        self._messages = arguments.max_length
        self._bytes = arguments.max_length_bytes
        self._overflow = arguments.overflow
        self.on_time = self._message_ttl is not None
        self.on_length = self._messages is not None or self._bytes is not None

    def expires_at(self, message: Message, now: int = 0) -> int:
        """When a message published now expires, in milliseconds since the epoch; 0: never. `now` is that time, if it
        is known already."""
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
        """Whatever expired before it is no longer to be delivered; 0 where nothing expires.

        That is now; but when messages have come in this turn, the moment when the first of them did: had a consumer
        been served at once, it would have got them, however short their time.
        """
        return (self._came or self._now()) if self.timed else 0

    def refuses(self, message: Message) -> bool:
        """The queue has no room for a message, and does not make any."""
        return self.on_length and self._overflow != "drop-head" and self.over(1, len(message.body))

    def turn_away(self, message: Message) -> None:
        """A message the queue refuses is gone, or a dead letter with overflow reject-publish-dlx."""
        if self._overflow == "reject-publish-dlx":
            self._queue.turn_away(message, "maxlen")

    def drop_excess(self) -> None:
        """Let go of the oldest messages while there are too many, after consumers had their chance.

        When a policy has lowered the limit there may be very many, and each may be a long letter to the next queue: the
        rest goes in the background.
        """
        if not self._dropping and self.over():
            self._queue.deliver()
            self._drop_head()

    def drop_excess_of_returned(self) -> None:
        """Messages have come back and may be too many: the oldest go before any consumer is asked, as in RabbitMQ."""
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
        """Drop a chunk of the oldest, if there are too many; how much it was."""
        dropped = 0
        while dropped < CHUNK_BYTES and self._too_many:
            if (
                self._turn.dead_letter_depth >= DEAD_LETTER_DEPTH_MAX
                or self._turn.dead_letter_copies >= DEAD_LETTER_COPIES_MAX
            ):
                return PORTION_BYTES  # a cycle of queues goes on in another turn: each letter is longer
            room, too_many = CHUNK_BYTES - dropped, 0
            if self._messages is not None and self._bytes is None:
                too_many = min(len(self._queue.ready_in_order) - self._messages, room // MESSAGE_BYTES)
            if too_many > 1 and (entries := self._queue.ready_in_order.run(too_many, room, 0)):
                dropped += self._discard(entries, "maxlen")
            else:
                dropped += self._discard_first("maxlen")
        return dropped

    def resume(self) -> None:
        """After a start: messages may have expired meanwhile, and making room may have been cut short."""
        self._queue.touch()
        if self._overflow == "drop-head":
            self.drop_excess()

    def remove_some(self) -> int:
        """Let go of some of what could not go at once. How much that was in bytes, 0 when nothing is left."""
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
        """Let go of messages at the head whose time has passed; of very many, the rest in the background.

        `strictly` spares what `moment` says may go out; not what has come back, which a consumer has had already.
        """
        if not strictly:
            self._came = 0
        self._strictly = strictly
        if self.expiring:
            self._background_work.begin()
        elif self._head_is_due():
            if not self._background_work.head_has_to_wait:
                self._expire_some()
            if self._head_is_due():
                self.expiring = True
                self._background_work.begin()

    def _head_is_due(self) -> bool:
        """The first message is one to let go of."""
        entry = self._queue.ready_in_order.peek()
        return entry is not None and self._is_due(entry)

    def _is_due(self, entry: QueuedMessage) -> bool:
        spared = self._strictly and not entry.redelivered
        return 0 < entry.expires_at <= (self.moment() - 1 if spared else self._now())

    def _expire_some(self) -> int:
        """Let go of a chunk of messages at the head whose time has passed; how much it was."""
        ready_messages, done = self._queue.ready_in_order, 0
        while done < CHUNK_BYTES and (entry := ready_messages.peek()) is not None and self._is_due(entry):
            now = self.moment() - 1 if self._strictly else self._now()
            if entries := ready_messages.due(now, CHUNK_BYTES - done):
                done += self._discard(entries, "expired")
            else:
                done += self._discard_first("expired")
        return done

    def _discard_first(self, reason: str) -> int:
        """Let go of the first ready message, and of none in its place should it not be readable; how much it was."""
        entry = self._queue.ready_in_order.pop()
        if entry is not None and entry.message is None:
            self._queue.store.load((entry,))
        if entry is not None and entry.message is not None:
            return self._discard((entry,), reason)
        return MESSAGE_BYTES if entry is None else entry.size + MESSAGE_BYTES

    def _discard(self, entries: Sequence[QueuedMessage], reason: str) -> int:
        """Let go of the first ready messages, which have been taken, and put back those that are too many for a step.

        How much it was in bytes, MESSAGE_BYTES for each message and for each copy of a dead letter included.
        """
        copies = self._turn.dead_letter_copies
        count = self._queue.discard(entries, reason)
        if count < len(entries):
            self._queue.ready_in_order.give_back(entries[count:])
        gone = sum(entry.size + MESSAGE_BYTES for entry in entries[:count])
        return max(gone, MESSAGE_BYTES * (self._turn.dead_letter_copies - copies))

    def watch(self) -> None:
        """Come back when the message now at the head expires; no oftener, whatever passes the head meanwhile."""
        if self.expiring:
            return
        entry = self._queue.ready_in_order.peek()
        if entry is not None and entry.expires_at and not 0 < self._watched <= entry.expires_at:
            self._watched = entry.expires_at
            self._timers.at(entry.expires_at, self._look, self._queue)

    def _look(self) -> None:
        self._watched = 0
        self._queue.touch()

    def over(self, messages: int = 0, size_bytes: int = 0) -> bool:
        """There would be too much with so much more."""
        ready_messages = self._queue.ready_in_order
        if self._messages is not None and len(ready_messages) + messages > self._messages:
            return True
        return self._bytes is not None and ready_messages.bytes + size_bytes > self._bytes


GONE = Unlimited()
"""The limits of all queues that are gone: nothing leads from them to any queue."""
