"""A queue: messages in publish order, consumers in turn.

What is ready lies in the `Backlog`, what is out with consumers or getters in the ledgers of their channels;
here is only the count of those. Persistent messages of a durable queue are also in its `Lane` of the message
store, from the publish until they are settled. Nothing here waits: a queue that has something to do says so
to the turn, and does it at the turn's end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

from broker.entities.backlog import Backlog, Window
from broker.entities.consumer import Consumer, Consumers, Outlet
from broker.entities.lane import Lane
from broker.entities.message import Entry, Message
from broker.entities.queue_arguments import QueueArguments, parse
from broker.wire.tables import Table
from storage.batch import COUNTER_BITS, PERSISTENT, StoredMessage

if TYPE_CHECKING:
    from broker.entities.exchanges import Binding
    from broker.entities.timers import Timers
    from broker.entities.turn import Turn

RUN_BYTES = 256 * 1024
"""How much one consumer is given before the next is asked."""

FETCH_MESSAGES = 256
"""How many given-back messages are read from disk at a time."""


class QueueSpec(NamedTuple):
    """What a queue is declared as."""

    name: str
    durable: bool
    exclusive: bool
    auto_delete: bool
    arguments: Table


class QueueContext(NamedTuple):
    """What a queue needs from around it."""

    turn: Turn
    timers: Timers
    window: Window
    boot: int
    now: Callable[[], int]
    dead_letter: Callable[[Queue, Message, str], None]
    """Publish a message that died in a queue, for a reason, to the queue's dead-letter exchange."""


