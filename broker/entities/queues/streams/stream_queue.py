"""The stream queue type: a log that each consumer reads from a position of its own.

Delivery removes nothing. An acknowledgement only gives its consumer credit, so nothing can be requeued, rejected or
purged; messages leave at the front, by the retention rules of `StreamSegments`. For the session a stream is a queue
whose ready messages are its `StreamLog`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

from broker.entities.arguments import stream_arguments
from broker.entities.arguments.queue_arguments import QueueArguments
from broker.entities.arguments.stream_arguments import Start, StreamFilter
from broker.entities.messages.message import Message, QueuedMessage
from broker.entities.queues.consumer_prefetch import Consumer, Outlet
from broker.entities.queues.consumers import Consumers
from broker.entities.queues.queue import RUN_BYTES, Queue, QueueContext, QueueSpec, Roles
from broker.entities.queues.ready_messages import MemoryWindow
from broker.entities.queues.streams.stream_log import StreamLog, StreamMessage, kept
from broker.entities.queues.unlimited import Unlimited
from broker.wire.amqp_errors import ConnectionException
from broker.wire.constants import ReplyCode

READ = MemoryWindow(256, RUN_BYTES)
"""Messages and bytes that one consumer is given at a time, which it may have read ahead."""

DISK_READS = 8
"""Reads from disk in one turn of a stream; consumers that are behind go on in the next turn."""


class CommittedOffset(NamedTuple):
    """The offset of the next message for a group of consumers, and when it said so, in milliseconds."""

    offset: int
    at: int


class ReadPosition:
    """A consumer's position. `ahead`: messages read and not delivered yet; `next`: the offset to read from next."""

    __slots__ = ("ahead", "filter", "next")

    def __init__(self, start: int, stream_filter: StreamFilter | None) -> None:
        self.next = start
        self.filter = stream_filter
        self.ahead: deque[StreamMessage] = deque()

    def take(self, log: StreamLog, limit: int) -> list[StreamMessage]:
        """Return the next messages for the consumer; none of those that were read may pass its filter."""
        if not self.ahead:
            found, self.next = log.read(self.next, READ)
            self.ahead.extend(found if self.filter is None else filter(self._wants, found))
        ahead = self.ahead
        if len(ahead) <= limit:
            self.ahead = deque()
            return list(ahead)
        return [ahead.popleft() for _ in range(limit)]

    def up_to_date(self, log: StreamLog) -> bool:
        """Return whether nothing more is on disk for the consumer."""
        return not self.ahead and self.next >= log.stored

    def behind(self, log: StreamLog) -> bool:
        """Return whether the next messages have to be read from disk."""
        return not self.ahead and self.next < min(log.tail_first, log.stored)

    def _wants(self, found: StreamMessage) -> bool:
        assert self.filter is not None, "only called with a filter"
        if found.filter_value is None:
            return self.filter.unfiltered
        return found.filter_value in self.filter.values


class Readers(Consumers):
    """The consumers of a stream. Those that are up to date leave the rotation until new messages are on disk."""

    def __init__(self, log: StreamLog, now: Callable[[], int]) -> None:
        super().__init__(now, single_active=False)
        self.positions: dict[Consumer, ReadPosition] = {}
        self._log = log
        self._resting: dict[Consumer, None] = {}

    def add(self, consumer: Consumer) -> None:
        """Add a consumer at the position that its `x-stream-offset` names."""
        start = stream_arguments.start(consumer.arguments, "")
        self.positions[consumer] = ReadPosition(self._offset(start), stream_arguments.stream_filter(consumer.arguments))
        super().add(consumer)

    def remove(self, consumer: Consumer) -> None:
        """Remove a consumer and its position."""
        super().remove(consumer)
        del self.positions[consumer]

    def enlist(self, consumer: Consumer) -> None:
        """Put a consumer that may have credit into the rotation; it does not rest any more."""
        super().enlist(consumer)
        if consumer.waiting:
            self._resting.pop(consumer, None)

    def rest(self, consumer: Consumer) -> None:
        """Take a consumer that is up to date out of the rotation."""
        self._retire(consumer)
        self._resting[consumer] = None

    def wake(self) -> None:
        """Put the consumers that rest back into the rotation: new messages are on disk."""
        resting, self._resting = self._resting, {}
        for consumer in resting:
            self.enlist(consumer)

    def check(self) -> None:
        """Raise AssertionError unless every reader has a position, and resting ones are out of the rotation."""
        super().check()
        assert self.positions.keys() == self.members.keys(), "a reader has no position, or a position no reader"
        for consumer in self._resting:
            assert not (consumer.waiting and consumer in self.members), f"consumer {consumer.tag} rests and waits"

    def _offset(self, start: Start) -> int:
        log = self._log
        if start.kind == "first":
            return log.first
        if start.kind == "last":
            return max(log.first, log.segments.last)
        if start.kind == "offset":
            return max(log.first, start.value)
        if start.kind == "next":
            return log.next
        return log.find(start.value if start.kind == "time" else self._now() - start.value)


