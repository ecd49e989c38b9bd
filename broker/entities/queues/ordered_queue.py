"""Queues whose messages are taken in order: what is ready goes out, comes back, dies, or is acknowledged.

What is ready lies in the `ReadyMessages`, what is out with consumers or getters in the ledgers of their channels.
Persistent messages of a durable queue are also in the queue's store, from the publish until they are settled. How a
message comes in is for each type of queue to say; in a classic queue without priorities it stands behind the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import chain
from operator import attrgetter
from typing import Final, Protocol, cast

from broker.entities.messages.message import Message, QueuedMessage
from broker.entities.queues.consumer_prefetch import Outlet
from broker.entities.queues.queue import (
    LOAD_BYTES,
    RUN_BYTES,
    DeadLetterGroup,
    Queue,
    QueueContext,
    QueueSpec,
    ReadyRole,
    Roles,
)
from broker.entities.queues.queue_background_work import QueueBackgroundWork
from broker.entities.queues.queue_store import QueueStore
from broker.entities.queues.ready_messages import ReadyMessages
from broker.entities.scheduling.future import Future
from storage.batch import PERSISTENT

RUN_MESSAGES: Final = 1024
"""How much one consumer is given, with RUN_BYTES, before it is asked again for its credit."""

DELIVER_MESSAGES: Final = 1024
"""How much a queue delivers before it is asked whether others of the turn have to be served first."""

LOAD_MESSAGES: Final = 256
"""How many given-back messages are read from disk at a time, with LOAD_BYTES: one at least."""


class OrderedReadyRole(ReadyRole, Protocol):
    """ReadyRole messages that have an order. What each method means is said in `ReadyMessages`."""

    @property
    def paging(self) -> bool: ...

    def restore(self, messages: int, size_bytes: int, number: int = 0) -> None: ...

    def stored(self, up_to: int, number: int = 0) -> None: ...

    def give_back(self, entries: Sequence[QueuedMessage]) -> None: ...

    def peek(self) -> QueuedMessage | None: ...

    def pop(self) -> QueuedMessage | None: ...

    def run(self, messages: int, size_bytes: int, now: int) -> list[QueuedMessage]: ...

    def due(self, now: int, room: int) -> list[QueuedMessage]: ...

    def next_returned(self, limit: int) -> list[QueuedMessage]: ...

    def clear(self) -> int: ...

    def resident(self) -> list[QueuedMessage]: ...


class OrderedQueue(Queue):
    """A queue from whose front messages are taken. `ready_in_order`: its ready messages, typed as ordered ones."""

    def __init__(self, spec: QueueSpec, roles: Roles, context: QueueContext, owner: object | None = None) -> None:
        self.background_work = QueueBackgroundWork(self, context.background_work, context.batches, context.turn)
        super().__init__(spec, roles, context, owner)
        self.ready_in_order = cast(OrderedReadyRole, self.ready_messages)

    # Out: to consumers and getters

    def deliver(self) -> None:
        """Hand ready messages to the consumers that have credit, one each in turn; of very many, some at a time.

        What has had its time goes, whether consumers are served now or have to wait.
        """
        self._touched = False
        limits, left = self.limits, DELIVER_MESSAGES
        waits = (
            self.background_work.messages or self.background_work.expected
        ) and self.background_work.delays_delivery
        while left > 0 and not waits and self.consumers.members and len(self.ready_in_order):
            if limits.timed:
                limits.expire(strictly=True)
                if limits.expiring:
                    break
            next_served = self.consumers.next()
            if next_served is None:
                self.consumers.stall()
                break
            consumer, credit, alone = next_served
            entries = self.take(min(credit, left) if alone else 1)
            if entries:
                consumer.give(entries)
                left -= len(entries)
        if limits.timed:
            limits.expire()
            limits.watch()
        if left <= 0:
            self.touch()

    def busy(self) -> Future[None] | None:
        """What has to be over before the first message may be taken: more came back, or has expired, than can be dealt
        with in one turn. None, as a rule, for nothing.
        """
        self.limits.expire()
        if self.background_work.expected:
            return self.background_work.expected[0]
        return self.background_work.begin() if self.limits.expiring or self.background_work.delays_delivery else None

    def get(self, outlet: Outlet, *, no_ack: bool) -> QueuedMessage | None:
        """Take the first ready message for a channel that asked for one."""
        self.use()
        if self.busy() is not None:
            return None
        entry = self.pop()
        self.limits.expire()
        self.limits.watch()
        if entry is None:
            return None
        if no_ack:
            self.finish((entry,))
        else:
            self.await_ack(outlet, (entry,), entry.size)
        return entry

    def take(self, limit: int) -> list[QueuedMessage]:
        """The next messages for one consumer: a run of them, as long as none may have expired meanwhile."""
        limit = min(limit, RUN_MESSAGES)
        taken = self.ready_in_order.run(limit, RUN_BYTES, self.limits.moment())
        size_bytes = RUN_BYTES if taken else 0
        while len(taken) < limit and size_bytes < RUN_BYTES:
            if taken and ((head := self.ready_in_order.peek()) is None or head.expires_at):
                break
            entry = self.pop()
            if entry is None:
                break
            taken.append(entry)
            size_bytes += entry.size
        return taken

    def pop(self) -> QueuedMessage | None:
        """Take the first ready message, its content in memory. One whose record cannot be read is passed over."""
        while (entry := self.ready_in_order.pop()) is not None:
            if self.load(entry):
                return entry
        return None

    def load(self, entry: QueuedMessage) -> bool:
        """Have a message's content in memory, with that of its neighbours; False if it cannot be read."""
        if entry.message is None:
            wanted, bytes_left = [entry], LOAD_BYTES - entry.size
            for other in self.ready_in_order.next_returned(LOAD_MESSAGES):
                bytes_left -= other.size
                if other.message is not None or bytes_left < 0:
                    break
                wanted.append(other)
            self.store.load(wanted)
        return entry.message is not None

    def await_ack(self, outlet: Outlet, entries: Sequence[QueuedMessage], size: int) -> None:
        """Messages, in order, whose bodies have `size` bytes, go out to a channel that has to acknowledge them."""
        self.out.add(len(entries), size)
        self._outlets[outlet] = None
        self.store.delivered(entries)

    # Back: requeued, rejected

    def requeue(self, entries: Sequence[QueuedMessage], *, abandoned: bool = False) -> None:
        """Delivered messages come back to their places, to be delivered again.

        Some types of queue treat those differently that were `abandoned`: not given back, but left by a channel's end.
        """
        if self.deleted:
            self.out.remove(entries)
            return
        if len(entries) > RUN_MESSAGES:  # so many are put into their places last first, which costs least
            entries = sorted(entries, key=_position, reverse=True)
        take_back = partial(self._take_back, abandoned=abandoned)
        self.background_work.take_in(entries, take_back, writes=False, first=True, ready=True)

    def _take_back(self, entries: Sequence[QueuedMessage], *, abandoned: bool) -> int:
        if self.events is not None:
            self.events.requeued(entries, abandoned=abandoned)
        self.out.remove(entries)
        self.give_back(entries)
        return len(entries)

    def give_back(self, entries: Sequence[QueuedMessage]) -> None:
        """Have messages that came back in their places again."""
        for entry in entries:
            entry.redelivered = True
            entry.consumer = None
        self.ready_in_order.give_back(entries)
        if self.limits.on_length and not (self.background_work.messages or self.background_work.expected):
            self.limits.drop_excess_of_returned()
        self.touch()

    def expect(self, back: Future[None]) -> None:
        """Messages are about to come back, some in each turn, the last first; nothing is delivered before all have."""
        self.background_work.expect(back)

    def reject(self, entries: Sequence[QueuedMessage]) -> None:
        """A consumer does not want messages and does not want them back in the queue."""
        if self.deleted:
            self.out.remove(entries)
        elif self.arguments.dead_letter_exchange is None:  # as an acknowledgement: a full disk gets room by it
            self._reject(entries)
        else:
            self.background_work.take_in(entries, self._reject, writes=True, first=False, ready=False)

    def _reject(self, entries: Sequence[QueuedMessage]) -> int:
        if self.arguments.dead_letter_exchange is not None:
            self.store.load([entry for entry in entries if entry.message is None])
        self.out.remove(entries)
        count = self.discard(entries, "rejected")
        left = entries[count:]
        self.out.add(len(left), sum(entry.size for entry in left))
        return count

    @property
    def unacknowledged(self) -> Iterable[QueuedMessage]:
        """The unacknowledged messages, with those that came back and are not dealt with yet."""
        return chain(super().unacknowledged, self.background_work.entries)

    # Gone: dead letters, or nothing

    def discard(self, entries: Sequence[QueuedMessage], reason: str) -> int:
        """Messages leave without having been acknowledged: dead letters, if the queue has a place for them.

        How many those are, the first of them: all, unless dead letters go to so many queues that one step is too short.
        """
        exchange = self.arguments.dead_letter_exchange
        written: list[DeadLetterGroup] = []
        if exchange is not None and (messages := [entry.message for entry in entries if entry.message is not None]):
            written = self._context.dead_letters.write(self, messages, reason)
            if (count := sum(len(letters.copies) for letters in written)) < len(messages):
                entries = _first_readable(entries, count)
        if self.events is not None:
            self.events.discarded(entries, reason, exchange, written)
        if written:
            self._context.dead_letters.publish(written)
        self.finish(entries, moved=exchange is not None)
        self.counters.died(len(entries), reason, self._strategy)
        return len(entries)

    @property
    def _strategy(self) -> str:
        return "disabled" if self.arguments.dead_letter_exchange is None else "at_most_once"

    def turn_away(self, message: Message, reason: str) -> None:
        """A message that is not taken in goes to the queue's dead-letter exchange, if it has one."""
        exchange = self.arguments.dead_letter_exchange
        self.counters.died(1, reason, self._strategy)
        written = [] if exchange is None else self._context.dead_letters.write(self, (message,), reason)
        if self.events is not None:
            self.events.turned_away(message, reason, exchange, written)
        if written:
            self._context.dead_letters.publish(written)

    # The whole: purge, restore

    def purge(self) -> int:
        """Drop every ready message, and those that are on their way to be ready again; their number."""
        returned = self.background_work.purge()
        self.out.remove(returned)
        if self.events is not None:
            self.events.purged(self._position + 1, self.unacknowledged)
        self.store.purge(self._position + 1, self.unacknowledged)
        return len(returned) + self.ready_in_order.clear()

    def delete(self) -> int:
        """End: no consumers, no messages. The number of ready messages."""
        self.out.remove(self.background_work.end())
        return super().delete()

    def restore(self) -> None:
        """Start with what the store says is there."""
        self.stored_up_to = self._position
        for number, lane in self.store.restore().items():
            self.ready_in_order.restore(lane.state.messages, lane.state.bytes, number)
        self.limits.timed = len(self.ready_in_order) > 0

    def stored(self, lane: int, up_to: int) -> None:
        """Everything this queue gave to one lane of its store up to a position is on disk."""
        self.stored_up_to = max(up_to, self.stored_up_to)
        if self.ready_in_order.paging:
            self.ready_in_order.stored(up_to, lane)

    def check(self) -> None:
        """Raise AssertionError unless what is ready, what is out and what the store counts agree: see `Invariants`."""
        super().check()
        if self.deleted:
            return
        self.background_work.check()
        out, resident = list(self.unacknowledged), self.ready_in_order.resident()
        assert self.unacked == len(out), f"{len(out)} messages are out, {self.unacked} are counted"
        out_bytes = sum(entry.size for entry in out)
        assert self.out.bytes == out_bytes, f"{out_bytes} bytes are out, {self.out.bytes} are counted"
        both = {entry.position for entry in out} & {entry.position for entry in resident}
        assert not both, f"messages {sorted(both)} are ready and out"
        for entry in (*resident, *out):
            assert entry.queue is self, f"message {entry.position} is of another queue"
            assert entry.position <= self._position, f"message {entry.position} is behind the last, {self._position}"
        for consumer, count in Counter(entry.consumer for entry in out).items():
            assert consumer is None or consumer.unacked == count, f"consumer {consumer.tag} holds {count} messages"
        self.store.check([*resident, *out], complete=not self.ready_in_order.paging)


