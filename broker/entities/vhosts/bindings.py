"""Bindings of a virtual host: made, removed, and gone with either end.

Between durable ends a binding is durable: on disk before it matches anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from broker.entities.exchanges.exchange import Binding, Destination
from broker.entities.exchanges.routing import hand_over
from broker.entities.messages.message import headers_of, keys_of
from broker.entities.queues.queue import Queue
from broker.entities.scheduling.future import Future
from broker.wire.field_tables import Table

if TYPE_CHECKING:
    from broker.entities.exchanges.exchange import Exchange
    from broker.entities.messages.message import Message
    from broker.entities.vhosts.durable_definitions import Definitions
    from broker.entities.vhosts.vhost import VHost


class Bindings:
    """Adds and removes the bindings of one virtual host."""

    def __init__(self, vhost: VHost, definitions: Definitions) -> None:
        self._vhost = vhost
        self._definitions = definitions
        self.alternates: set[str] = set()
        """Names that some exchange has, or has had, for its alternate."""

    def bind(self, binding: Binding, arguments: Table) -> Future[None]:
        """Add a binding; one that is there already stays as it is.

        Raises ChannelException 406 when the exchange's type cannot make sense of it.
        """
        source = binding.source
        if binding in source.bindings:
            return Future.resolved(None)
        source.router.check(binding.key, arguments, _type(binding.destination))
        if not _durable(binding):
            self.add(binding, arguments)
            return Future.resolved(None)

        def add(_: None) -> Future[None]:
            if self._alive(source) and self._alive(binding.destination) and binding not in source.bindings:
                self.add(binding, arguments)
            return Future.resolved(None)

        return self._definitions.bound(self._vhost.name, binding).chain(add)

    def unbind(self, binding: Binding) -> Future[None]:
        """Remove a binding, if it is there. An auto-delete exchange goes with its last one."""
        if binding not in binding.source.bindings:
            return Future.resolved(None)
        self._remove(binding)
        if _durable(binding):
            return self._definitions.unbound(self._vhost.name, binding)
        return Future.resolved(None)

    def add(self, binding: Binding, arguments: Table) -> None:
        """Have a binding match from now on, in memory."""
        binding.source.bind(binding, arguments)
        self.changed(binding.source)
        if binding.source.router.history:
            self._hand_over(list(binding.source.router.history), binding.destination)

    def remove_inbound(self, entity: Destination) -> None:
        """An exchange or queue is going: nothing leads there any more."""
        for binding in list(entity.inbound):
            self._remove(binding)

    def changed(self, exchange: Exchange) -> None:
        """Routes that were remembered for an exchange, and for those that lead to it, no longer hold."""
        if exchange.inbound or exchange.name in self.alternates:
            self.changed_everywhere()
        exchange.version += 1

    def alternate_changed(self, exchange: Exchange) -> None:
        """An exchange has another alternate exchange, or none any more."""
        if exchange.alternate is not None:
            self.alternates.add(exchange.alternate)
        self.changed(exchange)

    def changed_everywhere(self) -> None:
        """No remembered route holds any more. However many exchanges there are, it is one step."""
        self._vhost.context.cache_epoch.advance()

    def _remove(self, binding: Binding) -> None:
        source = binding.source
        source.unbind(binding)
        self.changed(source)
        if source.auto_delete and not source.bindings and self._alive(source):
            self._vhost.delete_exchange(source)

    def _hand_over(self, history: Sequence[Message], destination: Destination) -> None:
        """Earlier messages for one who comes late: to a queue in their order, through an exchange the latest first.

        The latter is RabbitMQ's order. There, however, one that reaches no queue ends the connection.
        """
        if isinstance(destination, Queue):
            for message in history:
                hand_over(message, destination)
            return
        for message in reversed(history):
            keys, headers = keys_of(message), headers_of(message)
            for queue in self._vhost.route(destination, keys, headers, message).queues:
                hand_over(message, queue)

    def _alive(self, entity: Destination) -> bool:
        registry: dict[str, Queue] | dict[str, Exchange]
        registry = self._vhost.queues if isinstance(entity, Queue) else self._vhost.exchanges
        return registry.get(entity.name) is entity


def _type(destination: Destination) -> str:
    return destination.type.module if isinstance(destination, Queue) else "exchange"


def _durable(binding: Binding) -> bool:
    return binding.source.durable and binding.destination.durable
