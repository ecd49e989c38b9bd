"""The base of all queue types: publish, deliver, settle, requeue, delete. The types and their roles: `queue_family`.

Nothing here waits: a queue with something to deliver registers with the turn, and delivers at the turn's end.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from broker.entities.arguments.personality import Personality
from broker.entities.arguments.policies import NONE_IN_FORCE
from broker.entities.arguments.queue_arguments import QueueArguments, parse
from broker.entities.arguments.queue_types import QueueType, type_of
from broker.entities.messages.message import Message, QueuedMessage
from broker.entities.queues.consumer_prefetch import Outlet
from broker.entities.queues.consumers import Consumers
from broker.entities.queues.events.queue_events import QueueEvents
from broker.entities.queues.ready_messages import MemoryWindow
from broker.entities.queues.ready_section import ReadySection
from broker.entities.queues.unlimited import GONE, Unlimited
from broker.entities.rehearsal.rehearsal_watch import RehearsalWatch
from broker.entities.scheduling.background_work import BackgroundWork
from broker.entities.scheduling.pending_batches import PendingBatches
from broker.entities.scheduling.timers import Timers
from broker.entities.scheduling.turn import Turn
from broker.entities.statistics.counters import QueueCounters
from broker.wire.field_tables import Table
from storage.batch import COUNTER_BITS, LaneState

if TYPE_CHECKING:
    from broker.entities.queues.events.event_recording import Recorder
    from broker.entities.queues.queue_store import QueueStore
    from broker.entities.scheduling.future import Future

RUN_BYTES: Final = 256 * 1024
"""Bytes that one consumer is given before its credit is read again."""

LOAD_BYTES: Final = 2 << 20
"""Bytes read back from disk at a time; at least one message."""


class QueueSpec(NamedTuple):
    """The declaration of a queue."""

    name: str
    durable: bool
    exclusive: bool
    auto_delete: bool
    arguments: Table
    declared_by: str = ""
    """The user; empty if it is not known."""


class DeadLetters(Protocol):
    """Publishes dead letters to the dead-letter exchange of the queue in which the messages died."""

    def write(
        self, queue: Queue, messages: Sequence[Message], reason: str, arguments: QueueArguments
    ) -> list[DeadLetterGroup]:
        """Return the dead letters for the first of `messages`: as many as one step may copy, at least one.

        `arguments` are those that were in force when they died.
        """

    def publish(self, written: Iterable[DeadLetterGroup]) -> None:
        """Publish dead letters."""

    def publish_for_certain(self, queue: Queue, message: Message, reason: str) -> bool:
        """Publish the dead letter of a message; False, with nothing published, unless there are targets and all
        accept."""


class QueueContext(NamedTuple):
    """The collaborators and settings that all queues of a virtual host share."""

    vhost: str
    turn: Turn
    timers: Timers
    window: MemoryWindow
    boot: int
    now: Callable[[], int]
    soon: Callable[[], int]
    dead_letters: DeadLetters
    recorder: Recorder | None
    """Records events for the event log; None if it is off."""
    background_work: BackgroundWork
    batches: PendingBatches
    personality: Personality
    watch: RehearsalWatch | None = None
    """Counts what a later series would do differently; None unless that is rehearsed."""


class ReadyRole(Protocol):
    """The role of ready messages: those that wait for consumers."""

    def __len__(self) -> int: ...

    @property
    def bytes(self) -> int:
        """Bytes of the bodies of all ready messages."""

    @property
    def in_memory(self) -> MemoryWindow:
        """Number of ready messages in memory, and bytes of their bodies."""

    @property
    def head(self) -> QueuedMessage | None:
        """The first ready message, if it is in memory."""

    def look(self, section: ReadySection) -> None:
        """Add all messages to a section, in the order of delivery. Nothing changes, and nothing is read."""

    def end(self) -> int:
        """Forget every message and the queue; return the number of messages."""

    def check(self) -> None:
        """Raise AssertionError if it is inconsistent: see `Invariants`."""


class StoreRole(Protocol):
    """The role of the store: the queue's part of the message store."""

    queue_id: int
    counters: QueueCounters

    @property
    def state(self) -> LaneState:
        """Messages and bytes that survive a restart."""

    def put(self, entry: QueuedMessage, *, durable: bool) -> None:
        """Put a message into the open batch; a `durable` one survives a restart."""

    def settle(self, entries: Sequence[QueuedMessage], *, moved: bool = False) -> None:
        """Settle stored messages; `moved`: the open batch has a put in their place."""

    def delivered(self, entries: Sequence[QueuedMessage]) -> None:
        """Note that these messages, in order, were delivered."""

    def purge(self, floor: int, survivors: Iterable[QueuedMessage]) -> None:
        """Drop all messages below position `floor` except `survivors`, the unacknowledged ones."""

    def load(self, entries: Sequence[QueuedMessage]) -> None:
        """Read the content of messages back into memory; unreadable ones stay without."""

    def lane(self, number: int) -> QueueStore:
        """Return the lane of a level."""

    def restore(self) -> Mapping[int, QueueStore]:
        """Take up the lanes that are on disk at a start, and return them. Messages delivered before are redelivered."""

    def lost(self, number: int, messages: int, size_bytes: int) -> None:
        """Subtract records of one lane that could not be read, and were set aside."""

    def drop(self) -> None:
        """Have the records of a deleted queue reclaimed."""

    def check(self, entries: Sequence[QueuedMessage], *, complete: bool) -> None:
        """Raise AssertionError unless its counts agree with the queue; `entries`: the messages in memory."""


