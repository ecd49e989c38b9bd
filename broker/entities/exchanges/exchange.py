"""Exchanges and the bindings between them and what they lead to.

An exchange has a name, flags and a life; what it matches is for its `Router` to say, which is chosen by the
exchange's type once and for all: see `exchange_type_table`.
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
    """A named place to publish to.

    `bindings` are those it is the source of. `version` changes whenever what it matches may have changed. `delays` is
    where messages wait that ask an exchange of type x-delayed-message for it.
    """

    __slots__ = (
        "alternate",
        "arguments",
        "auto_delete",
        "bindings",
        "counters",
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
        router: Router,
    ) -> None:
        self.name = name
        self.type = type_
        self.durable = durable
        self.auto_delete = auto_delete
        self.internal = internal
        self.arguments = arguments
        self.policies = NONE_IN_FORCE
        self.alternate = alternate(arguments, NONE_IN_FORCE)
        self.router = router
        self.bindings: dict[Binding, None] = {}
        self.version = 0
        self.delays: DelayQueue | None = None
        self.counters = ExchangeCounters()

    def drop_delayed(self) -> None:
        """Drop the store's records of what the exchange delayed. For an exchange that is deleted on disk, too."""
        if self.delays is not None:
            self.delays.store.drop()

    def binding(self, destination: Destination, key: str, arguments: Table) -> Binding:
        """What a binding from here to there is known by; the order of its arguments is not part of it."""
        return Binding(self, destination, key, encode_table(dict(sorted(arguments.items()))))

    def bind(self, binding: Binding, arguments: Table) -> None:
        """Add a binding that its type has nothing against."""
        self.router.bind(binding, arguments)
        self.bindings[binding] = None
        self.version += 1

    def unbind(self, binding: Binding) -> None:
        """Remove a binding that is there."""
        self.router.unbind(binding)
        del self.bindings[binding]
        self.version += 1

    def check(self) -> None:
        """Raise AssertionError unless its bindings begin here and are those that its type matches."""
        for binding in self.bindings:
            assert binding.source is self, f"the binding to {binding.destination.name} begins elsewhere"
        self.router.check(self.bindings)


class Binding(NamedTuple):
    """A route from an exchange to a queue or to another exchange: unique by all four."""

    source: Exchange
    destination: Destination
    key: str
    arguments: bytes
    """The binding's arguments as an encoded field table."""


class Router(Protocol):
    """How one type of exchange matches. What is not said by a type is as here."""

    by_key_alone: bool = True
    """The routing key alone decides, so that a result is good for the next message with the same key too."""

    history: Sequence[Message] = ()
    """Earlier messages for a new binding, the oldest first."""

    def check_binding(self, key: str, arguments: Table, destination: str) -> None:
        """Raise ChannelException 406 when the type can make no sense of a binding.

        `destination` is the type of the queue at its other end, or `exchange`.
        """
        return

    def bind(self, binding: Binding, arguments: Table) -> None:
        """Take in a binding that has been checked."""

    def unbind(self, binding: Binding) -> None:
        """Forget a binding."""

    def match(self, keys: Sequence[str], headers: Fields, message: Message | None) -> Sequence[Destination]:
        """Where a message goes; a destination may come several times.

        `keys` are its routing key and those it is copied to. Without a message the question is where such a one
        would go.
        """

    def check(self, bindings: Collection[Binding]) -> None:
        """Raise AssertionError unless these, and no others, are the bindings it was given: see `Invariants`."""
