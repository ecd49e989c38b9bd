"""A queue: messages in publish order, consumers in turn.

What is ready lies in the `ReadyMessages`, what is out with consumers or getters in the ledgers of their channels;
here is only the count of those. Persistent messages of a durable queue are also in its `QueueStore` of the message
store, from the publish until they are settled. Nothing here waits: a queue that has something to do says so
to the turn, and does it at the turn's end. What other kinds of queue do differently is in files of their own:
`priorities`, `quorum`, `stream`, `delays`. Where events are recorded, `events` is told what happens before it does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from broker.entities.arguments.policies import NONE_IN_FORCE
from broker.entities.arguments.queue_arguments import QueueArguments, parse
from broker.entities.arguments.queue_types import CLASSIC, QueueType
from broker.entities.messages.message import Entry, Message
from broker.entities.queues.consumers import Consumers, Outlet
from broker.entities.queues.queue_events import QueueEvents
from broker.entities.queues.queue_limits import Limits, Unlimited
from broker.entities.queues.queue_store import QueueStore
from broker.entities.queues.ready_messages import ReadyMessages, Window
from broker.wire.field_tables import Table
from storage.batch import COUNTER_BITS, PERSISTENT

if TYPE_CHECKING:
    from broker.entities.queues.event_recording import Recorder
    from broker.entities.queues.priority_queue import PriorityReadyMessages, PriorityStore
    from broker.entities.scheduling.timers import Timers
    from broker.entities.scheduling.turn import Turn

RUN_MESSAGES = 1024
RUN_BYTES = 256 * 1024
"""How much one consumer is given before it is asked again for its credit."""

DELIVER_MESSAGES = 1024
"""How much a queue delivers before it is asked whether others of the turn shall be served first."""

GONE = Unlimited()
"""The limits of all queues that are gone."""

LOAD_MESSAGES = 256
LOAD_BYTES = 2 << 20
"""How many given-back messages are read from disk at a time: whichever limit is reached first, one at least."""


class QueueSpec(NamedTuple):
    """What a queue is declared as."""

    name: str
    durable: bool
    exclusive: bool
    auto_delete: bool
    arguments: Table


class DeadLetters(Protocol):
    """The way of a queue's dead letters to its dead-letter exchange."""

    def publish(self, queue: Queue, messages: Sequence[Message], reason: str) -> None:
        """Publish messages that died in a queue, for a reason."""

    def publish_for_certain(self, queue: Queue, message: Message, reason: str) -> bool:
        """The same with one message; False, and nothing published, unless it has targets and all of them take it."""


class QueueContext(NamedTuple):
    """What the queues of a virtual host need from around them."""

    vhost: str
    turn: Turn
    timers: Timers
    window: Window
    boot: int
    now: Callable[[], int]
    dead_letters: DeadLetters
    recorder: Recorder | None
    """Where events are recorded, what gathers them."""