class Roles(NamedTuple):
    """The store of a new queue, and factories for its other roles."""

    store: Any
    ready_messages: Callable[[Any, Any, QueueContext], ReadyRole]
    """Called with the queue and its store."""
    limits: Callable[[Any, QueueContext], Unlimited]
    consumers: Callable[[Any, QueueContext], Consumers]


class Unacknowledged:
    """The number of unacknowledged messages of a queue, and bytes of their bodies."""

    __slots__ = ("bytes", "messages")

    def __init__(self) -> None:
        self.messages = self.bytes = 0

    def add(self, messages: int, size: int) -> None:
        """Add messages, with the bytes of their bodies."""
        self.messages += messages
        self.bytes += size

    def remove(self, entries: Sequence[QueuedMessage]) -> None:
        """Subtract messages that were settled or returned."""
        size = 0
        for entry in entries:
            size += entry.size
        self.messages -= len(entries)
        self.bytes -= size


class Queue:
    """A queue. Its roles are made in this order: store, ready messages, limits, consumers."""

    def __init__(self, spec: QueueSpec, roles: Roles, context: QueueContext, owner: object | None = None) -> None:
        self.spec = spec
        self.name = spec.name
        self.type: QueueType = type_of(spec.arguments)
        self.durable = spec.durable
        self.policies = NONE_IN_FORCE
        self.arguments: QueueArguments = parse(spec.arguments)
        """The arguments in force: those of the declaration, with its policies applied."""
        self.highest_priority: int | None = None
        """The highest priority of a queue with `x-max-priority`: messages above it count as this one."""
        self.owner = owner
        recorder = context.recorder
        self.events = None if recorder is None else QueueEvents(recorder, context.vhost, spec.name)
        self.out = Unacknowledged()
        self.deleted = False
        self.last_used = context.now()
        self._context = context
        self._turn = context.turn
        # Positions of this boot are above all earlier ones, so none is used twice even if the last ones were lost.
        self._position = context.boot << COUNTER_BITS
        self.stored_up_to = 0
        self.returned_last = False
        self._touched = False
        self._outlets: dict[Outlet, None] = {}
        self.store: StoreRole = roles.store
        self.counters: QueueCounters = roles.store.counters
        self.ready_messages = roles.ready_messages(self, roles.store, context)
        self.limits = roles.limits(self, context)
        self.consumers = roles.consumers(self, context)

    @abstractmethod
    def publish(self, message: Message) -> bool:
        """Enqueue a message; return True if its confirm has to wait for the disk."""

    def publish_all(self, messages: Sequence[Message]) -> bool:
        """Enqueue messages, all persistent or none; return True if their confirms have to wait for the disk."""
        if self.events is not None:
            self.events.number(messages)
        return max([self.publish(message) for message in messages])

    @property
    def vhost_name(self) -> str:
        """Name of its virtual host."""
        return self._context.vhost

    @property
    def ready(self) -> int:
        """Number of ready messages."""
        return len(self.ready_messages)

    @property
    def unacked(self) -> int:
        """Number of unacknowledged messages."""
        return self.out.messages

    @property
    def messages(self) -> int:
        """Number of messages, ready and unacknowledged."""
        return self.ready + self.unacked

    @property
    def message_bytes(self) -> int:
        """Bytes of the bodies of all these messages."""
        return self.ready_bytes + self.out.bytes

    @property
    def ready_bytes(self) -> int:
        """Bytes of the bodies of ready messages."""
        return self.ready_messages.bytes

    @property
    def may_time_out(self) -> bool:
        """The consumer timeout applies to its deliveries."""
        return self._context.personality.classic_timeouts

    @property
    def consumer_timeout(self) -> int | None:
        """The queue's own consumer timeout in milliseconds; 0: none, None: the default applies."""
        return self.arguments.consumer_timeout

    def use(self) -> None:
        """Restart the time of `x-expires`: the queue was used."""
        self.last_used = self._context.now()

    def touch(self) -> None:
        """Have the queue deliver at the end of this turn."""
        if not self._touched:
            self._touched = True
            self._turn.queues.append(self)

    # Out and back

    @abstractmethod
    def deliver(self) -> None:
        """Deliver ready messages to consumers with credit."""

    def deliver_now(self) -> None:
        """Deliver and expire now what the turn would at its end, so that the number of ready messages can be read."""
        while self._touched:
            self.deliver()

    def busy(self) -> Future[None] | None:
        """Return a future to wait for before a message is taken from the queue; usually None."""
        return None

    def get(self, outlet: Outlet, *, no_ack: bool) -> QueuedMessage | None:
        """Take the first ready message for basic.get; None if there is none."""
        return None

    def await_ack(self, outlet: Outlet, entries: Sequence[QueuedMessage], size: int) -> None:
        """Count messages, in order, as unacknowledged on a channel; `size`: bytes of their bodies."""
        self.out.add(len(entries), size)
        self._outlets[outlet] = None

    def finish(self, entries: Iterable[QueuedMessage], *, moved: bool = False) -> None:
        """Settle messages that are not unacknowledged (any more); `moved`: they were put elsewhere in the open
        batch."""
        self.store.settle([entry for entry in entries if entry.stored], moved=moved)

    def settle(self, entries: Sequence[QueuedMessage]) -> None:
        """Settle acknowledged messages."""
        count, counters = len(entries), self.counters
        self.out.remove(entries)
        counters.ack += count
        counters.of_type.ack += count
        if self.events is not None:
            self.events.settled(entries)
        if not self.deleted:
            self.finish(entries)

    def requeue(self, entries: Sequence[QueuedMessage], *, abandoned: bool = False, rejected: bool = False) -> None:
        """Requeue delivered messages; `abandoned`: their channel has ended. Here they are only counted out."""
        if self.events is not None:
            self.events.requeued(entries, abandoned=abandoned)
        self.out.remove(entries)

    def expect(self, back: Future[None]) -> None:
        """Prepare for a requeue over several turns, the last message first; `back` is settled when it is complete."""

    def reject(self, entries: Sequence[QueuedMessage]) -> None:
        """Reject delivered messages without requeue. Here they are only counted out."""
        self.out.remove(entries)

    def forget(self, outlet: Outlet) -> None:
        """Forget a channel that has ended and has no unacknowledged messages left."""
        self._outlets.pop(outlet, None)

    @property
    def outlets(self) -> Sequence[Outlet]:
        """The channels that may have unacknowledged messages."""
        return tuple(self._outlets)

    @property
    def unacknowledged(self) -> Iterable[QueuedMessage]:
        """The unacknowledged messages."""
        return (entry for outlet in self._outlets for entry in outlet.unacked_of(self))

    # The whole

    @abstractmethod
    def restore(self) -> None:
        """Take up the messages that are on disk at a start."""

    @abstractmethod
    def stored(self, lane: int, up_to: int) -> None:
        """Note that all puts into one lane, up to a position, are on disk."""

    def purge(self) -> int:
        """Drop every ready message; return their number."""
        return 0

    def delete(self) -> int:
        """Drop consumers and messages; return the number of ready messages.

        Several roles refer back to the queue: ready messages are read back for it, limits remove messages from it, dead
        letters are retried for it. A deleted queue must be freed at once with all its messages, not by the garbage
        collector, so these references are cut here: each role has an `end` that drops the queue, and the limits are
        replaced by `GONE`, which all deleted queues share.
        """
        if self.events is not None:
            self.events.deleted(self._position + 1)
            self.events = None
        self.deleted = True
        self.consumers.end()
        self.limits = GONE
        return self.ready_messages.end()

    def check(self) -> None:
        """Raise AssertionError unless the queue's parts are consistent: see `Invariants`."""
        if not self.deleted:
            self.ready_messages.check()
            self.consumers.check()
            assert self.unacked >= 0, f"{self.unacked} messages are unacknowledged"
            assert self.out.bytes >= 0, f"{self.out.bytes} bytes are unacknowledged"


class DeadLetterGroup(NamedTuple):
    """Dead letters with the same route, and the queues at its end."""

    copies: Sequence[Message]
    targets: Sequence[Queue]
