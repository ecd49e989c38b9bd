"""The family of queues: what each type is made of, a row each.

A queue plays one part itself, that of its type: how a message comes in, and what becomes of it on its way out. The
rest are roles, which others fill, and which it is given when it is made:

- *Store*: its share of the message store, with one lane of records or several. It writes with the open batch, settles,
  purges, reads back, and counts what survives a restart.
- *Ready messages*: what waits for consumers, in the order in which it goes out. They keep a window of it in memory and
  have the store read the rest back for the queue. A stream's are its log; of a delayed queue's messages none is ready.
- *Limits*: how long messages stay, how many there may be, and what becomes of those that are too many.
- *Consumers*: by priority, and in each priority whose turn it is.

A store knows no queue. The other roles may know theirs; `Queue.delete` says how that ends. All that is asked of every
type of queue is in `Queue`; `OrderedQueue` is what those have in common from which messages are taken in order.

To add a type of queue: its arguments as a row in `queue_types`, its queue in a file, or a folder, of its own, with
whatever fills a role in another way, and a row here.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, cast

from broker.entities.arguments import stream_arguments
from broker.entities.arguments.queue_types import CLASSIC, QUORUM, STREAM, QueueType, type_of
from broker.entities.queues.consumers import Consumers
from broker.entities.queues.delay_queue import NothingReady
from broker.entities.queues.ordered_queue import ClassicQueue, OrderedQueue
from broker.entities.queues.priority_queue import PriorityQueue, PriorityReadyMessages, PriorityStore
from broker.entities.queues.queue import Queue, QueueContext, QueueSpec, ReadyRole, Roles, StoreRole
from broker.entities.queues.queue_limits import QueueLimits, Unlimited
from broker.entities.queues.queue_store import QueueStore, StorePlace
from broker.entities.queues.quorum_queue import QuorumLimits, QuorumQueue, QuorumReadyMessages, QuorumStore
from broker.entities.queues.ready_messages import ReadyMessages
from broker.entities.queues.streams.stream_log import StreamLog, StreamStore
from broker.entities.queues.streams.stream_queue import Readers, Retention, Stream
from broker.wire.field_tables import Table


class Member(NamedTuple):
    """How queues of one type are made."""

    type: QueueType
    argument: str
    """One that a declaration has to name, beside the type; empty for none."""
    queue: Callable[[QueueSpec, Roles, QueueContext, object | None], Queue]
    store: Callable[[StorePlace], StoreRole]
    ready_messages: Callable[[Any, Any, QueueContext], ReadyRole]
    limits: Callable[[Any, QueueContext], Unlimited]
    consumers: Callable[[Any, QueueContext], Consumers]

    def is_meant(self, arguments: Table) -> bool:
        """Whether a declaration with these arguments is for such a queue."""
        return type_of(arguments) is self.type and (not self.argument or self.argument in arguments)


def _in_order(queue: ClassicQueue, store: QueueStore, context: QueueContext) -> ReadyMessages:
    return ReadyMessages(context.window, partial(store.read, queue))


def _by_priority(queue: PriorityQueue, store: PriorityStore, context: QueueContext) -> PriorityReadyMessages:
    return PriorityReadyMessages(context.window, lambda level: partial(store.read, queue, level))


def _returned_first(queue: QuorumQueue, store: QuorumStore, context: QueueContext) -> QuorumReadyMessages:
    return QuorumReadyMessages(context.window, partial(store.read, queue))


def _log(stream: Stream, store: StreamStore, context: QueueContext) -> StreamLog:
    return StreamLog(store, stream_arguments.parse(stream.spec.arguments, {}), context.window)


def _retention(stream: Stream, context: QueueContext) -> Retention:
    return Retention(stream)


def _consumers(queue: OrderedQueue, context: QueueContext) -> Consumers:
    return Consumers(context.now, single_active=queue.arguments.single_active_consumer)


def _readers(stream: Stream, context: QueueContext) -> Readers:
    return Readers(cast(StreamLog, stream.ready_messages), context.now)


FAMILY = (
    Member(CLASSIC, "x-max-priority", PriorityQueue, PriorityStore, _by_priority, QueueLimits, _consumers),
    Member(CLASSIC, "", ClassicQueue, QueueStore, _in_order, QueueLimits, _consumers),
    Member(QUORUM, "", QuorumQueue, QuorumStore, _returned_first, QuorumLimits, _consumers),
    Member(STREAM, "", Stream, StreamStore, _log, _retention, _readers),
)
"""The queues that can be declared; of those that are meant the first counts."""


def new_queue(spec: QueueSpec, place: StorePlace, context: QueueContext, owner: object | None = None) -> Queue:
    """A queue as it was declared, with a place in the message store; exclusive to connection `owner`, if any."""
    member = next(member for member in FAMILY if member.is_meant(spec.arguments))
    roles = Roles(member.store(place), member.ready_messages, member.limits, member.consumers)
    return member.queue(spec, roles, context, owner)


def delayed(place: StorePlace) -> Roles:
    """The roles of the queue in which an exchange keeps delayed messages. No client declares or consumes it."""
    return Roles(
        QueueStore(place),
        lambda queue, store, context: NothingReady(),
        lambda queue, context: Unlimited(),
        lambda queue, context: Consumers(context.now, single_active=False),
    )
