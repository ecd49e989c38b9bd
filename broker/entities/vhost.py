"""A virtual host: names of exchanges and queues, and what declaring, binding and deleting them means.

A durable entity is on disk before anybody sees it: `declare_...` and `bind` answer with a pending, and a
second declaration of a name that is being created waits for the first and is compared with it. Deleting
takes effect at once in memory; whoever asked is answered when the disk has followed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count
from typing import NamedTuple, TypeVar

from broker.entities import dead_letters, queue_arguments
from broker.entities.bindings import Bindings
from broker.entities.definitions import Definitions
from broker.entities.exchanges import Exchange
from broker.entities.journal import Journal
from broker.entities.lane import Lane, MessageSource
from broker.entities.message import Message
from broker.entities.pending import Pending
from broker.entities.queue import Queue, QueueContext, QueueSpec
from broker.entities.routing import Routes, route
from broker.wire.constants import ReplyCode
from broker.wire.errors import ChannelException
from broker.wire.tables import Table
from storage.batch import COUNTER_BITS, TRANSIENT_QUEUE, LaneState

SHARED_BODY_BYTES = 4096
"""From this size on, a body that goes to several durable queues is stored once."""

DEFAULT_EXCHANGES = {
    "": "direct",
    "amq.direct": "direct",
    "amq.fanout": "fanout",
    "amq.topic": "topic",
    "amq.headers": "headers",
    "amq.match": "headers",
    "amq.rabbitmq.trace": "topic",
}

E = TypeVar("E", Queue, Exchange)


class VHostDescription(NamedTuple):
    """What an operator has said of a virtual host. `default_queue_type` is empty where none was chosen."""

    description: str = ""
    tags: tuple[str, ...] = ()
    default_queue_type: str = ""


class VHostContext(NamedTuple):
    """What every virtual host of a broker shares."""

    queue: QueueContext
    journal: Journal
    messages: MessageSource
    definitions: Definitions
    transient_ids: count[int]
    body_ids: count[int]
    queues_by_id: dict[int, Queue]


class VHost:
    """One namespace of exchanges and queues, apart from all others."""

    def __init__(self, name: str, context: VHostContext) -> None:
        self.name = name
        self.description = VHostDescription()
        self.exchanges: dict[str, Exchange] = {}
        self.queues: dict[str, Queue] = {}
        self.deleted = False
        self.context = context
        self._owned: dict[object, dict[Queue, None]] = {}
        self.bindings = Bindings(self, context.definitions)
        self._definitions = context.definitions
        self._creating: dict[tuple[type, str], Pending[Queue] | Pending[Exchange]] = {}
        for exchange, type_ in DEFAULT_EXCHANGES.items():
            internal = exchange == "amq.rabbitmq.trace"
            self.exchanges[exchange] = Exchange(
                exchange, type_, durable=True, auto_delete=False, internal=internal, arguments={}
            )

    # Finding

    def exchange(self, name: str) -> Exchange:
        """The exchange of this name. Raises ChannelException 404."""
        exchange = self.exchanges.get(name)
        if exchange is None:
            raise ChannelException(ReplyCode.NOT_FOUND, f"no exchange '{name}' in vhost '{self.name}'")
        return exchange

    def queue(self, name: str, owner: object) -> Queue:
        """The queue of this name, for use by connection `owner`.

        Raises ChannelException 404, or 405 when it is exclusive to another connection.
        """
        queue = self.queues.get(name)
        if queue is None:
            raise ChannelException(ReplyCode.NOT_FOUND, f"no queue '{name}' in vhost '{self.name}'")
        if queue.owner is not None and queue.owner is not owner:
            raise _locked(name, self.name)
        return queue

    # Declaring

    def declare_exchange(
        self, name: str, type_: str, *, durable: bool, auto_delete: bool, internal: bool, arguments: Table
    ) -> Pending[Exchange]:
        """Create an exchange, or find that it is there as described.

        Raises ChannelException 406 when it is there with another description.
        """

        def make() -> Exchange:
            return Exchange(
                name, type_, durable=durable, auto_delete=auto_delete, internal=internal, arguments=arguments
            )

        def same(exchange: Exchange) -> None:
            flags = {"durable": durable, "auto_delete": auto_delete, "internal": internal}
            _assert_exchange_equivalent(exchange, self.name, type_, flags, arguments)

        def commit(exchange: Exchange) -> Pending[None]:
            return self._definitions.exchange_declared(self.name, exchange)

        return self._declare(Exchange, name, self.exchanges, make, same, commit, durable=durable)

    def declare_queue(self, spec: QueueSpec, owner: object | None) -> Pending[Queue]:
        """Create a queue, or find that it is there as described. `owner` is the connection it is exclusive to.

        Raises ChannelException 405 or 406 when it is there with another owner or another description.
        """

        def make() -> Queue:
            queue_id = self._definitions.new_queue_id() if spec.durable else next(self.context.transient_ids)
            return self._new_queue(spec, queue_id, LaneState(), owner)

        def same(queue: Queue) -> None:
            if queue.owner is not owner:
                raise _locked(spec.name, self.name)
            _assert_queue_equivalent(queue, self.name, spec)
            queue.last_used = self.context.queue.now()

        def commit(queue: Queue) -> Pending[None]:
            return self._definitions.queue_declared(self.name, queue)

        return self._declare(Queue, spec.name, self.queues, make, same, commit, durable=spec.durable)

    def restore_queue(self, spec: QueueSpec, queue_id: int, state: LaneState) -> Queue:
        """Bring a durable queue back as the stores describe it."""
        queue = self.queues[spec.name] = self._new_queue(spec, queue_id, state, None)
        queue.restore()
        self._watch_expiry(queue)
        return queue

    def restore_exchange(
        self, name: str, type_: str, *, auto_delete: bool, internal: bool, arguments: Table
    ) -> Exchange:
        """Bring a durable exchange back as the store describes it."""
        exchange = Exchange(name, type_, durable=True, auto_delete=auto_delete, internal=internal, arguments=arguments)
        self._appear(exchange)
        return exchange

    def _declare(
        self,
        kind: type[E],
        name: str,
        existing: dict[str, E],
        make: Callable[[], E],
        same: Callable[[E], None],
        commit: Callable[[E], Pending[None]],
        *,
        durable: bool,
    ) -> Pending[E]:
        def again(_: object) -> Pending[E]:
            return self._declare(kind, name, existing, make, same, commit, durable=durable)

        if name in existing:
            same(existing[name])
            return Pending.resolved(existing[name])
        creating = self._creating.get((kind, name))
        if creating is not None:
            return creating.chain(again)
        entity = make()
        if not durable:
            self._appear(entity)
            return Pending.resolved(entity)
        created: Pending[E] = Pending()
        self._creating[kind, name] = created

        def committed(outcome: Pending[None]) -> None:
            del self._creating[kind, name]
            try:
                outcome.result()
            except Exception as error:  # whoever declared is told
                created.fail(error)
            else:
                self._appear(entity)
                created.resolve(entity)

        commit(entity).then(committed)
        return created

    def _appear(self, entity: Queue | Exchange) -> None:
        if isinstance(entity, Queue):
            self.queues[entity.name] = entity
            self._watch_expiry(entity)
            if entity.owner is not None:
                self._owned.setdefault(entity.owner, {})[entity] = None
            return
        self.exchanges[entity.name] = entity
        if entity.alternate is not None:
            self.bindings.alternates.add(entity.alternate)
        if entity.name in self.bindings.alternates:
            self.bindings.changed_everywhere()

    def _new_queue(self, spec: QueueSpec, queue_id: int, state: LaneState, owner: object | None) -> Queue:
        lane = Lane(self.context.journal, self.context.messages, queue_id, 0, state)
        queue = Queue(spec, lane, self.context.queue._replace(dead_letter=self._dead_letter), owner)
        self.context.queues_by_id[queue_id] = queue
        return queue

    # Deleting

    def delete_exchange(self, exchange: Exchange) -> Pending[None]:
        """Remove an exchange with its bindings, in both directions."""
        del self.exchanges[exchange.name]
        for binding in list(exchange.bindings):
            exchange.unbind(binding)
        self.bindings.remove_inbound(exchange)
        self.bindings.changed_everywhere()
        exchange.version += 1
        if exchange.durable:
            return self._definitions.exchange_deleted(self.name, exchange)
        return Pending.resolved(None)

    def delete_queue(self, queue: Queue) -> Pending[int]:
        """Remove a queue with its bindings and messages; answers with the number of ready messages."""
        del self.queues[queue.name]
        self.context.queues_by_id.pop(queue.lane.queue_id, None)
        self._owned.get(queue.owner, {}).pop(queue, None)
        self.bindings.remove_inbound(queue)
        messages = queue.delete()

        def drop(_: None) -> Pending[int]:
            queue.lane.drop()
            queue.bid_farewell()
            return Pending.resolved(messages)

        if not queue.durable:
            return drop(None)
        return self._definitions.queue_deleted(self.name, queue).chain(drop)

    def release(self, owner: object) -> None:
        """A connection is gone: so are the queues exclusive to it."""
        for queue in list(self._owned.pop(owner, ())):
            self.delete_queue(queue)

    def _watch_expiry(self, queue: Queue) -> None:
        lease = queue.arguments.expires
        if lease is None:
            return
        context = self.context.queue

        def check() -> None:
            if queue.deleted:
                return
            if len(queue.consumers):
                queue.last_used = context.now()
            if queue.last_used + lease <= context.now():
                self.delete_queue(queue)
            else:
                context.timers.at(queue.last_used + lease, check)

        context.timers.at(context.now() + lease, check)

    # Publishing

    def route(self, exchange: Exchange, keys: Iterable[str], headers: Table) -> Routes:
        """The queues a message reaches from an exchange."""
        return route(self.exchanges, exchange, tuple(keys), headers, self.queues)

    def share_body(self, message: Message, queues: Iterable[Queue]) -> None:
        """Have a large body that goes to several durable queues stored once."""
        if message.persistent and len(message.body) >= SHARED_BODY_BYTES and sum(q.durable for q in queues) > 1:
            message.body_id = (self.context.queue.boot << COUNTER_BITS) + next(self.context.body_ids)

    def _dead_letter(self, queue: Queue, message: Message, reason: str) -> None:
        name = queue.arguments.dead_letter_exchange
        exchange = None if name is None else self.exchanges.get(name)
        if exchange is None:
            return
        key = queue.arguments.dead_letter_routing_key
        letter = dead_letters.died(message, queue.name, reason, self.context.queue.now(), exchange.name, key)
        routes = self.route(exchange, dead_letters.keys_of(letter), dead_letters.headers_of(letter))
        targets = [target for target in routes.queues if not dead_letters.in_circle(letter, target.name)]
        self.share_body(letter, targets)
        for target in targets:
            target.publish(letter)


def new_transient_ids() -> count[int]:
    """Numbers for queues that end with the process."""
    return count(TRANSIENT_QUEUE)


def _assert_exchange_equivalent(
    exchange: Exchange, vhost: str, type_: str, flags: dict[str, bool], arguments: Table
) -> None:
    entity = f"exchange '{exchange.name}' in vhost '{vhost}'"
    if exchange.type != type_:
        raise _differs("type", entity, type_, exchange.type)
    for name, received in flags.items():
        current = getattr(exchange, name)
        if current != received:
            raise _differs(name, entity, _word(received), _word(current))
    alternate = "alternate-exchange"
    was, now = exchange.arguments.get(alternate), arguments.get(alternate)
    if not queue_arguments.same_value(was, now):
        raise queue_arguments.inequivalent(alternate, entity, was, now)


def _assert_queue_equivalent(queue: Queue, vhost: str, spec: QueueSpec) -> None:
    entity = f"queue '{queue.name}' in vhost '{vhost}'"
    for name in ("durable", "auto_delete"):
        current, received = getattr(queue.spec, name), getattr(spec, name)
        if current != received:
            raise _differs(name, entity, _word(received), _word(current))
    queue_arguments.assert_equivalent(queue.name, vhost, queue.spec.arguments, spec.arguments)


def _differs(name: str, entity: str, received: str, current: str) -> ChannelException:
    text = f"inequivalent arg '{name}' for {entity}: received '{received}' but current is '{current}'"
    return ChannelException(ReplyCode.PRECONDITION_FAILED, text)


def _word(value: bool) -> str:
    return "true" if value else "false"


def _locked(queue: str, vhost: str) -> ChannelException:
    return ChannelException(
        ReplyCode.RESOURCE_LOCKED,
        f"cannot obtain exclusive access to locked queue '{queue}' in vhost '{vhost}'. It could be originally "
        "declared on another connection or the exclusive property value does not match that of the original "
        "declaration.",
    )
