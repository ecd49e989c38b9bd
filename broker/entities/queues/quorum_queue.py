"""Quorum queues on one machine: the queue type whose messages are all kept, and counted each time they go out.

RabbitMQ's quorum queue is replicated; here it is a durable queue with everything else that a client sees of one.

- Whatever is published is kept, with any delivery mode, and confirmed once it is on disk.
- A message knows how often it was handed out. From the second time on it says so in the header `x-delivery-count`.
  Once it has come back oftener than `x-delivery-limit` allows, it is a dead letter.
- What comes back goes out again first, in the order in which it came back. Only where nothing limits how often,
  a message that a consumer gives back goes to the end: it would otherwise hold up all others for ever. What a
  consumer leaves behind by ending always goes out first.
- With `x-overflow` reject-publish the queue takes one message more than its limit, then none until it has sunk
  to four fifths of it.

The store keeps the count, so that it outlasts the process. A first delivery costs nothing more than in any queue:
the lane's highest delivered position says that everything up to it was handed out once. Each further one writes a
number. What was out when the process died has then been counted already, as if it had come back.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import islice
from typing import cast

from broker.entities.arguments.queue_arguments import QueueArguments
from broker.entities.messages.message import Message, OriginQueue, QueuedMessage
from broker.entities.queues.at_least_once import AtLeastOnce
from broker.entities.queues.consumer_prefetch import Outlet
from broker.entities.queues.ordered_queue import OrderedQueue
from broker.entities.queues.queue import QueueContext, QueueSpec, Roles
from broker.entities.queues.queue_background_work import CHUNK_BYTES
from broker.entities.queues.queue_limits import QueueLimits
from broker.entities.queues.queue_store import QueueStore, StorePlace
from broker.entities.queues.ready_messages import ReadyMessages
from broker.entities.scheduling.background_work import MESSAGE_BYTES, STEP_COPIES
from broker.wire.field_tables import Field, Table
from broker.wire.properties import decode_properties, encode_header
from storage.batch import PERSISTENT, StoredMessage

MAIN_LANE, DEAD_LETTERS_LANE = 0, 1
"""The lanes of the store in which a queue keeps its messages, and those that are dead and not yet taken elsewhere."""

COUNT_HEADERS = "x-delivery-count", "x-acquired-count"
"""What says how often a message was handed out; the second one to clients of RabbitMQ 4."""

LOW_WATER = 0.8
"""A queue that refuses messages takes them again when it is down to this part of its limit."""


class QuorumEntry(QueuedMessage):
    """A message's place in a quorum queue.

    `deliveries` counts how often it was handed out. While it is shown with its delivery count, `original` is the
    message without.
    """

    __slots__ = ("deliveries", "original")

    def __init__(self, queue: OriginQueue, position: int, message: Message | None, size: int, expires_at: int) -> None:
        super().__init__(queue, position, message, size, expires_at)
        self.deliveries = 0
        self.original: Message | None = None

    def hand_out(self) -> int:
        """It goes out once more; how often it has by now."""
        self.deliveries += 1
        return self.deliveries

    def show(self, count: int, headers: Iterable[str]) -> None:
        """Have the message say in headers how often it was handed out before."""
        self.original = self.original or self.message
        if self.original is not None:
            self.message = _counted(self.original, dict.fromkeys(headers, Field("l", count)))

    def conceal(self) -> None:
        """Have the message be as it was published."""
        if self.original is not None:
            self.message, self.original = self.original, None

    def another(self, position: int, size: int, expires_at: int) -> QueuedMessage:
        """Another one of its kind, without its content."""
        entry = QuorumEntry(self.queue, position, None, size, expires_at)
        entry.deliveries = self.deliveries
        return self._alike(entry)

    def release(self) -> None:
        """Let the content go from memory if it is on disk: it can be read again."""
        super().release()
        if self.message is None:
            self.original = None


class QuorumReadyMessages(ReadyMessages):
    """Ready messages: those that came back, in the order in which they did, then the others in publish order."""

    def give_back(self, entries: Sequence[QueuedMessage]) -> None:
        """Put messages behind those that came back before."""
        self._returned[:0] = reversed(entries)
        self.bytes += sum(entry.size for entry in entries)

    def _check_returned(self) -> None:
        """They are in the order in which they came back, which is recorded nowhere else."""

    def _run_of_returned(self, messages: int, size_bytes: int, now: int) -> list[QueuedMessage]:
        """None: those that came back have to be looked at one by one."""
        return []

    def peek(self) -> QueuedMessage | None:
        """The first ready message, left in place."""
        return self._returned[-1] if self._returned else super().peek()

    @property
    def head(self) -> QueuedMessage | None:
        """The first ready message, if it is in memory."""
        return self._returned[-1] if self._returned else super().head

    def run(self, messages: int, size_bytes: int, now: int) -> list[QueuedMessage]:
        """Take the first ready messages in one go: see `ReadyMessages.run`. One that was out before ends the run."""
        fresh = 0
        for entry in islice(self._head, messages):
            if entry.redelivered:
                break
            fresh += 1
        return super().run(fresh, size_bytes, now)


class QuorumStore(QueueStore):
    """A quorum queue's share of the message store; its dead letters have a lane of their own beside it."""

    def __init__(self, place: StorePlace) -> None:
        super().__init__(place, MAIN_LANE)
        self.dead_letters = QueueStore(place, DEAD_LETTERS_LANE)

    def count(self, entry: QueuedMessage) -> None:
        """Have it written how often a message was handed out."""
        self._open().deliveries[entry.position] = entry.deliveries

    def lost(self, number: int, messages: int, size_bytes: int) -> None:
        """The store has set aside records of one lane that it could not read."""
        if number == DEAD_LETTERS_LANE:
            self.dead_letters.lost(number, messages, size_bytes)
        else:
            super().lost(number, messages, size_bytes)

    def _entry(self, queue: OriginQueue, stored: StoredMessage) -> QueuedMessage:
        known = super()._entry(queue, stored)
        entry = QuorumEntry(queue, known.position, known.message, known.size, known.expires_at)
        entry.stored, entry.persistent = known.stored, known.persistent
        entry.deliveries = max(stored.delivery_count, known.redelivered)
        entry.redelivered = entry.deliveries > 0
        return entry


