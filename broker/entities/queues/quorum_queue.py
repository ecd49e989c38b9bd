"""Quorum queues on one machine: every message is kept, and its deliveries are counted.

RabbitMQ's quorum queue is replicated; here it is a durable queue with everything else that a client sees of one.

- Every message is kept, whatever its delivery mode, and confirmed once it is on disk.
- Deliveries are counted per message; from the second one on the count is in the header `x-delivery-count`. A message
  returned more than `x-delivery-limit` times is dead-lettered; as RabbitMQ 4.3, basic.nack and basic.recover do not
  count for the limit.
- Returned messages are delivered first, in the order of their return. Without a delivery limit, a message that its
  consumer returns goes to the end instead, or it could block all others for ever. Messages of a consumer that has ended
  are always delivered first.
- With `x-overflow` reject-publish the queue accepts one message more than its limit, then none until it has fallen to
  four fifths of it.

The count survives a restart. The first delivery costs no more than in other queues: the lane's delivered mark says that
every message up to it was delivered once. Each further delivery writes a number. For messages that were unacknowledged
when the process died, the delivery is already counted, as if they had been returned.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
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
from storage.batch import PERSISTENT, DeliveryCounts, StoredMessage, unpacked_counts

MAIN_LANE, DEAD_LETTERS_LANE = 0, 1
"""The lane of the queue's messages, and the lane of dead letters that no target has accepted yet."""

DEFAULT_PRIORITY = 4
"""The priority of a message without one."""

LOW_WATER = 0.8
"""A queue that refuses messages accepts them again once it is down to this fraction of its limit."""


class QuorumEntry(QueuedMessage):
    """A message in a quorum queue.

    `deliveries` counts its deliveries, `uncounted` those of them that do not count for the delivery limit. While
    `message` has the counts in its headers, `original` is the message without.
    """

    __slots__ = ("deliveries", "original", "uncounted")

    def __init__(self, queue: OriginQueue, position: int, message: Message | None, size: int, expires_at: int) -> None:
        super().__init__(queue, position, message, size, expires_at)
        self.deliveries = 0
        self.uncounted = 0
        self.original: Message | None = None

    def hand_out(self) -> int:
        """Count one more delivery; return the count."""
        self.deliveries += 1
        return self.deliveries

    def uncount(self) -> None:
        """Have the last delivery not count for the delivery limit."""
        self.uncounted += 1

    def show(self, counts: Table) -> None:
        """Put counts among the headers of the message."""
        self.original = self.original or self.message
        if self.original is not None and counts:
            self.message = _counted(self.original, counts)

    def conceal(self) -> None:
        """Restore the message as it was published."""
        if self.original is not None:
            self.message, self.original = self.original, None

    def another(self, position: int, size: int, expires_at: int) -> QueuedMessage:
        """Return another message of the same `kind`, without content."""
        entry = QuorumEntry(self.queue, position, None, size, expires_at)
        entry.deliveries, entry.uncounted = self.deliveries, self.uncounted
        return self._alike(entry)

    def release(self) -> None:
        """Drop the content from memory if it is on disk, where it can be read again."""
        super().release()
        if self.message is None:
            self.original = None


class QuorumReadyMessages(ReadyMessages):
    """Ready messages: returned ones in the order of their return, then the others in publish order."""

    def give_back(self, entries: Sequence[QueuedMessage]) -> None:
        """Put returned messages behind those that were returned before."""
        self._returned[:0] = reversed(entries)
        self.bytes += sum(entry.size for entry in entries)

    @property
    def returned(self) -> int:
        """The number of returned messages."""
        return len(self._returned)

    def _check_returned(self) -> None:
        """Check nothing: the order of return is recorded nowhere else."""

    def _run_of_returned(self, messages: int, size_bytes: int, now: int) -> list[QueuedMessage]:
        """Return nothing: each returned message's delivery count has to be checked."""
        return []

    def peek(self) -> QueuedMessage | None:
        """Return the first ready message and leave it; None without one. May read from disk."""
        return self._returned[-1] if self._returned else super().peek()

    @property
    def head(self) -> QueuedMessage | None:
        """The first ready message, if it is in memory."""
        return self._returned[-1] if self._returned else super().head

    def run(self, messages: int, size_bytes: int, now: int) -> list[QueuedMessage]:
        """Take the first ready messages: see `ReadyMessages.run`. Stops before a redelivered one."""
        fresh = 0
        for entry in islice(self._head, messages):
            if entry.redelivered:
                break
            fresh += 1
        return super().run(fresh, size_bytes, now)


