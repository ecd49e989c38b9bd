"""Queues whose messages are taken in order: deliver, requeue, reject, dead-letter, purge. And the classic queue.

Ready messages are in `ReadyMessages`, unacknowledged ones in the ledgers of their channels. Persistent messages of a
durable queue are in the queue's store too, from the publish until they are settled. Each type of queue has its own
`publish`; a classic queue without priorities appends.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import chain
from operator import attrgetter
from typing import Final, Protocol, cast

from broker.entities.arguments.personality import Personality
from broker.entities.arguments.queue_arguments import QueueArguments
from broker.entities.messages.message import Message, QueuedMessage, carried_count, carrying
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
from broker.entities.queues.ready_messages import Front, ReadyMessages
from broker.entities.scheduling.future import Future
from storage.batch import PERSISTENT

RUN_MESSAGES: Final = 1024
"""Messages, with RUN_BYTES, that one consumer is given before its credit is read again."""

DELIVER_MESSAGES: Final = 1024
"""Messages that a queue delivers before other queues of the turn are served."""

LOAD_MESSAGES: Final = 256
"""Returned messages read from disk at a time, with LOAD_BYTES: at least one."""


class OrderedReadyRole(ReadyRole, Protocol):
    """The role of ready messages that are taken in order. `ReadyMessages` documents the methods."""

    @property
    def paging(self) -> bool: ...

    @property
    def fronts(self) -> Sequence[Front]: ...

    def append(self, entry: QueuedMessage) -> None: ...

    def restore(self, messages: int, size_bytes: int, number: int = 0) -> None: ...

    def stored(self, up_to: int, number: int = 0) -> None: ...

    def give_back(self, entries: Sequence[QueuedMessage]) -> None: ...

    def put_back(self, entries: Sequence[QueuedMessage]) -> None: ...

    def peek(self) -> QueuedMessage | None: ...

    def pop(self) -> QueuedMessage | None: ...

    def run(self, messages: int, size_bytes: int, now: int) -> list[QueuedMessage]: ...

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
        """Deliver ready messages round-robin to consumers with credit, at most DELIVER_MESSAGES; then expire messages.

        Messages expire whether or not anything can be delivered.
        """
        self._touched = False
        limits, left, work = self.limits, DELIVER_MESSAGES, self.background_work
        # The first part decides nearly always, without the property's call.
        waits = (work.messages or work.expected) and work.delays_delivery
        while left > 0 and not waits and self.consumers.members and len(self.ready_in_order):
            if limits.timed:
                # Not those that expired while this turn was going on: see `QueueLimits.moment`.
                limits.expire(strictly=True)
                if limits.expiring:
                    break
            next_served = self.consumers.next()
            if next_served is None:
                self.consumers.stall()
                break
            consumer, credit, alone = next_served
            # With others of its priority a consumer gets one message at a time: that is RabbitMQ's round-robin.
            entries = self.take(min(credit, left) if alone else 1)
            if entries:
                consumer.give(entries)
                left -= len(entries)
        if limits.timed:
            limits.expire()
            limits.watch()
        if left <= 0:  # others of this turn first, then the rest
            self.touch()

    def busy(self) -> Future[None] | None:
        """Return a future to wait for before a message is taken; usually None.

        There is one while more messages were returned, or have expired, than one turn can handle.
        """
        self.limits.expire()
        if self.background_work.expected:
            return self.background_work.expected[0]
        return self.background_work.begin() if self.limits.expiring or self.background_work.delays_delivery else None

    def get(self, outlet: Outlet, *, no_ack: bool) -> QueuedMessage | None:
        """Take the first ready message for basic.get; None if there is none."""
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
        """Take up to `limit` messages for one consumer, at most RUN_MESSAGES and RUN_BYTES.

        Ends early where the next message may have expired meanwhile.
        """
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
        """Take the first ready message with its content; None without one. Messages that cannot be read are skipped."""
        while (entry := self.ready_in_order.pop()) is not None:
            if self.load(entry):
                return entry
        return None

    def load(self, entry: QueuedMessage) -> bool:
        """Read a message's content into memory, with its neighbours'; return False if it cannot be read."""
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
        """Count messages, in order, as unacknowledged on a channel; `size`: bytes of their bodies."""
        self.out.add(len(entries), size)
        self._outlets[outlet] = None
        self.store.delivered(entries)

    # Back: requeued, rejected

    def requeue(self, entries: Sequence[QueuedMessage], *, abandoned: bool = False, rejected: bool = False) -> None:
        """Requeue delivered messages at their positions.

        `abandoned`: their channel has ended; quorum queues treat these differently from basic.nack and basic.recover.
        """
        if self.deleted:  # nothing to return them to
            self.out.remove(entries)
            return
        if (abandoned or rejected) and self._context.personality.classic_counts:
            _count_failure(entries)
        if len(entries) > RUN_MESSAGES:  # inserted in several steps, which costs least in descending order
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
        """Make returned messages ready again, with the redelivered flag."""
        for entry in entries:
            entry.redelivered = True
            entry.consumer = None
        self.ready_in_order.give_back(entries)
        if self.limits.on_length and not (self.background_work.messages or self.background_work.expected):
            self.limits.drop_excess_of_returned()
        self.touch()

    def expect(self, back: Future[None]) -> None:
        """Deliver nothing until `back` is settled, when a requeue over several turns, last message first, is
        complete."""
        self.background_work.expect(back)

    def reject(self, entries: Sequence[QueuedMessage]) -> None:
        """Reject delivered messages without requeue: dead-letter them if there is a dead-letter exchange."""
        arguments = self.arguments
        if self.deleted:
            self.out.remove(entries)
        elif arguments.dead_letter_exchange is None:  # as an acknowledgement: this frees space on a full disk
            self._reject(entries, arguments)
        else:
            # The disk may be full until after a change of policies: the dead letters are those of now.
            reject = partial(self._reject, arguments=arguments)
            self.background_work.take_in(entries, reject, writes=True, first=False, ready=False)

    def _reject(self, entries: Sequence[QueuedMessage], arguments: QueueArguments) -> int:
        if arguments.dead_letter_exchange is not None:
            self.store.load([entry for entry in entries if entry.message is None])
        self.out.remove(entries)
        count = self.discard(entries, "rejected", arguments)
        left = entries[count:]
        self.out.add(len(left), sum(entry.size for entry in left))
        return count

    @property
    def unacknowledged(self) -> Iterable[QueuedMessage]:
        """The unacknowledged messages, including returned ones that are not handled yet."""
        return chain(super().unacknowledged, self.background_work.entries)

    # Gone: dead letters, or nothing

    def discard(self, entries: Sequence[QueuedMessage], reason: str, arguments: QueueArguments | None = None) -> int:
        """Dead-letter messages, or drop them without a dead-letter exchange; return how many of the first it were.

        All, unless their dead letters go to more queues than one step may copy to. `arguments` were in force when they
        died, if not those of now.
        """
        arguments = arguments or self.arguments
        exchange = arguments.dead_letter_exchange
        written: list[DeadLetterGroup] = []
        dead = [] if exchange is None else [died(entry, reason, self._context.personality) for entry in entries]
        if messages := [message for message in dead if message is not None]:
            written = self._context.dead_letters.write(self, messages, reason, arguments)
            if (count := sum(len(group.copies) for group in written)) < len(messages):
                entries = _first_readable(entries, count)
        if self.events is not None:
            self.events.discarded(entries, reason, exchange, written)
        if written:
            self._context.dead_letters.publish(written)
        self.finish(entries, moved=exchange is not None)
        self.counters.died(len(entries), reason, _strategy(arguments))
        return len(entries)

    def turn_away(self, message: Message, reason: str) -> None:
        """Dead-letter a message that the queue refused, if it has a dead-letter exchange."""
        arguments = self.arguments
        exchange = arguments.dead_letter_exchange
        self.counters.died(1, reason, _strategy(arguments))
        written = [] if exchange is None else self._context.dead_letters.write(self, (message,), reason, arguments)
        if self.events is not None:
            self.events.turned_away(message, reason, exchange, written)
        if written:
            self._context.dead_letters.publish(written)

    # The whole: purge, restore

    def purge(self) -> int:
        """Drop every ready message and every message being requeued; return their number."""
        returned = self.background_work.purge()
        self.out.remove(returned)
        if self.events is not None:
            self.events.purged(self._position + 1, self.unacknowledged)
        self.store.purge(self._position + 1, self.unacknowledged)
        return len(returned) + self.ready_in_order.clear()

    def delete(self) -> int:
        """Drop consumers and messages; return the number of ready messages."""
        self.out.remove(self.background_work.end())
        return super().delete()

    def restore(self) -> None:
        """Take up the messages that are on disk at a start."""
        self.stored_up_to = self._position
        for number, lane in self.store.restore().items():
            self.ready_in_order.restore(lane.state.messages, lane.state.bytes, number)
        self.limits.timed = len(self.ready_in_order) > 0

    def stored(self, lane: int, up_to: int) -> None:
        """Note that all puts into one lane, up to a position, are on disk."""
        self.stored_up_to = max(up_to, self.stored_up_to)
        if self.ready_in_order.paging:
            self.ready_in_order.stored(up_to, lane)

    def check(self) -> None:
        """Raise AssertionError unless ready messages, unacknowledged ones and the store's counts agree."""
        super().check()
        if self.deleted:
            return
        self.background_work.check()
        out, resident = list(self.unacknowledged), self.ready_in_order.resident()
        assert self.unacked == len(out), f"{len(out)} messages are unacknowledged, {self.unacked} are counted"
        out_bytes = sum(entry.size for entry in out)
        assert self.out.bytes == out_bytes, f"{out_bytes} bytes are unacknowledged, {self.out.bytes} are counted"
        both = {entry.position for entry in out} & {entry.position for entry in resident}
        assert not both, f"messages {sorted(both)} are ready and unacknowledged"
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
        """Append a message; return True if its confirm has to wait for the disk."""
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
        if not self._touched:  # `touch` inlined: this is called for each publish
            self._touched = True
            self._turn.queues.append(self)
        return durable

    def publish_all(self, messages: Sequence[Message]) -> bool:
        """Append messages, all persistent or none; return True if their confirms have to wait for the disk."""
        limits, now = self.limits, 0
        if limits.on_length:  # each message may drop another one
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


def died(entry: QueuedMessage, reason: str, personality: Personality) -> Message | None:
    """Return the content of a message that died. In 4.x it carries its delivery count: a quorum queue counts on."""
    message = entry.message
    if message is None or not personality.carried_counts:
        return message
    return carrying(message, entry.failures(reason))


def _count_failure(entries: Sequence[QueuedMessage]) -> None:
    """Have returned messages carry one failure more; those whose content is on disk only forget theirs."""
    for entry in entries:
        if (message := entry.message) is not None:
            entry.message = carrying(message, carried_count(message.flags) + 1)


_position: Final = attrgetter("position")


def _first_readable(entries: Sequence[QueuedMessage], count: int) -> Sequence[QueuedMessage]:
    """Return the first entries, up to the `count`-th one that has its content."""
    for end, entry in enumerate(entries, 1):
        count -= entry.message is not None
        if not count:
            return entries[:end]
    return entries


def _strategy(arguments: QueueArguments) -> str:
    return "disabled" if arguments.dead_letter_exchange is None else "at_most_once"
