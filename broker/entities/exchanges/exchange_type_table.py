"""The exchange types: one row each, with the router of such an exchange."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from broker.entities.exchanges.exchange import Exchange, Router
from broker.entities.exchanges.exchange_types import Direct, Fanout, Headers, Topic
from broker.entities.exchanges.hash_exchanges import ConsistentHash, ModulusHash
from broker.entities.exchanges.random_exchanges import LocalRandom, RandomChoice
from broker.entities.exchanges.recent_history import RecentHistory
from broker.wire.amqp_errors import ConnectionException, precondition_failed
from broker.wire.constants import ReplyCode
from broker.wire.field_tables import Table

DELAYED_TYPE = "x-delayed-message"


def delayed_type(arguments: Table) -> str:
    """Return the value of `x-delayed-type`: the type by which an x-delayed-message exchange routes.

    Raises ChannelException 406, or ConnectionException 503 for an unknown type, as RabbitMQ's plugin does.
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
"""Makes a router of each type from the exchange's arguments.

Raises ChannelException for arguments that the type refuses, ConnectionException where RabbitMQ closes the connection.
"""

CHANCE = Random()
"""The default source of randomness."""


def new_exchange(
    name: str,
    type_: str,
    *,
    durable: bool,
    auto_delete: bool,
    internal: bool,
    arguments: Table,
    declared_by: str = "",
    chance: Random = CHANCE,
) -> Exchange:
    """Return an exchange of a type that is in ROUTERS. Raises what ROUTERS raise. `chance`: for random types."""
    router = ROUTERS[type_](arguments, chance)
    return Exchange(
        name,
        type_,
        durable=durable,
        auto_delete=auto_delete,
        internal=internal,
        arguments=arguments,
        declared_by=declared_by,
        router=router,
    )