class QuorumStore(QueueStore):
    """A quorum queue's part of the message store: one lane for messages, one for waiting dead letters."""

    def __init__(self, place: StorePlace) -> None:
        super().__init__(place, MAIN_LANE)
        self.dead_letters = QueueStore(place, DEAD_LETTERS_LANE)

    def count(self, entry: QueuedMessage) -> None:
        """Put a message's delivery counts into the open batch."""
        self._open().deliveries[entry.position] = _counts(entry).packed()

    def lost(self, number: int, messages: int, size_bytes: int) -> None:
        """Subtract records of one lane that could not be read, and were set aside."""
        if number == DEAD_LETTERS_LANE:
            self.dead_letters.lost(number, messages, size_bytes)
        else:
            super().lost(number, messages, size_bytes)

    def _entry(self, queue: OriginQueue, stored: StoredMessage) -> QueuedMessage:
        known = super()._entry(queue, stored)
        entry = QuorumEntry(queue, known.position, known.message, known.size, known.expires_at)
        entry.stored, entry.persistent = known.stored, known.persistent
        counts = unpacked_counts(stored.delivery_count)
        entry.deliveries, entry.uncounted = max(counts.all, known.redelivered), counts.uncounted
        entry.redelivered = entry.deliveries > 0
        return entry


