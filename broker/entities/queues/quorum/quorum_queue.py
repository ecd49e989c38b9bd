"""Quorum queues on one machine: every message is kept, and its deliveries are counted.

RabbitMQ's quorum queue is replicated; here it is a durable queue with everything else that a client sees of one.

- Every message is kept, whatever its delivery mode, and confirmed once it is on disk.
- Deliveries are counted per message; from the second one on the counts are in headers (`ReturnRules`). A message
  returned more than `x-delivery-limit` times is dead-lettered; as RabbitMQ 4.3, basic.nack and basic.recover do not
  count for the limit.
- Returned messages are delivered first, in the order of their return, or after a delay: see `DelayedMessages`. In 3.x,
  without a delivery limit, a message that its consumer returns goes to the end instead, or it could block all others
  for ever. Messages of a consumer that has ended are always delivered first.
- The others are delivered in publish order; from 4.0 on by priority, too: see `QuorumPriorities`.

The counts survive a restart. The first delivery costs no more than in other queues: the lane's delivered mark says that
every message up to it was delivered once. Each further delivery writes a number. For messages that were unacknowledged
when the process died, the delivery is already counted, as if they had been returned; what follows from that is done
when they are first again (`comes_back`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from broker.entities.arguments.queue_arguments import QueueArguments
from broker.entities.arguments.quorum_priorities import DEFAULT, QuorumPriorities
from broker.entities.messages.message import Message, QueuedMessage, carried_count
from broker.entities.queues.consumer_prefetch import Outlet
from broker.entities.queues.ordered_queue import OrderedQueue, died
from broker.entities.queues.queue import QueueContext, QueueSpec, Roles
from broker.entities.queues.quorum.at_least_once import AtLeastOnce
from broker.entities.queues.quorum.delayed_messages import DelayedMessages
from broker.entities.queues.quorum.quorum_entry import QuorumEntry
from broker.entities.queues.quorum.quorum_messages import QuorumReadyMessages
from broker.entities.queues.quorum.quorum_store import DEAD_LETTERS_LANE, RETRIES, QuorumStore, level_of
from broker.entities.queues.quorum.return_rules import ReturnRules
from broker.entities.queues.quorum.returning import Returning
from broker.entities.scheduling.background_work import STEP_COPIES
from storage.batch import PERSISTENT


class QuorumQueue(OrderedQueue):
    """A queue of type quorum: see the module."""

    def __init__(self, spec: QueueSpec, roles: Roles, context: QueueContext, owner: object | None = None) -> None:
        super().__init__(spec, roles, context, owner)
        self.returned_last = True
        self._lane: QuorumStore = roles.store
        self._ready = cast(QuorumReadyMessages, self.ready_messages)
        self.dead_letters: AtLeastOnce = AtLeastOnce(self, self._lane.dead_letters, context)
        self.delayed: DelayedMessages = DelayedMessages(self, self._lane, context, self._now_due)
        self._returning = Returning(self, self._lane)
        self._before_start = self._position
        self._last_level = DEFAULT
        self._personality = context.personality
        self.watch = context.watch

    @property
    def kept(self) -> tuple[QuorumReadyMessages, DelayedMessages, AtLeastOnce]:
        """All its messages but the unacknowledged ones."""
        return self._ready, self.delayed, self.dead_letters

    @property
    def messages(self) -> int:
        """Number of messages: ready, unacknowledged, delayed, and dead letters that wait."""
        ready_messages, delayed, dead_letters = self.kept
        return self.unacked + len(ready_messages) + len(delayed) + len(dead_letters)

    @property
    def message_bytes(self) -> int:
        """Bytes of the bodies of all these messages."""
        ready_messages, delayed, dead_letters = self.kept
        return self.out.bytes + ready_messages.bytes + delayed.bytes + dead_letters.bytes

    @property
    def returned_messages(self) -> int:
        """The number of ready messages that have been returned."""
        return len(self._ready.returned)

    @property
    def delayed_messages(self) -> int:
        """The number of returned messages whose delay is not over."""
        return len(self.delayed)

    @property
    def delayed_retry(self) -> str:
        """The delay of returned messages, in the words of the API."""
        return str(self.rules.retry or "disabled")

    @property
    def ready_by_priority(self) -> dict[int, int]:
        """The number of ready messages by priority, without returned ones; only priorities that have some."""
        return self._ready.by_priority

    # In

    def publish(self, message: Message) -> bool:
        """Append a message to its level; always return True: its confirm waits for the disk."""
        level, carried = self._level(message), carried_count(message.flags)
        if level != self._last_level:
            self._last_level = level
            if len(self.consumers):  # earlier messages go to consumers that wait before one that may overtake them
                self.deliver()
        position = self._position + 1
        if self.events is not None:
            position = self.events.arrived((message,), position, kept=True)
        self._position = position
        entry = QuorumEntry(self, position, message, len(message.body), self.limits.expires_at(message))
        entry.level = level
        if not message.persistent:
            entry.message = _kept(message)
        self._lane.put(entry, durable=True)
        if carried and self._personality.carried_counts:
            entry.uncounted, entry.redelivered = -carried, True
            self._lane.count(entry)
        self._ready.append(entry)
        if self.limits.on_length:
            self.limits.drop_excess()
        self.touch()
        return True

    def _level(self, message: Message) -> int:
        priorities = self._personality.quorum_priorities
        return DEFAULT if priorities is QuorumPriorities.NONE else priorities.level(message.given_priority)

    def next_position(self, number: int | None) -> int:
        """Return a position behind all others of this queue, in any lane, for a message that it already has.

        `number`: the message's number in the event log, None if it has none.
        """
        self._position = self._position + 1 if self.events is None else self.events.moved(number)
        return self._position

    # Out

    def get(self, outlet: Outlet, *, no_ack: bool) -> QueuedMessage | None:
        """Take the first ready message for basic.get. In 3.x its headers have the count even at the first delivery."""
        entry = super().get(outlet, no_ack=no_ack)
        if entry is not None:
            before = entry.deliveries if no_ack else entry.deliveries - 1
            entry.show(self.rules.shown(before, entry.uncounted))
        return entry

    def pop(self) -> QueuedMessage | None:
        """Take the first ready message with its content and its delivery counts in the headers; None without one.

        Messages that come back from the process that died are discarded or delayed, and expired ones behind them.
        """
        while (head := self._ready.peek()) is not None:
            if self.comes_back(head):
                self.limits.timed = True
                self.limits.expire(strictly=True)
                if self.limits.expiring:
                    break
                continue
            entry = super().pop()
            if entry is None:
                break
            if not self.comes_back(entry):
                if entry.redelivered:
                    entry.show(self.rules.shown(entry.deliveries, entry.uncounted))
                return entry
            self.finish_return(entry)
        return None

    def await_ack(self, outlet: Outlet, entries: Sequence[QueuedMessage], size: int) -> None:
        """Count messages as unacknowledged, and their deliveries."""
        for entry in entries:
            if entry.hand_out() > 1:  # the first delivery is in the lane's delivered mark
                self._lane.count(entry)
        super().await_ack(outlet, entries, size)

    # Back

    def requeue(self, entries: Sequence[QueuedMessage], *, abandoned: bool = False, rejected: bool = False) -> None:
        """Requeue delivered messages at the front or at the end, delay them, or discard those over the limit."""
        if self.deleted:
            self.out.remove(entries)
        else:
            self._returning.take_back(entries, self._context.now(), abandoned=abandoned, rejected=rejected)

    @property
    def may_time_out(self) -> bool:
        """The consumer timeout applies to its deliveries."""
        return True

    @property
    def rules(self) -> ReturnRules:
        """The rules of returned messages, with the delivery limit and the delay in force."""
        return ReturnRules(self._personality, self.arguments)

    def comes_back(self, entry: QueuedMessage) -> bool:
        """Return whether a message has to be discarded or delayed: its channel ended with the process."""
        return entry.read_back and self._returning.comes_back(entry, self._context.now())

    def is_earlier(self, entry: QueuedMessage) -> bool:
        """Return whether a message was published before the start."""
        return entry.position <= self._before_start

    def finish_return(self, entry: QueuedMessage) -> None:
        """Discard or delay a message that comes back, and was taken."""
        self._returning.finish(entry)

    def _now_due(self, numbers: Sequence[int]) -> None:
        """Make messages ready that were delayed, behind other returned ones."""
        for number in numbers:
            self._ready.returned.append_due(number)
        self.limits.timed = True  # when they expire is not known before they are looked at
        self.touch()

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
            if (message := died(entry, reason, self._personality)) is not None:
                self.dead_letters.add(message, reason)
            if self._context.turn.dead_letter_copies - copies >= STEP_COPIES:
                break
        self.finish(entries[:count], moved=True)
        self.counters.died(count, reason, "at_least_once")
        return count

    def purge(self) -> int:
        """Drop every ready, returning or delayed message, in 4.3 also waiting dead letters; return their number."""
        end = self._position + 1
        dead_letters = self.dead_letters.purge(end) if self._personality.purged_dead_letters else 0
        return super().purge() + self.delayed.clear() + dead_letters

    def delete(self) -> int:
        """Drop consumers and messages; return the number of ready messages."""
        self.dead_letters.end()
        self.delayed.end()
        self._returning.end()
        return super().delete()

    # The whole

    def restore(self) -> None:
        """Take up the messages and dead letters that are on disk at a start."""
        self.stored_up_to = self._before_start = self._position
        self._returning.started(self._context.now())
        for level, lane in self._lane.restore().items():
            if level == RETRIES:
                self.delayed.restore()
            else:
                self._ready.restore(lane.state.messages, lane.state.bytes, level)
        self.limits.timed = len(self._ready) > 0
        self.dead_letters.restore()

    def stored(self, lane: int, up_to: int) -> None:
        """Note that all puts into one lane, up to a position, are on disk."""
        if lane == DEAD_LETTERS_LANE:
            self.dead_letters.stored(up_to)
        elif level_of(lane) == RETRIES:
            self.stored_up_to = max(up_to, self.stored_up_to)
            self.delayed.stored(up_to)
        else:
            super().stored(level_of(lane), up_to)

    def check(self) -> None:
        """Raise AssertionError unless the queue, its delayed messages and its dead letters are consistent."""
        super().check()
        if self.deleted:
            return
        self.dead_letters.check()
        self.delayed.check()
        if self.delayed.complete and RETRIES in self._lane.levels:
            apart = [
                entry for entry in (*self._ready.returned.resident(), *self.unacknowledged) if entry.level == RETRIES
            ]
            found = len(self.delayed) + self._ready.returned.numbers + len(apart)
            counted = self._lane.retries.state.messages
            assert counted == found, f"the store counts {counted} messages that were delayed, there are {found}"


def _kept(message: Message) -> Message:
    """Return a copy of a transient message that is persistent."""
    kept = message.copy()
    kept.flags |= PERSISTENT
    return kept