class QuorumLimits(QueueLimits):
    """QueueLimits of a quorum queue. Dead letters that wait count as messages of the queue when it refuses others."""

    def __init__(self, queue: QuorumQueue, context: QueueContext) -> None:
        self._quorum = queue
        self._refusing = False
        super().__init__(queue, context)

    def set(self, arguments: QueueArguments) -> None:
        """Hold to these limits from now on. As in RabbitMQ, reject-publish-dlx is for classic queues only."""
        super().set(arguments)
        self._refusing = False
        if self._overflow != "reject-publish":
            self._overflow = "drop-head"

    def refuses(self, message: Message) -> bool:
        """The queue has had too much, and has not got rid of enough since."""
        if self._overflow == "drop-head":
            return False
        self._look_at_level()
        return self._refusing

    def drop_excess(self) -> None:
        """Let go of the oldest where there are too many, or refuse others from now on."""
        if self._overflow == "drop-head":
            super().drop_excess()
        else:
            self._look_at_level()

    def _head_is_due(self) -> bool:
        """The first message is one to let go of: it has expired, or was out too often when the process died."""
        entry = self._quorum.ready_in_order.peek()
        return entry is not None and (self._quorum.exhausted(entry) or self._is_due(entry))

    def _expire_some(self) -> int:
        """Let go of a chunk of such messages at the head; how much it was."""
        queue, done = self._quorum, 0
        copies = self._turn.dead_letter_copies
        while done < CHUNK_BYTES and (entry := queue.ready_in_order.peek()) is not None and queue.exhausted(entry):
            queue.ready_in_order.pop()
            queue.drop_exhausted(entry)
            done = max(done + entry.size + MESSAGE_BYTES, MESSAGE_BYTES * (self._turn.dead_letter_copies - copies))
        return done or super()._expire_some()

    def _look_at_level(self) -> None:
        dead_letters = self._quorum.dead_letters
        if self.over(len(dead_letters), dead_letters.bytes):
            self._refusing = True
        elif self._refusing:
            self._refusing = not self._sunk(len(dead_letters), dead_letters.bytes)

    def _sunk(self, dead_letters: int, letter_bytes: int) -> bool:
        ready_messages = self._quorum.ready_in_order
        levels = (
            (len(ready_messages) + dead_letters, self._messages),
            (ready_messages.bytes + letter_bytes, self._bytes),
        )
        return all(limit is None or level <= limit * LOW_WATER for level, limit in levels)