class QuorumLimits(QueueLimits):
    """Limits of a quorum queue. With reject-publish, waiting dead letters count as messages of the queue."""

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
        self._look_at_level()
        return self._refusing

    def drop_excess(self) -> None:
        """Drop the oldest messages that exceed the limit, or start refusing messages."""
        if self._overflow == "drop-head":
            super().drop_excess()
        else:
            self._look_at_level()

    def _head_is_due(self) -> bool:
        """Return whether the first message has expired, or had exceeded its delivery limit when the process died."""
        entry = self._quorum.ready_in_order.peek()
        return entry is not None and (self._quorum.exhausted(entry) or self._is_due(entry))

    def _expire_some(self) -> int:
        """Remove one step of such messages at the head; return its size in bytes."""
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

    def _sunk(self, dead_letters: int, dead_letter_bytes: int) -> bool:
        ready_messages = self._quorum.ready_in_order
        levels = (
            (len(ready_messages) + dead_letters, self._messages),
            (ready_messages.bytes + dead_letter_bytes, self._bytes),
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
        self._shows_both = context.personality.acquired_counts
        self._nacks_count = context.personality.nacks_count

    def publish(self, message: Message) -> bool:
        """Append a message; always return True: its confirm waits for the disk."""
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
        """Return a position behind all others of this queue, in any lane, for a message that it already has.

        `number`: the message's number in the event log, None if it has none.
        """
        self._position = self._position + 1 if self.events is None else self.events.moved(number)
        return self._position

    # Out

    def get(self, outlet: Outlet, *, no_ack: bool) -> QueuedMessage | None:
        """Take the first ready message for basic.get. Its headers have the count even at the first delivery."""
        entry = super().get(outlet, no_ack=no_ack)
        if entry is not None:
            entry.show(self._shown_counts(entry.deliveries if no_ack else entry.deliveries - 1, entry.uncounted))
        return entry

    def pop(self) -> QueuedMessage | None:
        """Take the first ready message with its content and its delivery count in the headers; None without one.

        Messages over the delivery limit are discarded, and expired ones behind them.
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
                    entry.show(self._shown_counts(entry.deliveries, entry.uncounted))
                return entry
            self.drop_exhausted(entry)
        return None

    def _shown_counts(self, deliveries: int, uncounted: int) -> Table:
        """Return the headers with the number of earlier deliveries. RabbitMQ 4 has two, and leaves out a zero."""
        if not self._shows_both:
            return {"x-delivery-count": Field("l", deliveries)}
        counts = {"x-acquired-count": deliveries, "x-delivery-count": deliveries - uncounted}
        return {name: Field("l", count) for name, count in counts.items() if count}

    def await_ack(self, outlet: Outlet, entries: Sequence[QueuedMessage], size: int) -> None:
        """Count messages as unacknowledged, and their deliveries."""
        for entry in entries:
            if entry.hand_out() > 1:  # the first delivery is in the lane's delivered mark
                self._lane.count(entry)
        super().await_ack(outlet, entries, size)

    # Back

    def requeue(self, entries: Sequence[QueuedMessage], *, abandoned: bool = False, rejected: bool = False) -> None:
        """Requeue delivered messages at the front or at the end, or discard those over the delivery limit."""
        if self.deleted:
            self.out.remove(entries)
            return
        limit = self.delivery_limit
        take_back = partial(self._take_back, abandoned=abandoned)
        if not (self._nacks_count or abandoned or rejected):
            for entry in entries:
                entry.uncount()
                self._lane.count(entry)
        if limit is None:
            last = self._nacks_count and not abandoned
            self.background_work.take_in(entries, take_back, writes=last, first=not last, ready=True)
            return
        if back := [entry for entry in entries if entry.deliveries - entry.uncounted <= limit]:
            self.background_work.take_in(back, take_back, writes=False, first=True, ready=True)
        if exhausted := [entry for entry in entries if entry.deliveries - entry.uncounted > limit]:
            drop = partial(self._drop_some, abandoned=abandoned, arguments=self.arguments)
            self.background_work.take_in(exhausted, drop, writes=True, first=False, ready=False)

    def _take_back(self, entries: Sequence[QueuedMessage], *, abandoned: bool) -> int:
        self._return_from_channels(entries, abandoned=abandoned)
        if abandoned or self.delivery_limit is not None or not self._nacks_count:
            self.give_back(entries)
        else:
            self._put_at_the_end(entries)
        return len(entries)

    def _drop_some(self, entries: Sequence[QueuedMessage], *, abandoned: bool, arguments: QueueArguments) -> int:
        if arguments.dead_letter_exchange is not None:
            entries = entries[:1]  # one dead letter per step: it may go to very many queues
        self._return_from_channels(entries, abandoned=abandoned)
        for entry in entries:
            self.drop_exhausted(entry, arguments)
        return len(entries)

    def _return_from_channels(self, entries: Sequence[QueuedMessage], *, abandoned: bool) -> None:
        if self.events is not None:
            self.events.requeued(entries, abandoned=abandoned)
        self.out.remove(entries)
        for entry in entries:
            entry.conceal()

    @property
    def returned_messages(self) -> int:
        """The number of ready messages that have been returned."""
        return self._ready.returned

    @property
    def delayed_retry(self) -> str:
        """The delay of returned messages, in the words of the API."""
        return "disabled"

    @property
    def delayed_messages(self) -> int:
        """The number of returned messages whose delay is not over."""
        return 0

    @property
    def ready_by_priority(self) -> dict[int, int]:
        """The number of ready messages by priority, without returned ones; only priorities that have some."""
        ready = self.ready - self.returned_messages
        return {DEFAULT_PRIORITY: ready} if ready else {}

    @property
    def may_time_out(self) -> bool:
        """The consumer timeout applies to its deliveries."""
        return True

    @property
    def delivery_limit(self) -> float | None:
        """Limit on a message's returns, from arguments and policies, else from the personality; None: no limit."""
        said = self.arguments.delivery_limit
        if said is None:
            return self._context.personality.delivery_limit
        return None if said == math.inf else said

    @property
    def shows_delivery_limit(self) -> bool:
        """True if the API shows the delivery limit, as in series that have one by default."""
        return self._context.personality.delivery_limit is not None

    def exhausted(self, entry: QueuedMessage) -> bool:
        """Return whether a message was returned more often than the delivery limit."""
        limit = self.delivery_limit
        return limit is not None and entry.deliveries - entry.uncounted > limit

    def drop_exhausted(self, entry: QueuedMessage, arguments: QueueArguments | None = None) -> None:
        """Discard a message that exceeds the delivery limit; `arguments` were in force when it did."""
        self.load(entry)
        self.discard((entry,), "delivery_limit", arguments)

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
        again.deliveries, again.uncounted, again.redelivered = entry.deliveries, entry.uncounted, True
        self._lane.put(again, durable=True)
        self._lane.count(again)
        self._ready.append(again)

    # Gone

    def discard(self, entries: Sequence[QueuedMessage], reason: str, arguments: QueueArguments | None = None) -> int:
        """Dead-letter messages, or drop them; with at-least-once dead-lettering: see `AtLeastOnce`."""
        for entry in entries:
            entry.conceal()
        if not self.dead_letters.wanted:
            return super().discard(entries, reason, arguments)
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
        """Drop consumers and messages; return the number of ready messages."""
        self.dead_letters.end()
        return super().delete()

    def restore(self) -> None:
        """Take up the messages and dead letters that are on disk at a start."""
        super().restore()
        self.dead_letters.restore()

    def check(self) -> None:
        """Raise AssertionError unless the queue and its dead letters are consistent."""
        super().check()
        if not self.deleted:
            self.dead_letters.check()

    def stored(self, lane: int, up_to: int) -> None:
        """Note that all puts into one lane, up to a position, are on disk."""
        if lane == DEAD_LETTERS_LANE:
            self.dead_letters.stored(up_to)
        else:
            super().stored(lane, up_to)


def _counts(entry: QueuedMessage) -> DeliveryCounts:
    return DeliveryCounts(entry.deliveries - entry.uncounted, entry.uncounted)


def _kept(message: Message) -> Message:
    """Return a copy of a transient message that is persistent."""
    kept = message.copy()
    kept.flags |= PERSISTENT
    return kept


def _counted(message: Message, counts: Table) -> Message:
    """Return a message with counts among its headers, sorted as RabbitMQ does when it adds one."""
    properties = decode_properties(message.header)
    headers = {**(properties.headers or {}), **counts}
    counted = message.copy()
    counted.header = encode_header(len(message.body), properties._replace(headers=dict(sorted(headers.items()))))
    return counted