class Queue:
    """Ready and unacknowledged messages, and who wants them."""

    def __init__(self, spec: QueueSpec, lane: Lane, context: QueueContext, owner: object | None = None) -> None:
        self.spec = spec
        self.name = spec.name
        self.durable = spec.durable
        self.arguments: QueueArguments = parse(spec.arguments)
        self.owner = owner
        self.lane = lane
        self.consumers = Consumers(self, single_active=self.arguments.single_active_consumer)
        self.inbound: dict[Binding, None] = {}
        self.backlog = Backlog(context.window, self._read_back)
        self.unacked = 0
        self.deleted = False
        self.last_used = context.now()
        self._context = context
        self._position = context.boot << COUNTER_BITS
        self._stored_up_to = 0
        self._redelivered_up_to = 0
        self._touched = False
        self._watched = 0
        self._holders: dict[Outlet, None] = {}
        self._has_limits = self.arguments.max_length is not None or self.arguments.max_length_bytes is not None

    # In: publish, and what a limit makes of it

    def publish(self, message: Message) -> bool:
        """Take a message at the end. True if a confirm of it has to wait for the disk."""
        self._position = position = self._position + 1
        entry = Entry(self, position, message, len(message.body), self._expires_at(message))
        durable = self.durable and bool(message.flags & PERSISTENT)
        if durable or self.backlog.paging:
            self.lane.put(entry, durable=durable)
        self.backlog.append(entry)
        if self._has_limits:
            self._drop_overflow()
        self.touch()
        return durable

    @property
    def refuses(self) -> bool:
        """A limit with overflow reject-publish has been reached."""
        return self._has_limits and self.arguments.overflow != "drop-head" and self._over_limit(margin=1)

    def turn_away(self, message: Message) -> None:
        """A message the queue refuses: gone, or dead-lettered where overflow is reject-publish-dlx."""
        if self.arguments.overflow == "reject-publish-dlx" and self.arguments.dead_letter_exchange is not None:
            self._context.dead_letter(self, message, "maxlen")

    def touch(self) -> None:
        """There may be something to deliver at the end of this turn."""
        if not self._touched:
            self._touched = True
            self._context.turn.queues.append(self)

    def _expires_at(self, message: Message) -> int:
        own, given = self.arguments.message_ttl, message.expiration
        if own is None and given is None:
            return 0
        return self._context.now() + min(ttl for ttl in (own, given) if ttl is not None)

    def _over_limit(self, margin: int = 0) -> bool:
        messages, size_bytes = self.arguments.max_length, self.arguments.max_length_bytes
        if messages is not None and len(self.backlog) + margin > messages:
            return True
        return size_bytes is not None and self.backlog.bytes + margin > size_bytes

    def _drop_overflow(self) -> None:
        while self._over_limit():
            entry = self._pop()
            if entry is None:
                break
            self._die(entry, "maxlen")

    # Out: to consumers, to getters, and past their time

    def deliver(self) -> None:
        """Hand ready messages to the consumers that have credit, one each in turn."""
        self._touched = False
        while len(self.backlog):
            self.expire(strictly=True)
            turn = self.consumers.next()
            if turn is None:
                break
            consumer, credit, alone = turn
            self._hand_over(consumer, self._take(credit if alone else 1))
        self.expire()
        self._watch_head()

    def get(self, outlet: Outlet, *, no_ack: bool) -> Entry | None:
        """Take the first ready message for a channel that asked for one."""
        self.last_used = self._context.now()
        self.expire()
        entry = self._pop()
        if entry is None:
            return None
        if no_ack:
            self._settle_stored((entry,))
        else:
            self._hold(outlet, (entry,))
        return entry

    def expire(self, *, strictly: bool = False) -> None:
        """Let go of messages at the head whose time has passed; `strictly` spares those due this very moment."""
        while (entry := self.backlog.peek()) is not None and entry.expires_at:
            if entry.expires_at > self._context.now() - strictly:
                break
            self._load(entry)
            self.backlog.pop()
            self._die(entry, "expired")

    def _watch_head(self) -> None:
        entry = self.backlog.peek()
        if entry is not None and entry.expires_at and entry.expires_at != self._watched:
            self._watched = entry.expires_at
            self._context.timers.at(entry.expires_at, self.touch)

    def _take(self, limit: int) -> list[Entry]:
        taken: list[Entry] = []
        size_bytes = 0
        while len(taken) < limit and size_bytes < RUN_BYTES:
            entry = self._pop()
            if entry is None:
                break
            taken.append(entry)
            size_bytes += entry.size
            if entry.expires_at:
                break  # the next one may have expired: `deliver` looks again
        return taken

    def _pop(self) -> Entry | None:
        while (entry := self.backlog.pop()) is not None:
            if entry.message is not None or self._load(entry):
                return entry  # one whose record cannot be read is set aside by the store, the rest goes on
        return None

    def _hand_over(self, consumer: Consumer, entries: Sequence[Entry]) -> None:
        if not entries:
            return
        if not consumer.no_ack:
            consumer.unacked += len(entries)
            for entry in entries:
                entry.consumer = consumer
            self._hold(consumer.outlet, entries)
        consumer.outlet.deliver(consumer, entries)
        if consumer.no_ack:
            self._settle_stored(entries)

    def _hold(self, outlet: Outlet, entries: Sequence[Entry]) -> None:
        self.unacked += len(entries)
        self._holders[outlet] = None
        last = max((entry.position for entry in entries if entry.persistent), default=0)
        if last:
            self.lane.delivered(last)

    # Back: settled, requeued, rejected

    def settle(self, entry: Entry) -> None:
        """A delivered message is acknowledged."""
        self.unacked -= 1
        if entry.stored and not self.deleted:
            self.lane.settle(entry)

    def requeue(self, entries: Sequence[Entry]) -> None:
        """Delivered messages come back to their places, to be delivered again."""
        self.unacked -= len(entries)
        if self.deleted:
            return
        for entry in entries:
            entry.redelivered = True
            entry.consumer = None
        self.backlog.give_back(entries)
        self.touch()

    def reject(self, entry: Entry) -> None:
        """A consumer does not want a message and does not want it back in the queue."""
        self.unacked -= 1
        if not self.deleted:
            self._load(entry)
            self._die(entry, "rejected")

    def forget(self, outlet: Outlet) -> None:
        """A channel is gone, and everything it held has been given back."""
        self._holders.pop(outlet, None)

    def release(self, entry: Entry) -> None:
        """Drop a delivered message's content from memory if it is on disk."""
        if entry.stored and entry.position <= self._stored_up_to:
            entry.message = None

    def _die(self, entry: Entry, reason: str) -> None:
        if self.arguments.dead_letter_exchange is not None and entry.message is not None:
            self._context.dead_letter(self, entry.message, reason)
        self._settle_stored((entry,))

    def _settle_stored(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            if entry.stored:
                self.lane.settle(entry)

    # The whole: purge, delete, restore

    def purge(self) -> int:
        """Drop every ready message; their number."""
        survivors = [entry for outlet in self._holders for entry in outlet.unacked_of(self)]
        self.lane.purge(self._position + 1, survivors)
        return self.backlog.clear()

    def delete(self) -> int:
        """End: consumers are told, messages are gone. The number of ready messages."""
        self.deleted = True
        for consumer in list(self.consumers.members):
            self.consumers.remove(consumer)
            consumer.outlet.cancelled(consumer)
        return self.backlog.clear()

    def restore(self) -> None:
        """Start with what the store says is there."""
        state = self.lane.state
        self.lane.used = True
        self._stored_up_to = self._position
        self._redelivered_up_to = state.delivered_up_to
        self.backlog.restore(state.messages, state.bytes)

    def stored(self, up_to: int) -> None:
        """Everything this queue gave to the store up to a position is on disk."""
        self._stored_up_to = up_to
        if self.backlog.paging:
            self.backlog.stored(up_to)

    def lost(self, messages: int) -> None:
        """The store has set records aside that it could not read."""
        self.lane.state.messages -= messages

    def held(self) -> Iterable[Entry]:
        """The unacknowledged messages."""
        return (entry for outlet in self._holders for entry in outlet.unacked_of(self))

    # From disk

    def _read_back(self, after: int, before: int, window: Window) -> list[Entry]:
        found = self.lane.read(after, before, max(1, window.messages // 2), max(1, window.bytes // 2))
        return [self._entry(stored) for stored in found]

    def _entry(self, stored: StoredMessage) -> Entry:
        message = _message(stored)
        entry = Entry(self, stored.position, message, len(stored.body), stored.expires_at)
        entry.stored = True
        entry.persistent = bool(stored.flags & PERSISTENT) and self.durable
        entry.redelivered = stored.position <= self._redelivered_up_to
        return entry

    def _load(self, entry: Entry) -> bool:
        """Read a message's content, and that of its neighbours, back into memory; False if it is not there."""
        if entry.message is not None:
            return True
        missing = takewhile(lambda other: other.message is None, self.backlog.next_returned(FETCH_MESSAGES))
        wanted = {other.position: other for other in (entry, *missing)}
        for stored in self.lane.fetch(sorted(wanted)):
            wanted[stored.position].message = _message(stored)
        return entry.message is not None


def _message(stored: StoredMessage) -> Message:
    message = Message(stored.route, stored.header, stored.body, stored.flags)
    message.body_id = stored.body_id
    return message