class QuorumQueue(OrderedQueue):
    """A queue of type quorum: see the module."""

    def __init__(self, spec: QueueSpec, roles: Roles, context: QueueContext, owner: object | None = None) -> None:
        super().__init__(spec, roles, context, owner)
        self.returned_last = True
        self._lane: QuorumStore = roles.store
        self._ready = cast(QuorumReadyMessages, self.ready_messages)
        self.dead_letters: AtLeastOnce = AtLeastOnce(self, self._lane.dead_letters, context)
        self._count_headers = COUNT_HEADERS if context.personality.acquired_counts else COUNT_HEADERS[:1]

    def publish(self, message: Message) -> bool:
        """Take a message at the end. A confirm of it always waits for the disk."""
        position = self._position + 1
        if self.events is not None:
            position = self.events.arrived((message,), position, kept=True)
        self._position = position
        entry = QuorumEntry(self, position, message, len(message.body), self.limits.expires_at(message))
        if not message.persistent:
            entry.message = _kept(message)
        self._lane.put(entry, durable=True)
        self._ready.append(entry)
        if self.limits.on_length:
            self.limits.drop_excess()
        self.touch()
        return True

    def next_position(self, number: int | None) -> int:
        """A position behind all others of this queue, in whichever lane, for a message that it has already.

        `number` is what the event log knows the message by, None if by nothing.
        """
        self._position = self._position + 1 if self.events is None else self.events.moved(number)
        return self._position

    # Out

    def get(self, outlet: Outlet, *, no_ack: bool) -> QueuedMessage | None:
        """Take the first ready message for a channel that asked for one: it says its count even the first time."""
        entry = super().get(outlet, no_ack=no_ack)
        if entry is not None:
            entry.show(entry.deliveries if no_ack else entry.deliveries - 1, self._count_headers)
        return entry

    def pop(self) -> QueuedMessage | None:
        """Take the first ready message, its content in memory and ready to be shown; behind one that was out too often,
        the first whose time has not passed.
        """
        while (head := self._ready.peek()) is not None:
            if self.exhausted(head):
                self.limits.timed = True
                self.limits.expire(strictly=True)
                if self.limits.expiring:
                    break
                continue
            entry = super().pop()
            if entry is None:
                break
            if not self.exhausted(entry):
                if entry.redelivered:
                    entry.show(entry.deliveries, self._count_headers)
                return entry
            self.drop_exhausted(entry)
        return None

    def await_ack(self, outlet: Outlet, entries: Sequence[QueuedMessage], size: int) -> None:
        """Messages go out to a channel that has to acknowledge them, and are counted."""
        for entry in entries:
            if entry.hand_out() > 1:
                self._lane.count(entry)
        super().await_ack(outlet, entries, size)

    # Back

    def requeue(self, entries: Sequence[QueuedMessage], *, abandoned: bool = False) -> None:
        """Delivered messages come back: to the front, to the end, or never to be delivered again."""
        if self.deleted:
            self.out.remove(entries)
            return
        limit = self.delivery_limit
        take_back = partial(self._take_back, abandoned=abandoned)
        if limit is None:
            self.background_work.take_in(entries, take_back, writes=not abandoned, first=abandoned, ready=True)
            return
        if back := [entry for entry in entries if entry.deliveries <= limit]:
            self.background_work.take_in(back, take_back, writes=False, first=True, ready=True)
        if exhausted := [entry for entry in entries if entry.deliveries > limit]:
            drop = partial(self._drop_some, abandoned=abandoned)
            self.background_work.take_in(exhausted, drop, writes=True, first=False, ready=False)

    def _take_back(self, entries: Sequence[QueuedMessage], *, abandoned: bool) -> int:
        self._return_from_channels(entries, abandoned=abandoned)
        if abandoned or self.delivery_limit is not None:
            self.give_back(entries)
        else:
            self._put_at_the_end(entries)
        return len(entries)

    def _drop_some(self, entries: Sequence[QueuedMessage], *, abandoned: bool) -> int:
        if self.arguments.dead_letter_exchange is not None:
            entries = entries[:1]  # one dead letter in a step: it may be copied very often
        self._return_from_channels(entries, abandoned=abandoned)
        for entry in entries:
            self.drop_exhausted(entry)
        return len(entries)

    def _return_from_channels(self, entries: Sequence[QueuedMessage], *, abandoned: bool) -> None:
        if self.events is not None:
            self.events.requeued(entries, abandoned=abandoned)
        self.out.remove(entries)
        for entry in entries:
            entry.conceal()

    @property
    def may_time_out(self) -> bool:
        """Its deliveries have to be acknowledged in some time."""
        return True

    @property
    def delivery_limit(self) -> float | None:
        """How often a message may come back, by arguments and policies or else the personality; None: for ever."""
        said = self.arguments.delivery_limit
        if said is None:
            return self._context.personality.delivery_limit
        return None if said == math.inf else said

    def exhausted(self, entry: QueuedMessage) -> bool:
        """The message was handed out and came back oftener than it may."""
        limit = self.delivery_limit
        return limit is not None and entry.deliveries > limit

    def drop_exhausted(self, entry: QueuedMessage) -> None:
        """A message was handed out too often."""
        self.load(entry)
        self.discard((entry,), "delivery_limit")

    def _put_at_the_end(self, entries: Sequence[QueuedMessage]) -> None:
        self.store.load([entry for entry in entries if entry.message is None])
        for entry in entries:
            if entry.message is not None:
                self._append_again(entry)
        self.store.settle(entries, moved=True)
        if self.limits.on_length:
            self.limits.drop_excess_of_returned()
        self.touch()

    def _append_again(self, entry: QueuedMessage) -> None:
        position = self.next_position(entry.position)
        again = QuorumEntry(self, position, entry.message, entry.size, entry.expires_at)
        again.deliveries, again.redelivered = entry.deliveries, True
        self._lane.put(again, durable=True)
        self._lane.count(again)
        self._ready.append(again)

    # Gone

    def discard(self, entries: Sequence[QueuedMessage], reason: str) -> int:
        """Messages leave without having been acknowledged: see `AtLeastOnce` for what may keep them here."""
        for entry in entries:
            entry.conceal()
        if not self.dead_letters.wanted:
            return super().discard(entries, reason)
        count, copies = 0, self._context.turn.dead_letter_copies
        for count, entry in enumerate(entries, 1):  # noqa: B007
            if self.events is not None:
                self.events.discarded((entry,), reason, self.arguments.dead_letter_exchange)
            if entry.message is not None:
                self.dead_letters.add(entry.message, reason)
            if self._context.turn.dead_letter_copies - copies >= STEP_COPIES:
                break
        self.finish(entries[:count], moved=True)
        self.counters.died(count, reason, "at_least_once")
        return count

    def delete(self) -> int:
        """End: no consumers, no messages. The number of ready messages."""
        self.dead_letters.end()
        return super().delete()

    def restore(self) -> None:
        """Start with what the store says is there."""
        super().restore()
        self.dead_letters.restore()

    def check(self) -> None:
        """Raise AssertionError unless the queue is sound, and its dead letters are."""
        super().check()
        if not self.deleted:
            self.dead_letters.check()

    def stored(self, lane: int, up_to: int) -> None:
        """Everything this queue gave to one lane up to a position is on disk."""
        if lane == DEAD_LETTERS_LANE:
            self.dead_letters.stored(up_to)
        else:
            super().stored(lane, up_to)


def _kept(message: Message) -> Message:
    """A transient message as one that is kept."""
    kept = message.copy()
    kept.flags |= PERSISTENT
    return kept


def _counted(message: Message, counts: Table) -> Message:
    """A message with its counts among the headers, which RabbitMQ sorts when it adds one."""
    properties = decode_properties(message.header)
    headers = {**(properties.headers or {}), **counts}
    counted = message.copy()
    counted.header = encode_header(len(message.body), properties._replace(headers=dict(sorted(headers.items()))))
    return counted