class Queue:
    """Ready and unacknowledged messages, and who wants them."""

    type: QueueType = CLASSIC
    store: QueueStore | PriorityStore
    ready_messages: ReadyMessages | PriorityReadyMessages

    def __init__(
        self, spec: QueueSpec, store: QueueStore | PriorityStore, context: QueueContext, owner: object | None = None
    ) -> None:
        self.spec = spec
        self.name = spec.name
        self.durable = spec.durable
        self.policies = NONE_IN_FORCE
        self.arguments: QueueArguments = parse(spec.arguments)
        """What holds for it: declared, and made by its policies."""
        self.owner = owner
        recorder = context.recorder
        self.events = None if recorder is None else QueueEvents(recorder, context.vhost, spec.name)
        self.store = store
        self.consumers = Consumers(single_active=self.arguments.single_active_consumer)
        self.ready_messages = store.ready_messages(self, context.window)
        self.limits = Limits(self, context)
        self.unacked = 0
        self.deleted = False
        self.last_used = context.now()
        self._context = context
        self._position = context.boot << COUNTER_BITS
        self.stored_up_to = 0
        self._touched = False
        self._holders: dict[Outlet, None] = {}

    def publish(self, message: Message) -> bool:
        """Take a message at the end. True if a confirm of it has to wait for the disk."""
        position = self._position + 1
        durable = self.durable and bool(message.flags & PERSISTENT)
        if self.events is not None:
            position = self.events.arrived((message,), position, kept=durable)
        self._position = position
        limits = self.limits
        expires_at = limits.expires_at(message) if limits.on_time or message.expiration is not None else 0
        entry = Entry(self, position, message, len(message.body), expires_at)
        if durable or self.ready_messages.paging:
            self.store.put(entry, durable=durable)
        self.ready_messages.append(entry)
        if limits.on_length:
            limits.make_room()
        if not self._touched:
            self.touch()
        return durable

    def publish_all(self, messages: Sequence[Message]) -> bool:
        """Take a run of messages at the end: all persistent or none, none with a time to live of its own.

        True if a confirm of them has to wait for the disk.
        """
        if self.limits.on_length:
            return publish_each(self, messages)
        store, ready_messages = self.store, self.ready_messages
        assert isinstance(store, QueueStore), "with priorities messages come one by one"
        assert isinstance(ready_messages, ReadyMessages), "with priorities messages come one by one"
        first = self._position + 1
        durable = self.durable and bool(messages[0].flags & PERSISTENT)
        if self.events is not None:
            first = self.events.arrived(messages, first, kept=durable)
        expires_at = self.limits.expires_at(messages[0]) if self.limits.on_time else 0
        entries = [
            Entry(self, position, message, len(message.body), expires_at)
            for position, message in enumerate(messages, first)
        ]
        self._position = first + len(entries) - 1
        if durable or ready_messages.paging:
            store.put_all(entries, durable=durable)
        ready_messages.extend(entries)
        if not self._touched:
            self.touch()
        return durable

    @property
    def ready(self) -> int:
        """How many messages wait for consumers."""
        return len(self.ready_messages)

    @property
    def messages(self) -> int:
        """How many it holds, those that are out with consumers included."""
        return self.ready + self.unacked

    @property
    def ready_bytes(self) -> int:
        """The bytes of their bodies."""
        return self.ready_messages.bytes

    @property
    def consumer_timeout(self) -> int | None:
        """How long a delivery may be unacknowledged, in milliseconds; 0: for ever, None: nothing was said."""
        return self.arguments.consumer_timeout

    def use(self) -> None:
        """Somebody has an interest in the queue: the time of its expiry, if it has one, begins anew."""
        self.last_used = self._context.now()

    def touch(self) -> None:
        """There may be something to deliver at the end of this turn."""
        if not self._touched:
            self._touched = True
            self._context.turn.queues.append(self)

    # Out: to consumers and getters

    def deliver(self) -> None:
        """Hand ready messages to the consumers that have credit, one each in turn; of very many, some at a time."""
        self._touched = False
        limits, left = self.limits, DELIVER_MESSAGES
        while left > 0 and len(self.ready_messages):
            if limits.timed:
                limits.expire(strictly=True)
            turn = self.consumers.next()
            if turn is None:
                break
            consumer, credit, alone = turn
            entries = _take(self, min(credit, left) if alone else 1)
            if entries:
                consumer.give(entries)
                left -= len(entries)
        if limits.timed:
            limits.expire()
            limits.watch()
        if left <= 0:
            self.touch()

    def get(self, outlet: Outlet, *, no_ack: bool) -> Entry | None:
        """Take the first ready message for a channel that asked for one."""
        self.use()
        self.limits.expire()
        entry = self.pop()
        self.limits.expire()
        self.limits.watch()
        if entry is None:
            return None
        if no_ack:
            self.finish((entry,))
        else:
            self.hold(outlet, (entry,))
        return entry

    def pop(self) -> Entry | None:
        """Take the first ready message, its content in memory. One whose record cannot be read is passed over."""
        while (entry := self.ready_messages.pop()) is not None:
            if load(self, entry):
                return entry
        return None

    def hold(self, outlet: Outlet, entries: Sequence[Entry]) -> None:
        """Messages, in order, go out to a channel that has to acknowledge them."""
        self.unacked += len(entries)
        self._holders[outlet] = None
        self.store.delivered(entries)

    def finish(self, entries: Iterable[Entry]) -> None:
        """Messages have left for good, without ever having been unacknowledged."""
        self.store.settle([entry for entry in entries if entry.stored])

    # Back: settled, requeued, rejected

    def settle(self, entries: Sequence[Entry]) -> None:
        """Delivered messages are acknowledged."""
        self.unacked -= len(entries)
        if self.events is not None:
            self.events.settled(entries)
        if not self.deleted:
            self.finish(entries)

    def requeue(self, entries: Sequence[Entry], *, abandoned: bool = False) -> None:
        """Delivered messages come back to their places, to be delivered again.

        Some types of queue treat those differently that were `abandoned`: nobody gave them back, their channel ended.
        """
        if self.events is not None:
            self.events.requeued(entries, abandoned=abandoned)
        take_back(self, entries)

    def reject(self, entries: Sequence[Entry]) -> None:
        """A consumer does not want messages and does not want them back in the queue."""
        self.unacked -= len(entries)
        if not self.deleted:
            for chunk in _chunks(entries):
                if self.arguments.dead_letter_exchange is not None:
                    self.store.load([entry for entry in chunk if entry.message is None])
                self.discard(chunk, "rejected")

    def forget(self, outlet: Outlet) -> None:
        """A channel is gone, and everything it held has been given back."""
        self._holders.pop(outlet, None)

    @property
    def held(self) -> Iterable[Entry]:
        """The unacknowledged messages."""
        return (entry for outlet in self._holders for entry in outlet.unacked_of(self))

    # Gone: dead letters, or nothing

    def discard(self, entries: Sequence[Entry], reason: str) -> None:
        """Messages leave without having been acknowledged: dead letters, if the queue has a place for them."""
        exchange = self.arguments.dead_letter_exchange
        if self.events is not None:
            self.events.discarded(entries, reason, exchange)
        messages = [entry.message for entry in entries if entry.message is not None]
        if messages and exchange is not None:
            self._context.dead_letters.publish(self, messages, reason)
        self.finish(entries)

    def turn_away(self, message: Message, reason: str) -> None:
        """A message that is not taken in goes to the queue's dead-letter exchange, if it has one."""
        exchange = self.arguments.dead_letter_exchange
        if self.events is not None:
            self.events.turned_away(message, reason, exchange)
        if exchange is not None:
            self._context.dead_letters.publish(self, (message,), reason)

    # The whole: purge, delete, restore

    def purge(self) -> int:
        """Drop every ready message; their number."""
        if self.events is not None:
            self.events.purged(self._position + 1, self.held)
        self.store.purge(self._position + 1, self.held)
        return self.ready_messages.clear()

    def delete(self) -> int:
        """End: nobody consumes any more, messages are gone. The number of ready messages."""
        if self.events is not None:
            self.events.deleted(self._position + 1)
            self.events = None
        self.deleted = True
        self.consumers.end()
        self.limits = GONE
        return self.ready_messages.end()

    def restore(self) -> None:
        """Start with what the store says is there."""
        self.store.restore()
        self.stored_up_to = self._position
        self.ready_messages.restore(self.store.state.messages, self.store.state.bytes)
        self.limits.timed = len(self.ready_messages) > 0

    def stored(self, lane: int, up_to: int) -> None:
        """Everything this queue gave to its lane of the store up to a position is on disk."""
        self.stored_up_to = up_to
        if self.ready_messages.paging:
            self.ready_messages.stored(up_to)

    def check(self) -> None:
        """Raise AssertionError unless what is ready, what is out and what the store counts agree: see `Invariants`."""
        if self.deleted:
            return
        self.ready_messages.check()
        self.consumers.check()
        held, resident = list(self.held), self.ready_messages.resident()
        assert self.unacked == len(held), f"{len(held)} messages are out, {self.unacked} are counted"
        both = {entry.position for entry in held} & {entry.position for entry in resident}
        assert not both, f"messages {sorted(both)} are ready and out"
        for entry in (*resident, *held):
            assert entry.queue is self, f"message {entry.position} is of another queue"
            assert entry.position <= self._position, f"message {entry.position} is behind the last, {self._position}"
        for consumer, count in Counter(entry.consumer for entry in held).items():
            assert consumer is None or consumer.unacked == count, f"consumer {consumer.tag} holds {count} messages"
        self.store.check([*resident, *held], complete=not self.ready_messages.paging)


