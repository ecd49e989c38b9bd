"""Exchanges, bindings, and `Router`, the interface of exchange types.

An exchange has a name and flags; its `Router`, which its type decides (`exchange_type_table`), matches messages with
bindings.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from broker.entities.arguments.policies import NONE_IN_FORCE, alternate
from broker.entities.statistics.counters import ExchangeCounters
from broker.wire.field_tables import Fields, Table, encode_table

if TYPE_CHECKING:
    from broker.entities.messages.message import Message
    from broker.entities.queues.delay_queue import DelayQueue
    from broker.entities.queues.queue import Queue

Destination: TypeAlias = "Queue | Exchange"


class Exchange:
    """An exchange.

    `bindings`: those of which it is the source. `version` grows with each change of its routes. `delays`: the queue of
    delayed messages, of type x-delayed-message only.
    """

    __slots__ = (
        "alternate",
        "arguments",
        "auto_delete",
        "bindings",
        "counters",
        "declared_by",
        "delays",
        "durable",
        "internal",
        "name",
        "policies",
        "router",
        "type",
        "version",
    )

    def __init__(
        self,
        name: str,
        type_: str,
        *,
        durable: bool,
        auto_delete: bool,
        internal: bool,
        arguments: Table,
        declared_by: str,
        router: Router,
    ) -> None:
        self.name = name
        self.type = type_
        self.durable = durable
        self.auto_delete = auto_delete
        self.internal = internal
        self.arguments = arguments
        self.declared_by = declared_by
        self.policies = NONE_IN_FORCE
        self.alternate = alternate(arguments, NONE_IN_FORCE)
        self.router = router
        self.bindings: dict[Binding, None] = {}
        self.version = 0
        self.delays: DelayQueue | None = None
        self.counters = ExchangeCounters()

    def drop_delayed(self) -> None:
        """Have the records of delayed messages reclaimed. The exchange must be deleted on disk."""
        if self.delays is not None:
            self.delays.store.drop()

    def binding(self, destination: Destination, key: str, arguments: Table) -> Binding:
        """Return the binding from here to a destination; the order of its arguments does not matter."""
        return Binding(self, destination, key, encode_table(dict(sorted(arguments.items()))))

    def bind(self, binding: Binding, arguments: Table) -> None:
        """Add a binding that `Router.check_binding` has accepted."""
        self.router.bind(binding, arguments)
        self.bindings[binding] = None
        self.version += 1

    def unbind(self, binding: Binding) -> None:
        """Remove an existing binding."""
        self.router.unbind(binding)
        del self.bindings[binding]
        self.version += 1

    def check(self) -> None:
        """Raise AssertionError unless its bindings have it as source and are those that its router matches."""
        for binding in self.bindings:
            assert binding.source is self, f"the binding to {binding.destination.name} begins elsewhere"
        self.router.check(self.bindings)


class Binding(NamedTuple):
    """A binding of a queue, or of an exchange, to an exchange; identified by all four fields."""

    source: Exchange
    destination: Destination
    key: str
    arguments: bytes
    """The binding's arguments as an encoded field table."""


class Router(Protocol):
    """Matches messages with bindings for one type of exchange. A type overrides what differs from these defaults."""

    by_key_alone: bool = True
    """The routing key alone decides, so routes can be cached by it."""

    history: Sequence[Message] = ()
    """Earlier messages for a new binding, the oldest first."""

    def check_binding(self, key: str, arguments: Table, destination: str) -> None:
        """Raise ChannelException 406 if the type refuses a binding.

        `destination`: the RabbitMQ module name of the queue's type, or `exchange`.
        """
        return

    def bind(self, binding: Binding, arguments: Table) -> None:
        """Add a checked binding."""

    def unbind(self, binding: Binding) -> None:
        """Remove a binding."""

    def match(self, keys: Sequence[str], headers: Fields, message: Message | None) -> Sequence[Destination]:
        """Return the destinations of a message; a destination may be repeated.

        `keys`: its routing key and the keys of its CC and BCC headers. `message` is None if only the route is asked
        for.
        """

    def check(self, bindings: Collection[Binding]) -> None:
        """Raise AssertionError unless these are exactly the bindings it has: see `Invariants`."""
