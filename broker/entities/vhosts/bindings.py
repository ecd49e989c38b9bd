"""Bindings of a virtual host: added, removed, and deleted with their source or destination.

A binding between durable entities is durable: on disk before it matches anything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from broker.entities.exchanges.event_exchange import INTERNAL
from broker.entities.exchanges.exchange import Binding, Destination
from broker.entities.exchanges.routing import Routing, hand_over
from broker.entities.exchanges.topic_trie import check_wildcards
from broker.entities.messages.message import headers_of, keys_of
from broker.entities.queues.events.event_recording import BIND, UNBIND, name_bytes
from broker.entities.queues.queue import Queue
from broker.entities.scheduling.future import Future
from broker.wire.field_tables import Table

if TYPE_CHECKING:
    from broker.entities.exchanges.exchange import Exchange
    from broker.entities.messages.message import Message
    from broker.entities.vhosts.vhost_context import VHostContext


class Bindings:
    """Adds and removes the bindings of one virtual host. `delete` deletes an auto-delete exchange for a user."""

    def __init__(
        self, vhost: str, context: VHostContext, routing: Routing, delete: Callable[[Exchange, str], object]
    ) -> None:
        self._vhost = vhost
        self._definitions = context.definitions
        self._cache_epoch = context.cache_epoch
        self._invariants = context.invariants
        self._event_exchange = context.event_exchange
        self._recorder = context.recorder
        self._wildcards_max = context.personality.topic_wildcards_max
        self._routing = routing
        self._delete = delete
        self._inbound: dict[Destination, dict[Binding, None]] = {}
        self.alternates: set[str] = set()
        """Names that are, or were, some exchange's alternate exchange."""

    def bind(self, binding: Binding, arguments: Table, by: str = INTERNAL) -> Future[None]:
        """Add a binding for a user, unless it exists; settled once it is on disk and matches.

        Raises ChannelException 406 if the exchange's type refuses it.
        """
        source = binding.source
        if binding in source.bindings:
            return Future.resolved(None)
        source.router.check_binding(binding.key, arguments, _type(binding.destination))
        if self._wildcards_max and source.type == "topic":
            check_wildcards(binding.key, self._wildcards_max)
        if not _durable(binding):
            self._make(binding, arguments, by)
            return Future.resolved(None)

        def add(_: None) -> Future[None]:
            if self._alive(source) and self._alive(binding.destination) and binding not in source.bindings:
                self._make(binding, arguments, by)
            return Future.resolved(None)

        return self._definitions.bound(self._vhost, binding).chain(add)

    def unbind(self, binding: Binding, by: str = INTERNAL) -> Future[None]:
        """Remove a binding for a user, if it exists. An auto-delete exchange is deleted with its last binding."""
        if binding not in binding.source.bindings:
            return Future.resolved(None)
        self._remove(binding, by)
        if _durable(binding):
            return self._definitions.unbound(self._vhost, binding)
        return Future.resolved(None)

    def leading_to(self, destination: Destination) -> list[Binding]:
        """Return the bindings with this destination."""
        return list(self._inbound.get(destination, ()))

    def _make(self, binding: Binding, arguments: Table, by: str) -> None:
        self.add(binding, arguments)
        if self._event_exchange is not None:
            self._event_exchange.binding_created(self._vhost, binding, by)

    def add(self, binding: Binding, arguments: Table) -> None:
        """Add a binding in memory, where it matches from now on."""
        binding.source.bind(binding, arguments)
        self._inbound.setdefault(binding.destination, {})[binding] = None
        self._record(BIND, binding)
        self.changed(binding.source)
        if binding.source.router.history:
            self._hand_over(list(binding.source.router.history), binding.destination)

    def remove_inbound(self, entity: Destination, by: str = INTERNAL) -> None:
        """Remove all bindings to an exchange or queue that is being deleted."""
        for binding in list(self._inbound.get(entity, ())):
            self._remove(binding, by)

    def remove_outbound(self, exchange: Exchange, by: str) -> None:
        """Remove all bindings from an exchange that is being deleted."""
        for binding in list(exchange.bindings):
            self._unbind(binding, by)

    def changed(self, exchange: Exchange) -> None:
        """Invalidate cached routes of an exchange, and of the exchanges that are bound to it."""
        if exchange in self._inbound or exchange.name in self.alternates:
            self.changed_everywhere()
        exchange.version += 1
        if self._invariants is not None:
            self._invariants.touch_all((exchange, self))

    def alternate_changed(self, exchange: Exchange) -> None:
        """Invalidate cached routes: an exchange's alternate exchange has changed."""
        if exchange.alternate is not None:
            self.alternates.add(exchange.alternate)
        self.changed(exchange)

    def changed_everywhere(self) -> None:
        """Invalidate all cached routes, in constant time."""
        self._cache_epoch.advance()

    def _remove(self, binding: Binding, by: str) -> None:
        source = binding.source
        self._unbind(binding, by)
        self.changed(source)
        if source.auto_delete and not source.bindings and self._alive(source):
            self._delete(source, by)

    def _unbind(self, binding: Binding, by: str) -> None:
        binding.source.unbind(binding)
        inbound = self._inbound[binding.destination]
        del inbound[binding]
        if not inbound:
            del self._inbound[binding.destination]
        self._record(UNBIND, binding)
        if self._event_exchange is not None:
            self._event_exchange.binding_deleted(self._vhost, binding, by)

    def end(self) -> None:
        """Record that the virtual host is deleted with all its bindings."""
        if self._recorder is not None:
            self._recorder.add(UNBIND, 1, name_bytes(self._vhost), b"", b"", 0, b"", "")

    def _record(self, kind: int, binding: Binding) -> None:
        """Record a change of a binding in the event log."""
        if self._recorder is None:
            return
        source, destination = binding.source, binding.destination
        names = name_bytes(self._vhost), name_bytes(source.name), name_bytes(destination.name)
        to_exchange = int(not isinstance(destination, Queue))
        self._recorder.add(kind, 1, *names, to_exchange, name_bytes(binding.key), source.type)

    def check(self) -> None:
        """Raise AssertionError unless each binding is known by its source and under its destination."""
        for destination, inbound in self._inbound.items():
            assert inbound, f"'{destination.name}' is bound by nothing"
            for binding in inbound:
                assert binding.destination is destination, f"a binding of '{destination.name}' leads elsewhere"
                assert binding in binding.source.bindings, f"'{binding.source.name}' does not know its binding"

    def _hand_over(self, history: Sequence[Message], destination: Destination) -> None:
        """Publish an x-recent-history exchange's messages to a new binding: oldest first to a queue, latest first to
        an exchange.

        The latter is RabbitMQ's order. There, however, a message that reaches no queue closes the connection.
        """
        if isinstance(destination, Queue):
            for message in history:
                hand_over(message, destination)
            return
        for message in reversed(history):
            keys, headers = keys_of(message), headers_of(message)
            for queue in self._routing.route(destination, keys, headers, message).queues:
                hand_over(message, queue)

    def _alive(self, entity: Destination) -> bool:
        registry: dict[str, Queue] | dict[str, Exchange]
        registry = self._routing.queues if isinstance(entity, Queue) else self._routing.exchanges
        return registry.get(entity.name) is entity


def _type(destination: Destination) -> str:
    return destination.type.module if isinstance(destination, Queue) else "exchange"


def _durable(binding: Binding) -> bool:
    return binding.source.durable and binding.destination.durable
