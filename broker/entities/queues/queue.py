"""What all queues are: a name, messages that come in and count, consumers, and an end.

Nothing here waits: a queue that has something to do says so to the turn, and does it at the turn's end. The types of
queue, and the roles that each fills, are in `queue_family`.
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
from broker.entities.queues.pending_batches import PendingBatches
from broker.entities.queues.queue_limits import GONE, Unlimited
from broker.entities.queues.ready_messages import MemoryWindow
from broker.entities.scheduling.background_work import BackgroundWork
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
"""How much one consumer is given before it is asked again for its credit."""

LOAD_BYTES: Final = 2 << 20
"""How much is read back from disk at a time; one message at least."""


class QueueSpec(NamedTuple):
    """What a queue is declared as."""

    name: str
    durable: bool
    exclusive: bool
    auto_delete: bool
    arguments: Table


class DeadLetters(Protocol):
    """The way of a queue's dead letters to its dead-letter exchange."""

    def write(self, queue: Queue, messages: Sequence[Message], reason: str) -> list[DeadLetterGroup]:
        """What is to be published for the first of some messages that died in a queue, for a reason.

        That is for so many of them as one step may copy, for one at least.
        """

    def publish(self, written: Iterable[DeadLetterGroup]) -> None:
        """Publish dead letters."""

    def publish_for_certain(self, queue: Queue, message: Message, reason: str) -> bool:
        """Publish the dead letter of one. False, and nothing published, unless it has targets and all take it."""


class QueueContext(NamedTuple):
    """What the queues of a virtual host need from around them."""

    vhost: str
    turn: Turn
    timers: Timers
    window: MemoryWindow
    boot: int
    now: Callable[[], int]
    soon: Callable[[], int]
    dead_letters: DeadLetters
    recorder: Recorder | None
    """Where events are recorded, what gathers them."""
    background_work: BackgroundWork
    batches: PendingBatches
    personality: Personality


class ReadyRole(Protocol):
    """The role of ready messages: what waits for consumers."""

    def __len__(self) -> int: ...

    @property
    def bytes(self) -> int:
        """The bodies of all that is ready."""

    @property
    def in_memory(self) -> MemoryWindow:
        """How many of them are in memory, and the bytes of their bodies."""

    @property
    def head(self) -> QueuedMessage | None:
        """The first, if it is in memory."""

    def end(self) -> int:
        """Forget every message, and the queue; how many they were."""

    def check(self) -> None:
        """Raise AssertionError when it contradicts itself: see `Invariants`."""


class StoreRole(Protocol):
    """The role of the store: the queue's share of what is on disk."""

    queue_id: int
    counters: QueueCounters

    @property
    def state(self) -> LaneState:
        """How much of the queue survives a restart."""

    def put(self, entry: QueuedMessage, *, durable: bool) -> None:
        """Have a message written with the open batch, to survive a restart if it is `durable`."""

    def settle(self, entries: Sequence[QueuedMessage], *, moved: bool = False) -> None:
        """Messages that were given to the store are finished with; `moved`: something was put in their place."""

    def delivered(self, entries: Sequence[QueuedMessage]) -> None:
        """A consumer has seen these messages, in order."""

    def purge(self, floor: int, survivors: Iterable[QueuedMessage]) -> None:
        """Everything below `floor` is dead, save what is still out with consumers."""

    def load(self, entries: Sequence[QueuedMessage]) -> None:
        """Read the content of messages back into memory; those that cannot be read stay without."""

    def restore(self) -> Mapping[int, QueueStore]:
        """The lanes were there before this start: what had been delivered is redelivered. The lanes there are."""

    def lost(self, number: int, messages: int, size_bytes: int) -> None:
        """Records of one lane could not be read, and were set aside."""

    def drop(self) -> None:
        """The queue is gone for good."""

    def check(self, entries: Sequence[QueuedMessage], *, complete: bool) -> None:
        """Raise AssertionError unless it counts its queue's persistent messages; `entries` are those in memory."""


class Roles(NamedTuple):
    """What fills the roles of a queue: a store, and what makes the others for the queue that is being made."""

    store: Any
    ready_messages: Callable[[Any, Any, QueueContext], ReadyRole]
    """For a queue and its store."""
    limits: Callable[[Any, QueueContext], Unlimited]
    consumers: Callable[[Any, QueueContext], Consumers]


class Unacknowledged:
    """How many messages of a queue are out with channels, and the bytes of their bodies."""

    __slots__ = ("bytes", "messages")

    def __init__(self) -> None:
        self.messages = self.bytes = 0

    def add(self, messages: int, size: int) -> None:
        """So many go out, with bodies of so many bytes."""
        self.messages += messages
        self.bytes += size

    def remove(self, entries: Sequence[QueuedMessage]) -> None:
        """Messages have been dealt with."""
        size = 0
        for entry in entries:
            size += entry.size
        self.messages -= len(entries)
        self.bytes -= size


