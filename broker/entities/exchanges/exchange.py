"""Exchanges and the bindings between them and what they lead to.

An exchange has a name, flags and a life; what it matches is for its `Router` to say, which is chosen by the
exchange's type once and for all. `ROUTERS` names the types there are.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from broker.entities.arguments.policies import NONE_IN_FORCE, alternate
from broker.entities.exchanges.exchange_types import Direct, Fanout, Headers, Router, Topic
from broker.entities.exchanges.hash_exchanges import ConsistentHash, ModulusHash
from broker.entities.exchanges.random_exchanges import LocalRandom, RandomChoice
from broker.entities.exchanges.recent_history import RecentHistory
from broker.wire.amqp_errors import ConnectionException, precondition_failed
from broker.wire.constants import ReplyCode
from broker.wire.field_tables import Table, encode_table

if TYPE_CHECKING:
    from broker.entities.queues.queue import Queue
    from broker.entities.vhosts.delayed_exchange import DelayQueue

Destination: TypeAlias = "Queue | Exchange"


class Binding(NamedTuple):
    """A route from an exchange to a queue or to another exchange: unique by all four."""

    source: Exchange
    destination: Destination
    key: str
    arguments: bytes
    """The binding's arguments as an encoded field table."""


DELAYED_TYPE = "x-delayed-message"


def delayed_type(arguments: Table) -> str:
    """The type whose bindings an exchange has that delays messages: the one it was told.

    Raises ChannelException 406, or ConnectionException 503 for a type that is not known, as RabbitMQ's plugin does.
    """
    field = arguments.get("x-delayed-type")
    if field is None or field.kind not in "Sx":
        raise precondition_failed("Invalid argument, 'x-delayed-type' must be an existing exchange type")
    name = bytes(field.value).decode("utf-8", "surrogateescape")
    if name == DELAYED_TYPE:
        raise precondition_failed(f"Invalid argument, '{DELAYED_TYPE}' can't be used for 'x-delayed-type'")
    if name not in ROUTERS:
        raise ConnectionException(ReplyCode.COMMAND_INVALID, f"unknown exchange type '{name}'")
    return name


ROUTERS: dict[str, Callable[[Table, Random], Router]] = {
    "direct": lambda arguments, chance: Direct(),
    "fanout": lambda arguments, chance: Fanout(),
    "topic": lambda arguments, chance: Topic(),
    "headers": lambda arguments, chance: Headers(),
    "x-consistent-hash": lambda arguments, chance: ConsistentHash(arguments),
    DELAYED_TYPE: lambda arguments, chance: ROUTERS[delayed_type(arguments)](arguments, chance),
    "x-local-random": lambda arguments, chance: LocalRandom(chance),
    "x-modulus-hash": lambda arguments, chance: ModulusHash(),
    "x-random": lambda arguments, chance: RandomChoice(chance),
    "x-recent-history": lambda arguments, chance: RecentHistory(arguments),
}
"""How a router of each type is made of the exchange's arguments.

Raises ChannelException for those that the type refuses, ConnectionException for those at which RabbitMQ gives up.
"""

CHANCE = Random()
"""Where chance comes from, unless somebody wants to know it beforehand."""


class Exchange:
    """A named place to publish to.

    `bindings` are those it is the source of, `inbound` those from other exchanges that lead here.
    `version` changes whenever what it matches may have changed. Making one raises what ROUTERS raise. `chance` is for
    types that choose at random. `delays` is where messages wait that ask an exchange of type x-delayed-message for it.
    """

    __slots__ = (
        "alternate",
        "arguments",
        "auto_delete",
        "bindings",
        "delays",
        "durable",
        "inbound",
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
        chance: Random = CHANCE,
    ) -> None:
        self.name = name
        self.type = type_
        self.durable = durable
        self.auto_delete = auto_delete
        self.internal = internal
        self.arguments = arguments
        self.policies = NONE_IN_FORCE
        self.alternate = alternate(arguments, NONE_IN_FORCE)
        self.router: Router = ROUTERS[type_](arguments, chance)
        self.bindings: dict[Binding, None] = {}
        self.inbound: dict[Binding, None] = {}
        self.version = 0
        self.delays: DelayQueue | None = None

    def binding(self, destination: Destination, key: str, arguments: Table) -> Binding:
        """What a binding from here to there is known by; the order of its arguments is not part of it."""
        return Binding(self, destination, key, encode_table(dict(sorted(arguments.items()))))

    def bind(self, binding: Binding, arguments: Table) -> None:
        """Add a binding that its type has nothing against."""
        self.router.bind(binding, arguments)
        self.bindings[binding] = None
        binding.destination.inbound[binding] = None
        self.version += 1

    def unbind(self, binding: Binding) -> None:
        """Remove a binding that is there."""
        self.router.unbind(binding)
        del self.bindings[binding]
        del binding.destination.inbound[binding]
        self.version += 1