class Retention(Unlimited):
    """The limits of a stream: it refuses nothing, and drops whole segments."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def set(self, arguments: QueueArguments) -> None:
        """Apply the retention rules of the declaration and the policies in force from now on."""
        stream = self._stream
        stream.log.segments.keep(stream_arguments.parse(stream.spec.arguments, stream.policies.definition))

    def resume(self) -> None:
        """Deliver to consumers after a start."""
        self._stream.touch()


class Stream(Queue):
    """A queue of type stream. `where` names it in reply texts: queue and virtual host."""

    def __init__(self, spec: QueueSpec, roles: Roles, context: QueueContext, owner: object | None = None) -> None:
        super().__init__(spec, roles, context, owner)
        self.where = f"queue '{spec.name}' in vhost '{context.vhost}'"
        self.log = cast(StreamLog, self.ready_messages)
        self._readers = cast(Readers, self.consumers)
        self.committed: dict[str, CommittedOffset] = {}
        """By the names of groups, as they are on disk. Nothing is delivered by them."""

    @property
    def messages(self) -> int:
        """Number of messages; delivered ones are included, because delivery removes nothing."""
        return self.ready

    @property
    def message_bytes(self) -> int:
        """Bytes of the bodies of all messages."""
        return self.ready_bytes

    def lag(self, group: str) -> int:
        """Return the number of offsets from a group's committed one to the end of what can be read."""
        return max(0, self.log.stored - self.committed[group].offset)

    def publish(self, message: Message) -> bool:
        """Append a message; always return True: a stream keeps transient messages too, and confirms wait for the
        disk."""
        if self.events is not None:
            self.events.appended(message, self.log.next)
        self.log.append(kept(message), self._context.now())
        return True

    def stored(self, lane: int, up_to: int) -> None:
        """Let consumers read up to an offset that is on disk."""
        self.log.synced(up_to)
        self._readers.wake()
        self.touch()

    def deliver(self) -> None:
        """Deliver to each consumer with credit its next messages; then drop messages beyond the window from memory."""
        self._touched = False
        reads, consumers, log = DISK_READS, self._readers, self.log
        while reads and (next_served := consumers.next()) is not None:
            consumer, credit, _ = next_served
            position = consumers.positions[consumer]
            reads -= position.behind(log)
            found = position.take(log, credit)
            if found:
                self._give(consumer, found)
            elif position.up_to_date(log):
                consumers.rest(consumer)
        log.keep_window()
        if not reads:
            self._context.turn.last(self.touch)

    def _give(self, consumer: Consumer, found: list[StreamMessage]) -> None:
        entries = [QueuedMessage(self, offset, message, len(message.body), 0) for offset, _, message, _ in found]
        consumer.give(entries)
        for entry in entries:  # a stream's message is never requeued, so its content is not needed again
            entry.message = None

    def await_ack(self, outlet: Outlet, entries: Sequence[QueuedMessage], size: int) -> None:
        """Count messages as unacknowledged; `size`: bytes of their bodies."""
        self.out.add(len(entries), size)

    def restore(self) -> None:
        """Take up the messages that are on disk at a start."""
        self.store.restore()
        self.log.restore()

    # Not supported by streams

    def get(self, outlet: Outlet, *, no_ack: bool) -> QueuedMessage | None:
        """Raise ConnectionException 540: not supported by streams."""
        raise self._unsupported("basic.get")

    def purge(self) -> int:
        """Raise ConnectionException 540: not supported by streams."""
        raise self._unsupported("queue.purge")

    def refuse_return(self) -> None:
        """Raise ConnectionException 540: not supported by streams."""
        raise self._unsupported("basic.nack and basic.reject")

    def _unsupported(self, method: str) -> ConnectionException:
        return ConnectionException(ReplyCode.NOT_IMPLEMENTED, f"{method} not supported by stream queues {self.where}")