def publish_each(queue: Queue, messages: Sequence[Message]) -> bool:
    """Publish a run of messages one after the other. True if a confirm of them has to wait for the disk."""
    if queue.events is not None:
        queue.events.number(messages)
    return max([queue.publish(message) for message in messages])


def take_back(queue: Queue, entries: Sequence[Entry]) -> None:
    """Have delivered messages in their places again."""
    queue.unacked -= len(entries)
    if queue.deleted:
        return
    for entry in entries:
        entry.redelivered = True
        entry.consumer = None
    queue.ready_messages.give_back(entries)
    if queue.limits.on_length:
        queue.limits.make_room_for_returned()
    queue.touch()


def load(queue: Queue, entry: Entry) -> bool:
    """Have a message's content in memory, with that of its neighbours; False if it cannot be read."""
    if entry.message is None:
        wanted, room = [entry], LOAD_BYTES - entry.size
        for other in queue.ready_messages.next_returned(LOAD_MESSAGES):
            room -= other.size
            if other.message is not None or room < 0:
                break
            wanted.append(other)
        queue.store.load(wanted)
    return entry.message is not None


def deliver_now(queue: Queue) -> None:
    """Deliver now what the turn would deliver at its end: somebody is about to look at what is ready.

    A message that a consumer waits for is not ready, and one that has had its time is not there.
    """
    while queue._touched:
        queue.deliver()


def _chunks(entries: Sequence[Entry]) -> Iterator[list[Entry]]:
    """Entries a few at a time, so that their contents may be in memory together."""
    chunk: list[Entry] = []
    size_bytes = 0
    for entry in entries:
        chunk.append(entry)
        size_bytes += entry.size
        if len(chunk) >= LOAD_MESSAGES or size_bytes >= LOAD_BYTES:
            yield chunk
            chunk, size_bytes = [], 0
    if chunk:
        yield chunk


def _take(queue: Queue, limit: int) -> list[Entry]:
    """The next messages for one consumer: a run of them, as long as none may have expired meanwhile."""
    limit = min(limit, RUN_MESSAGES)
    taken = queue.ready_messages.run(limit, RUN_BYTES, queue.limits.moment())
    size_bytes = RUN_BYTES if taken else 0
    while len(taken) < limit and size_bytes < RUN_BYTES:
        if taken and ((head := queue.ready_messages.peek()) is None or head.expires_at):
            break
        entry = queue.pop()
        if entry is None:
            break
        taken.append(entry)
        size_bytes += entry.size
    return taken
