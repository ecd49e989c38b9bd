"""The first client of a world: it declares everything there is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from broker.wire import methods
from broker.wire.field_tables import Table, from_python
from tests.simulation.routing_rules import BINDING_KEYS, DELAYED, FANOUT, HEADERS, MATCHES, TOPIC
from tests.simulation.simulated_client import nothing
from tests.simulation.world.topology_of_seed import LATE_QUEUE

if TYPE_CHECKING:
    from tests.simulation.world.world import World


def declare_everything(world: World) -> None:
    """Declare everything there is, as its first client."""
    client = world.connect(-1)
    channel = client.open(1, "plain")
    world.wait(2_000)
    for name, kind_of_exchange in ((FANOUT, "fanout"), (TOPIC, "topic"), (HEADERS, "headers")):
        declare = methods.ExchangeDeclare(name, kind_of_exchange, False, True, False, False, False, {})
        client.ask(channel, declare, nothing)
    kind = from_python({"x-delayed-type": "direct"})
    declare = methods.ExchangeDeclare(DELAYED, "x-delayed-message", False, True, False, False, False, kind)
    client.ask(channel, declare, nothing)
    for recipe in world.recipes.values():
        world.wait(50)
        table = from_python(recipe.arguments())
        name, durable, auto_delete = recipe.name, recipe.durable, recipe.auto_delete
        client.ask(
            channel,
            methods.QueueDeclare(name, False, durable, False, auto_delete, False, table),
            _declared(world, name),
        )
    world.wait(50)
    client.ask(channel, methods.QueueBind(LATE_QUEUE, DELAYED, LATE_QUEUE, False, {}), nothing)
    bindings = [(name, exchange, keys[0]) for name in ("plain", "rejects") for exchange, keys in BINDING_KEYS.items()]
    for name, exchange, key in bindings:
        client.ask(channel, methods.QueueBind(name, exchange, key, False, binding_arguments(exchange, key)), nothing)
    world.wait(50)
    world.promises.bound |= {(world.promises.named[name].number, exchange, key) for name, exchange, key in bindings}
    client.vanish()
    del world.clients[-1]


def binding_arguments(exchange: str, key: str) -> Table:
    """The arguments of a binding of this key."""
    return from_python(MATCHES[key]) if exchange == HEADERS else {}


def _declared(world: World, name: str) -> Callable[[Any], None]:
    def declared(_: Any) -> None:
        world.look()
        world.promises.named[name].sealed = True

    return declared