class Queue:
    """Messages and consumers. Of the roles, ready messages are made first and consumers last."""

    def __init__(self, spec: QueueSpec, roles: Roles, context: QueueContext, owner: object | None = None) -> None:
        self.spec = spec
        self.name = spec.name
        self.type: QueueType = type_of(spec.arguments)
        self.durable = spec.durable
        self.policies = NONE_IN_FORCE
        self.arguments: QueueArguments = parse(spec.arguments)
        """What holds for it: declared, and made by its policies."""
        self.owner = owner
        recorder = context.recorder
        self.events = None if recorder is None else QueueEvents(recorder, context.vhost, spec.name)
        self.out = Unacknowledged()
        self.deleted = False
        self.last_used = context.now()
        self._context = context
        self._turn = context.turn
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
        """Take a message. True if a confirm of it has to wait for the disk."""

    def publish_all(self, messages: Sequence[Message]) -> bool:
        """Take a run of messages: all persistent or none. True if a confirm of them has to wait for the disk."""
        if self.events is not None:
            self.events.number(messages)
        return max([self.publish(message) for message in messages])

    @property
    def vhost_name(self) -> str:
        """The virtual host that it is in."""
        return self._context.vhost

    @property
    def ready(self) -> int:
        """How many messages wait for consumers."""
        return len(self.ready_messages)

    @property
    def unacked(self) -> int:
        """How many are out with channels and not acknowledged."""
        return self.out.messages

    @property
    def messages(self) -> int:
        """How many it holds, those that are out with consumers included."""
        return self.ready + self.unacked

    @property
    def ready_bytes(self) -> int:
        """The bytes of their bodies."""
        return self.ready_messages.bytes

    @property
    def may_time_out(self) -> bool:
        """Its deliveries have to be acknowledged in some time."""
        return self._context.personality.classic_timeouts

    @property
    def consumer_timeout(self) -> int | None:
        """How long a delivery may be unacknowledged, in milliseconds; 0: for ever, None: nothing was said."""
        return self.arguments.consumer_timeout

    def use(self) -> None:
        """The queue was used: the time of its `x-expires`, if it has one, begins anew."""
        self.last_used = self._context.now()

    def touch(self) -> None:
        """There may be something to deliver at the end of this turn."""
        if not self._touched:
            self._touched = True
            self._turn.queues.append(self)

    # Out and back

    @abstractmethod
    def deliver(self) -> None:
        """Hand out what is ready to consumers with credit."""

    def deliver_now(self) -> None:
        """Deliver now what the turn would deliver at its end: the number of ready messages is about to be read.

        A message that a consumer waits for is not ready, and one that has had its time is not there.
        """
        while self._touched:
            self.deliver()

    def busy(self) -> Future[None] | None:
        """What has to be over before the first message may be taken from the queue; None, as a rule, for nothing."""
        return None

    def get(self, outlet: Outlet, *, no_ack: bool) -> QueuedMessage | None:
        """Take the first ready message for a channel that asked for one; None where none can be taken."""
        return None

    def await_ack(self, outlet: Outlet, entries: Sequence[QueuedMessage], size: int) -> None:
        """Messages, in order, whose bodies have `size` bytes, go out to a channel that has to acknowledge them."""
        self.out.add(len(entries), size)
        self._outlets[outlet] = None

    def finish(self, entries: Iterable[QueuedMessage], *, moved: bool = False) -> None:
        """Messages have left for good, without ever having been unacknowledged; `moved`: for another place."""
        self.store.settle([entry for entry in entries if entry.stored], moved=moved)

    def settle(self, entries: Sequence[QueuedMessage]) -> None:
        """Delivered messages are acknowledged."""
        count, counters = len(entries), self.counters
        self.out.remove(entries)
        counters.ack += count
        counters.of_type.ack += count
        if self.events is not None:
            self.events.settled(entries)
        if not self.deleted:
            self.finish(entries)

    def requeue(self, entries: Sequence[QueuedMessage], *, abandoned: bool = False) -> None:
        """Delivered messages come back, given back or `abandoned` by a channel that has ended; here nothing left."""
        if self.events is not None:
            self.events.requeued(entries, abandoned=abandoned)
        self.out.remove(entries)

    def expect(self, back: Future[None]) -> None:
        """Messages are about to come back, some in each turn, the last first; `back` is settled when all have."""

    def reject(self, entries: Sequence[QueuedMessage]) -> None:
        """A consumer does not want messages and does not want them back in the queue; here nothing left."""
        self.out.remove(entries)

    def forget(self, outlet: Outlet) -> None:
        """A channel is gone, and everything it held has been given back."""
        self._outlets.pop(outlet, None)

    @property
    def unacknowledged(self) -> Iterable[QueuedMessage]:
        """The unacknowledged messages."""
        return (entry for outlet in self._outlets for entry in outlet.unacked_of(self))

    # The whole

    @abstractmethod
    def restore(self) -> None:
        """Start with what the store says is there."""

    @abstractmethod
    def stored(self, lane: int, up_to: int) -> None:
        """Everything this queue gave to one lane of its store up to a position is on disk."""

    def purge(self) -> int:
        """Drop every ready message; their number."""
        return 0

    def delete(self) -> int:
        """End: no consumers, no messages. The number of ready messages.

        Some of what a queue has knows the queue: ready messages are read back for it, limits let messages go from it,
        dead letters are tried for it, a delayed message is published for its exchange. A queue that is gone must be
        freed at once, with all that it held, not by the garbage collector. So all of that ends here: each of them
        has an `end`, which lets go of the queue, and limits are left to be those of all queues that are gone.
        """
        if self.events is not None:
            self.events.deleted(self._position + 1)
            self.events = None
        self.deleted = True
        self.consumers.end()
        self.limits = GONE
        return self.ready_messages.end()

    def check(self) -> None:
        """Raise AssertionError unless the queue's parts are sound and agree with each other: see `Invariants`."""
        if not self.deleted:
            self.ready_messages.check()
            self.consumers.check()
            assert self.unacked >= 0, f"{self.unacked} messages are out"
            assert self.out.bytes >= 0, f"{self.out.bytes} bytes are out"


class DeadLetterGroup(NamedTuple):
    """Dead letters that go the same way, and the queues at its end."""

    copies: Sequence[Message]
    targets: Sequence[Queue]