class ClassicQueue(OrderedQueue):
    """A queue of type classic, without priorities."""

    def __init__(self, spec: QueueSpec, roles: Roles, context: QueueContext, owner: object | None = None) -> None:
        super().__init__(spec, roles, context, owner)
        self._lane: QueueStore = roles.store
        self._ready = cast(ReadyMessages, self.ready_messages)

    def publish(self, message: Message) -> bool:
        """Take a message at the end. True if a confirm of it has to wait for the disk."""
        position = self._position + 1
        durable = self.durable and bool(message.flags & PERSISTENT)
        if self.events is not None:
            position = self.events.arrived((message,), position, kept=durable)
        self._position = position
        limits = self.limits
        expires_at = limits.expires_at(message) if limits.on_time or message.expiration is not None else 0
        entry = QueuedMessage(self, position, message, len(message.body), expires_at)
        if durable or self._ready.paging:
            self._lane.put(entry, durable=durable)
        self._ready.append(entry)
        if limits.on_length:
            limits.drop_excess()
        if not self._touched:  # as `touch`, which here would be a call for each publish
            self._touched = True
            self._turn.queues.append(self)
        return durable

    def publish_all(self, messages: Sequence[Message]) -> bool:
        """Take a run of messages at the end: all persistent or none. True if a confirm has to wait for the disk."""
        limits, now = self.limits, 0
        if limits.on_length:
            return super().publish_all(messages)
        ready_messages = self._ready
        first = self._position + 1
        durable = self.durable and bool(messages[0].flags & PERSISTENT)
        if self.events is not None:
            first = self.events.arrived(messages, first, kept=durable)
        entries, position, on_time = [], first, limits.on_time
        for message in messages:
            expires_at = 0
            if on_time or message.expiration is not None:
                now = now or self._context.now()
                expires_at = limits.expires_at(message, now)
            entries.append(QueuedMessage(self, position, message, len(message.body), expires_at))
            position += 1
        self._position = position - 1
        if durable or ready_messages.paging:
            self._lane.put_all(entries, durable=durable)
        ready_messages.extend(entries)
        if not self._touched:
            self.touch()
        return durable


_position: Final = attrgetter("position")


def _first_readable(entries: Sequence[QueuedMessage], count: int) -> Sequence[QueuedMessage]:
    """The first entries, up to the last of so many that have their content."""
    for end, entry in enumerate(entries, 1):
        count -= entry.message is not None
        if not count:
            return entries[:end]
    return entries
