"""The exchange types: one row each, with the router of such an exchange."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import NamedTuple

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


class RouterRules(NamedTuple):
    """The source of randomness of routers, and what personalities differ in."""

    chance: Random
    exact_headers: bool
    """A headers exchange tells integers from floating-point numbers of the same value."""
    typed_hashes: bool
    """x-consistent-hash hashes a header with the name of its type."""
    modulus_by_name: bool
    """x-modulus-hash sorts destinations by name, not by binding key."""


ROUTERS: dict[str, Callable[[Table, RouterRules], Router]] = {
    "direct": lambda arguments, rules: Direct(),
    "fanout": lambda arguments, rules: Fanout(),
    "topic": lambda arguments, rules: Topic(),
    "headers": lambda arguments, rules: Headers(exact=rules.exact_headers),
    "x-consistent-hash": lambda arguments, rules: ConsistentHash(arguments, typed=rules.typed_hashes),
    DELAYED_TYPE: lambda arguments, rules: ROUTERS[delayed_type(arguments)](arguments, rules),
    "x-local-random": lambda arguments, rules: LocalRandom(rules.chance),
    "x-modulus-hash": lambda arguments, rules: ModulusHash(by_name=rules.modulus_by_name),
    "x-random": lambda arguments, rules: RandomChoice(rules.chance),
    "x-recent-history": lambda arguments, rules: RecentHistory(arguments),
}
"""Makes a router of each type from the exchange's arguments.

Raises ChannelException for arguments that the type refuses, ConnectionException where RabbitMQ closes the connection.
"""


def new_exchange(
    name: str,
    type_: str,
    *,
    durable: bool,
    auto_delete: bool,
    internal: bool,
    arguments: Table,
    declared_by: str = "",
    rules: RouterRules,
) -> Exchange:
    """Return an exchange of a type that is in ROUTERS. Raises what ROUTERS raise."""
    router = ROUTERS[type_](arguments, rules)
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
