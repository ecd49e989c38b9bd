"""The queue types: one row each, with the classes that fill the roles of such a queue.

A queue class says how a message comes in, and how it is returned, discarded and settled. The rest are roles, which it
is given when it is made:

- *Store*: its part of the message store, one lane of records or several. It puts into the open batch, settles, purges,
  reads back, and counts what survives a restart.
- *Ready messages*: those that wait for consumers, in order of delivery. A window of them is in memory; the store reads
  the rest back. A stream's are its log; a delay queue has none.
- *Limits*: time to live, length limits, overflow.
- *Consumers*: round-robin by priority.

A store does not refer to its queue. The other roles may; `Queue.delete` cuts that. `Queue` is the interface of every
type; `OrderedQueue` is the base of the types from which messages are taken in order.

To add a queue type: a row with its arguments in `queue_types`; its queue class, and roles that differ, in a file or
folder of their own; a row here.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, cast

from broker.entities.arguments import stream_arguments
from broker.entities.arguments.queue_types import CLASSIC, QUORUM, STREAM, QueueType, type_of
from broker.entities.arguments.quorum_priorities import QuorumPriorities
from broker.entities.queues.consumers import Consumers
from broker.entities.queues.delay_queue import NothingReady
from broker.entities.queues.ordered_queue import ClassicQueue, OrderedQueue
from broker.entities.queues.priority_queue import PriorityQueue, PriorityReadyMessages, PriorityStore
from broker.entities.queues.queue import Queue, QueueContext, QueueSpec, ReadyRole, Roles, StoreRole
from broker.entities.queues.queue_limits import QueueLimits
from broker.entities.queues.queue_store import QueueStore, StorePlace
from broker.entities.queues.quorum.quorum_limits import QuorumLimits
from broker.entities.queues.quorum.quorum_messages import (
    FairLevels,
    QuorumLevel,
    QuorumReadyMessages,
    ReturnedMessages,
)
from broker.entities.queues.quorum.quorum_queue import QuorumQueue
from broker.entities.queues.quorum.quorum_store import QuorumStore
from broker.entities.queues.ready_messages import ReadyMessages
from broker.entities.queues.streams.stream_log import StreamLog, StreamStore
from broker.entities.queues.streams.stream_queue import Readers, Retention, Stream
from broker.entities.queues.unlimited import Unlimited
from broker.wire.field_tables import Table


class Member(NamedTuple):
    """The classes of one queue type."""

    type: QueueType
    argument: str
    """An argument that a declaration must have, beside the type; empty for none."""
    queue: Callable[[QueueSpec, Roles, QueueContext, object | None], Queue]
    store: Callable[[StorePlace], StoreRole]
    ready_messages: Callable[[Any, Any, QueueContext], ReadyRole]
    limits: Callable[[Any, QueueContext], Unlimited]
    consumers: Callable[[Any, QueueContext], Consumers]

    def is_meant(self, arguments: Table) -> bool:
        """Return whether a declaration with these arguments is for such a queue."""
        return type_of(arguments) is self.type and (not self.argument or self.argument in arguments)


def _in_order(queue: ClassicQueue, store: QueueStore, context: QueueContext) -> ReadyMessages:
    return ReadyMessages(context.window, partial(store.read, queue))


def _by_priority(queue: PriorityQueue, store: PriorityStore, context: QueueContext) -> PriorityReadyMessages:
    return PriorityReadyMessages(context.window, lambda level: partial(store.read, queue, level))


def _returned_first(queue: QuorumQueue, store: QuorumStore, context: QueueContext) -> QuorumReadyMessages:
    priorities = context.personality.quorum_priorities
    levels = FairLevels if priorities is QuorumPriorities.TWO else PriorityReadyMessages
    return QuorumReadyMessages(
        ReturnedMessages(lambda numbers: queue.delayed.bring(numbers), lambda number: queue.delayed.look_at(number)),
        levels(context.window, lambda level: partial(store.read, queue, level), QuorumLevel),
        all_fronts=priorities is QuorumPriorities.STRICT,
    )


def _log(stream: Stream, store: StreamStore, context: QueueContext) -> StreamLog:
    return StreamLog(store, stream_arguments.parse(stream.spec.arguments, {}), context.window)


def _retention(stream: Stream, context: QueueContext) -> Retention:
    return Retention(stream)


def _consumers(queue: OrderedQueue, context: QueueContext) -> Consumers:
    return Consumers(context.now, single_active=queue.arguments.single_active_consumer)


def _quorum_consumers(queue: QuorumQueue, context: QueueContext) -> Consumers:
    single_active, takeover = queue.arguments.single_active_consumer, context.personality.takeover
    return Consumers(context.now, single_active=single_active, takeover=takeover)


def _readers(stream: Stream, context: QueueContext) -> Readers:
    return Readers(cast(StreamLog, stream.ready_messages), context.now)


FAMILY = (
    Member(CLASSIC, "x-max-priority", PriorityQueue, PriorityStore, _by_priority, QueueLimits, _consumers),
    Member(CLASSIC, "", ClassicQueue, QueueStore, _in_order, QueueLimits, _consumers),
    Member(QUORUM, "", QuorumQueue, QuorumStore, _returned_first, QuorumLimits, _quorum_consumers),
    Member(STREAM, "", Stream, StreamStore, _log, _retention, _readers),
)
"""The queues that can be declared; the first row that matches a declaration is used."""


def new_queue(spec: QueueSpec, place: StorePlace, context: QueueContext, owner: object | None = None) -> Queue:
    """Return a new queue for a declaration, exclusive to connection `owner` unless that is None."""
    member = next(member for member in FAMILY if member.is_meant(spec.arguments))
    roles = Roles(member.store(place), member.ready_messages, member.limits, member.consumers)
    return member.queue(spec, roles, context, owner)


def delayed(place: StorePlace) -> Roles:
    """Return the roles of a `DelayQueue`, in which an exchange keeps delayed messages. No client sees it."""
    return Roles(
        QueueStore(place),
        lambda queue, store, context: NothingReady(),
        lambda queue, context: Unlimited(),
        lambda queue, context: Consumers(context.now, single_active=False),
    )
