"""A virtual host: exchanges and queues by name; declaring, restoring and deleting them.

A durable entity is on disk before it is visible: declarations return a future, and a second declaration of a name
that is being created waits for the first and is compared with it. A deletion takes effect in memory at once; its future
is settled when it is on disk.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import count
from types import MappingProxyType
from typing import NamedTuple

from broker.entities.arguments.policies import NONE_IN_FORCE
from broker.entities.arguments.queue_types import TYPES, DefaultType, type_of
from broker.entities.exchanges.event_exchange import INTERNAL
from broker.entities.exchanges.exchange import Exchange
from broker.entities.exchanges.exchange_type_table import RouterRules, new_exchange
from broker.entities.exchanges.routing import Routes, Routing
from broker.entities.messages.death_header import DeathForm
from broker.entities.messages.message import Message
from broker.entities.queues.queue import Queue, QueueContext, QueueSpec
from broker.entities.queues.queue_family import new_queue
from broker.entities.scheduling.future import Future
from broker.entities.vhosts.bindings import Bindings
from broker.entities.vhosts.dead_lettering import DeadLettering
from broker.entities.vhosts.declarations import Creations, Plan
from broker.entities.vhosts.delayed_exchange import DelayedExchanges
from broker.entities.vhosts.equivalence import assert_exchange_equivalent, assert_queue_equivalent
from broker.entities.vhosts.exclusive_queues import ExclusiveQueues
from broker.entities.vhosts.policy_application import PolicyApplication
from broker.entities.vhosts.vhost_context import VHostContext
from broker.wire.amqp_errors import ChannelException
from broker.wire.constants import ReplyCode
from broker.wire.field_tables import Fields, Table
from storage.batch import TRANSIENT_QUEUE, LaneState

RESTORE_SPREAD_MILLISECONDS = 2000
"""Time after a start over which queues read their heads from disk to expire messages."""

DEFAULT_VHOST = "/"

TRACE_EXCHANGE = "amq.rabbitmq.trace"

LOG_EXCHANGES = {"amq.rabbitmq.log": "topic"}
"""Those of the default virtual host, in some series."""

DEFAULT_EXCHANGES = {
    "": "direct",
    "amq.direct": "direct",
    "amq.fanout": "fanout",
    "amq.topic": "topic",
    "amq.headers": "headers",
    "amq.match": "headers",
    TRACE_EXCHANGE: "topic",
}


class VHostDescription(NamedTuple):
    """An operator's description of a virtual host.

    `default_queue_type` is empty and `protected_from_deletion` None if none is set.
    """

    description: str = ""
    tags: tuple[str, ...] = ()
    default_queue_type: str = ""
    protected_from_deletion: bool | None = None


class VHost:
    """A namespace of exchanges and queues."""

    def __init__(self, name: str, context: VHostContext) -> None:
        self.name = name
        self.description = VHostDescription()
        self.routing = Routing(context.boot, context.body_ids)
        self.exchanges = self.routing.exchanges
        self.queues = self.routing.queues
        self.deleted = False
        self.traced = False
        """The firehose is on: each publish and delivery is also published to exchange amq.rabbitmq.trace."""
        self.context = context
        self.statistics = context.statistics.new_vhost()
        self._churn = context.statistics.churn
        self._exclusive_queues = ExclusiveQueues(name)
        # Bindings delete auto-delete exchanges, policies delete expired queues: each is given that one method.
        self.bindings = Bindings(name, context, self.routing, self.delete_exchange)
        self.policy_application = PolicyApplication(name, context, self.routing, self.bindings, self.delete_queue)
        self._definitions = context.definitions
        form = DeathForm(context.personality.last_deaths, context.personality.sorted_deaths)
        self._queue_context = QueueContext(
            name,
            context.turn,
            context.timers,
            context.window,
            context.boot,
            context.now,
            context.soon,
            DeadLettering(self.routing, context.turn, context.now, form),
            context.recorder,
            context.background_work,
            context.batches,
            context.personality,
            context.watch,
        )
        self._delays = DelayedExchanges(context, self._queue_context, self.routing)
        personality = context.personality
        rules = RouterRules(
            context.chance, personality.exact_headers, personality.typed_hashes, personality.modulus_by_name
        )
        self._new_exchange = partial(new_exchange, rules=rules)
        self._new_queues = Creations(self.queues, self._queue_declared)
        self._new_exchanges = Creations(self.exchanges, self._exchange_declared)
        # Predeclared in memory at each start, so they are not in the definitions.
        log = LOG_EXCHANGES if name == DEFAULT_VHOST and personality.log_exchange else {}
        for exchange, type_ in (DEFAULT_EXCHANGES | log).items():
            internal = exchange.startswith("amq.rabbitmq.")
            self.exchanges[exchange] = self._new_exchange(
                exchange, type_, durable=True, auto_delete=False, internal=internal, arguments={}, declared_by=INTERNAL
            )

    @property
    def default_type(self) -> DefaultType:
        """The x-queue-type that declarations without one get: the virtual host's own, or the node's."""
        name = self.description.default_queue_type or self.context.default_queue_type
        return DefaultType(TYPES.get(name), self.context.personality.fallback_type)

    # Finding

    def exchange(self, name: str) -> Exchange:
        """Return the exchange of this name. Raises ChannelException 404."""
        exchange = self.exchanges.get(name)
        if exchange is None:
            raise ChannelException(ReplyCode.NOT_FOUND, f"no exchange '{name}' in vhost '{self.name}'")
        return exchange

    def queue(self, name: str, owner: object) -> Queue:
        """Return the queue of this name for connection `owner`.

        Raises ChannelException 404, or 405 if the queue is exclusive to another connection.
        """
        queue = self.queues.get(name)
        if queue is None:
            raise ChannelException(ReplyCode.NOT_FOUND, f"no queue '{name}' in vhost '{self.name}'")
        self._exclusive_queues.check_use(queue, owner)
        return queue

    # Declaring

    def declare_exchange(
        self,
        name: str,
        type_: str,
        *,
        durable: bool,
        auto_delete: bool,
        internal: bool,
        arguments: Table,
        by: str = INTERNAL,
    ) -> Future[Exchange]:
        """Create an exchange for user `by`, or compare the declaration with the existing one.

        Raises ChannelException 406 if the existing exchange differs, or its type refuses the arguments;
        ConnectionException for arguments at which RabbitMQ closes the connection.
        """
        flags = {"durable": durable, "auto_delete": auto_delete, "internal": internal}
        make = partial(
            self._new_exchange,
            name,
            type_,
            durable=durable,
            auto_delete=auto_delete,
            internal=internal,
            arguments=arguments,
            declared_by=by,
        )
        plan = Plan(
            # A new queue id is drawn here, so only when the exchange is really made.
            make=lambda: self._delays.attach(make()),
            compare=lambda found: assert_exchange_equivalent(found, self.name, type_, flags, arguments),
            write=partial(self._definitions.exchange_declared, self.name),
            durable=durable,
            by=by,
        )
        return self._new_exchanges.declare(name, plan)

    def declare_queue(self, spec: QueueSpec, owner: object | None, by: str = INTERNAL) -> Future[Queue]:
        """Create a queue for user `by`, or compare the declaration with the existing one.

        `owner`: the connection that it is exclusive to, or None. Raises ChannelException 405 if the existing queue has
        another owner, 406 if it differs.
        """
        plan = Plan(
            make=partial(self._make_queue, spec._replace(declared_by=by), owner),
            compare=partial(self._compare_queue, spec, owner),
            write=partial(self._definitions.queue_declared, self.name),
            durable=spec.durable,
            by=by,
        )
        self._churn.queue_declared += 1
        return self._new_queues.declare(spec.name, plan)

    def restore_queue(self, spec: QueueSpec, queue_id: int, states: Mapping[int, LaneState]) -> Queue:
        """Restore a durable queue from the stores at a start."""
        queue = self._new_queue(spec, queue_id, states, None)
        queue.restore()
        self._queue_appears(queue)
        # Messages may have expired meanwhile. Unless the queue itself has a time to live, finding out reads the head
        # from disk, which not all queues may do at once.
        urgent = queue.arguments.message_ttl is not None or queue.limits.over()
        spread = 0 if urgent else RESTORE_SPREAD_MILLISECONDS
        context = self.context
        context.timers.at(context.now() + queue_id % (spread + 1), queue.limits.resume)
        return queue

    def restore_exchange(
        self,
        name: str,
        type_: str,
        *,
        auto_delete: bool,
        internal: bool,
        arguments: Table,
        declared_by: str = "",
        queue_id: int = 0,
        states: Mapping[int, LaneState] = MappingProxyType({}),
    ) -> Exchange:
        """Restore a durable exchange from the stores at a start; `queue_id`: its delay queue's, 0 for none."""
        exchange = self._new_exchange(
            name,
            type_,
            durable=True,
            auto_delete=auto_delete,
            internal=internal,
            arguments=arguments,
            declared_by=declared_by,
        )
        self._exchange_appears(self._delays.restore(exchange, queue_id, states.get(0) or LaneState()))
        return exchange

    def _make_queue(self, spec: QueueSpec, owner: object | None) -> Queue:
        queue_id = self._definitions.new_queue_id() if spec.durable else next(self.context.transient_ids)
        return self._new_queue(spec, queue_id, {}, owner)

    def _compare_queue(self, spec: QueueSpec, owner: object | None, found: Queue) -> None:
        self._exclusive_queues.check_declaration(found, owner)
        assert_queue_equivalent(found, self.name, spec, self.context.personality.argument_rules)
        found.use()

    def _queue_declared(self, queue: Queue, by: str) -> None:
        self._queue_appears(queue)
        self._churn.queue_created += 1
        if self.context.event_exchange is not None:
            self.context.event_exchange.queue_created(self.name, queue, by)

    def _exchange_declared(self, exchange: Exchange, by: str) -> None:
        self._exchange_appears(exchange)
        if self.context.event_exchange is not None:
            self.context.event_exchange.exchange_created(self.name, exchange, by)

    def _queue_appears(self, queue: Queue) -> None:
        self.queues[queue.name] = queue
        self.context.queues_by_id[queue.store.queue_id] = queue
        self.policy_application.queue_appears(queue)
        self._exclusive_queues.add(queue)

    def _exchange_appears(self, exchange: Exchange) -> None:
        self.exchanges[exchange.name] = exchange
        self.policy_application.exchange_appears(exchange)
        delays = exchange.delays
        if delays is not None:
            self.context.queues_by_id[delays.store.queue_id] = delays
            if delays.events is not None:
                delays.events.declared(
                    "delay", durable=delays.durable, priorities=None, arguments={}, policies=NONE_IN_FORCE
                )
        if exchange.alternate is not None:
            self.bindings.alternates.add(exchange.alternate)
        if exchange.name in self.bindings.alternates:
            self.bindings.changed_everywhere()

    def _new_queue(
        self, spec: QueueSpec, queue_id: int, states: Mapping[int, LaneState], owner: object | None
    ) -> Queue:
        place = self.context.store_place(type_of(spec.arguments), queue_id, states)
        return new_queue(spec, place, self._queue_context, owner)

    # Deleting

    def delete_exchange(self, exchange: Exchange, by: str = INTERNAL) -> Future[None]:
        """Delete an exchange for a user, with the bindings from it and to it and its delayed messages."""
        del self.exchanges[exchange.name]
        if self.context.event_exchange is not None:
            self.context.event_exchange.exchange_deleted(self.name, exchange.name, by)
        self.bindings.remove_outbound(exchange, by)
        self.bindings.remove_inbound(exchange, by)
        self.bindings.changed(exchange)
        if exchange.delays is not None:
            self.context.queues_by_id.pop(exchange.delays.store.queue_id, None)
            exchange.delays.delete()
        if exchange.durable:
            return self._definitions.exchange_deleted(self.name, exchange, exchange.drop_delayed)
        exchange.drop_delayed()
        return Future.resolved(None)

    def delete_queue(self, queue: Queue, by: str = INTERNAL) -> Future[int]:
        """Delete a queue for a user, with its bindings and messages; return a future for the number of ready messages.

        Does nothing once the virtual host is deleted: `end` deletes its queues.
        """
        if self.deleted:
            return Future.resolved(0)
        # Out of every table before the messages go: nothing may be routed to it, or be read back for it, from here on.
        del self.queues[queue.name]
        self.context.queues_by_id.pop(queue.store.queue_id, None)
        self._exclusive_queues.remove(queue)
        self.bindings.remove_inbound(queue)
        messages = queue.delete()
        self._churn.queue_deleted += 1
        if self.context.event_exchange is not None:
            self.context.event_exchange.queue_deleted(self.name, queue.name, by)

        deleted = Future.resolved(None)
        if queue.durable:
            # Its records are reclaimed only once its definition is gone: a crash must not leave a queue without them.
            deleted = self._definitions.queue_deleted(self.name, queue, queue.store.drop)
        else:
            queue.store.drop()
        # Whether or not the deletion could be written: in memory it has taken effect.
        deleted.then(lambda _: queue.consumers.notify(self.context.turn))
        return deleted.chain(lambda _: Future.resolved(messages))

    def end(self, by: str = INTERNAL) -> Iterator[None]:
        """Delete the virtual host's contents, one queue per step; its definitions are deleted already."""
        self.deleted = True
        events, exchanges = self.context.event_exchange, list(self.exchanges)
        delays = [exchange.delays for exchange in self.exchanges.values() if exchange.delays is not None]
        queues: list[Queue] = [*self.queues.values(), *delays]
        self._churn.queue_deleted += len(self.queues)
        # From here on nothing in it can be found, although its queues are deleted in steps.
        self.queues.clear()
        self.exchanges.clear()
        self.bindings.end()
        self._exclusive_queues.clear()
        for queue in queues:
            if not queue.deleted:
                self.context.queues_by_id.pop(queue.store.queue_id, None)
                queue.delete()
                queue.store.drop()
                queue.consumers.notify(self.context.turn)
                if events is not None:
                    events.queue_deleted(self.name, queue.name, by)
            yield
        for name in exchanges:
            if events is not None:
                events.exchange_deleted(self.name, name, by)
                yield

    def release(self, owner: object) -> Iterator[None]:
        """Delete the exclusive queues of a connection that has ended, one per step."""
        for queue in self._exclusive_queues.take(owner):
            if not queue.deleted:
                self.delete_queue(queue)
            yield

    # Publishing

    def route(self, exchange: Exchange, keys: Iterable[str], headers: Fields, message: Message | None = None) -> Routes:
        """Return the queues that a message reaches from an exchange; see `Routing.route`."""
        return self.routing.route(exchange, keys, headers, message)

    def share_body(self, message: Message, queues: Iterable[Queue]) -> None:
        """Have a large body that goes to several durable queues stored once."""
        self.routing.share_body(message, queues)


def new_transient_ids() -> count[int]:
    """Return an iterator of ids for queues that do not survive the process."""
    return count(TRANSIENT_QUEUE)
