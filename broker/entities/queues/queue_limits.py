"""What a queue lets go of by itself: messages past their time, and messages too many.

Both leave at the head, in order, as in RabbitMQ: a message whose time has passed behind one whose time has
not stays until it gets there. With overflow reject-publish the queue refuses new messages instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.entities.arguments.queue_arguments import QueueArguments
from broker.entities.messages.message import Message

if TYPE_CHECKING:
    from broker.entities.queues.ordered_queue import OrderedQueue
    from broker.entities.queues.queue import QueueContext


ROOM_MESSAGES = 1024
"""How many messages are dropped in one turn to make room."""

DEAD_LETTER_DEPTH_MAX = 2
"""So many dead letters, each the reason of the next, are published in one turn. Then the message waits where it is."""

EXPIRED_AT_ONCE = 1024
"""How many messages at most leave together because their time has passed."""


class Unlimited:
    """A queue without limits: nothing expires in it, and nothing is refused. What every queue can be asked.

    `timed` says that messages with a time to live may be here: without it nobody looks for expired ones.
    `on_time` and `on_length` say that the queue itself has a time to live, or a limit on messages or bytes; publishers
    ask them first.
    """

    timed = False
    on_time = False
    on_length = False

    def set(self, arguments: QueueArguments) -> None:
        """Hold to these limits from now on. Messages keep the time that they were given when they came."""

    def expires_at(self, message: Message) -> int:
        """When a message published now expires, in milliseconds since the epoch; 0: never."""
        return 0

    def refuses(self, message: Message) -> bool:
        """The queue has no room for a message, and does not make any."""
        return False

    def turn_away(self, message: Message) -> None:
        """A message the queue refuses is gone, or a dead letter with overflow reject-publish-dlx."""

    def make_room(self) -> None:
        """Let go of the oldest messages while there are too many, after consumers had their chance."""

    def resume(self) -> None:
        """After a start: messages may have expired meanwhile, and making room may have been cut short."""

    def over(self, messages: int = 0, size_bytes: int = 0) -> bool:
        """There would be too much with so much more."""
        return False


class Limits(Unlimited):
    """Time to live and length limits of one queue."""

    def __init__(self, queue: OrderedQueue, context: QueueContext) -> None:
        self._queue = queue
        self._timers = context.timers
        self._turn = context.turn
        self._now = context.now
        self._watched = 0
        self._came = 0  # when the first message with a time to live came since consumers were last served
        self._making_room = False
        self.set(queue.arguments)

    def set(self, arguments: QueueArguments) -> None:
        """Hold to these limits from now on. Messages keep the time that they were given when they came."""
        self._message_ttl = arguments.message_ttl
        self._messages = arguments.max_length
        self._bytes = arguments.max_length_bytes
        self._overflow = arguments.overflow
        self.on_time = self._message_ttl is not None
        self.on_length = self._messages is not None or self._bytes is not None

    def expires_at(self, message: Message) -> int:
        """When a message published now expires, in milliseconds since the epoch; 0: never."""
        own, given = self._message_ttl, message.expiration
        if own is None and given is None:
            return 0
        self.timed = True
        now = self._now()
        self._came = self._came or now
        return now + min(ttl for ttl in (own, given) if ttl is not None)

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

    def make_room(self) -> None:
        """Let go of the oldest messages while there are too many, after consumers had their chance.

        When a policy has lowered the limit there may be very many, and each may be a long letter to the next queue: the
        rest goes in turns of its own.
        """
        if self.over():
            self._queue.deliver()
        self._drop_head()

    def make_room_for_returned(self) -> None:
        """Messages have come back and may be too many: the oldest go before any consumer is asked, as in RabbitMQ."""
        if self._overflow == "drop-head":
            self._drop_head()

    def _drop_head(self) -> None:
        for _ in range(ROOM_MESSAGES):
            if not (self.over() and len(self._queue.ready_messages)):
                return
            if self._turn.dead_letter_depth >= DEAD_LETTER_DEPTH_MAX:
                break  # who falls from queue to queue falls on in another turn: each letter is longer than the last
            self._discard_first("maxlen")
        if not self._making_room:
            self._making_room = True
            self._timers.at(self._now() + 1, self._make_more_room)

    def resume(self) -> None:
        """After a start: messages may have expired meanwhile, and making room may have been cut short."""
        self._queue.touch()
        if self._overflow == "drop-head":
            self.make_room()

    def _make_more_room(self) -> None:
        self._making_room = False
        if self._overflow == "drop-head":
            self.make_room()

    def expire(self, *, strictly: bool = False) -> None:
        """Let go of messages at the head whose time has passed; `strictly` spares what `moment` says may go out."""
        queue = self._queue
        if not strictly:
            self._came = 0
        while (entry := queue.ready_messages.peek()) is not None and entry.expires_at:
            now = self.moment() - 1 if strictly else self._now()
            if entry.expires_at > now:
                break
            if entries := queue.ready_messages.due(now, EXPIRED_AT_ONCE):
                queue.discard(entries, "expired")
            else:
                self._discard_first("expired")

    def _discard_first(self, reason: str) -> None:
        """Let go of the first ready message, and of none in its place should it not be readable."""
        entry = self._queue.ready_messages.pop()
        if entry is not None and entry.message is None:
            self._queue.store.load((entry,))
        if entry is not None and entry.message is not None:
            self._queue.discard((entry,), reason)

    def watch(self) -> None:
        """Come back when the message now at the head expires; no oftener, whatever passes the head meanwhile."""
        entry = self._queue.ready_messages.peek()
        if entry is not None and entry.expires_at and not 0 < self._watched <= entry.expires_at:
            self._watched = entry.expires_at
            self._timers.at(entry.expires_at, self._look, self._queue)

    def _look(self) -> None:
        self._watched = 0
        self._queue.touch()

    def over(self, messages: int = 0, size_bytes: int = 0) -> bool:
        """There would be too much with so much more."""
        ready_messages = self._queue.ready_messages
        if self._messages is not None and len(ready_messages) + messages > self._messages:
            return True
        return self._bytes is not None and ready_messages.bytes + size_bytes > self._bytes


GONE = Unlimited()
"""The limits of all queues that are gone: nothing leads from them to any queue."""
