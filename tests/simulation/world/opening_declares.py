"""The first client of a world: it declares everything there is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from broker.wire import methods
from broker.wire.field_tables import from_python
from tests.simulation.simulated_client import nothing
from tests.simulation.world.topology_of_seed import DELAYED, FANOUT, LATE_QUEUE

if TYPE_CHECKING:
    from tests.simulation.world.world import World


def declare_everything(world: World) -> None:
    """Declare everything there is, as its first client."""
    client = world.connect(-1)
    channel = client.open(1, "plain")
    world.wait(2_000)
    client.ask(channel, methods.ExchangeDeclare(FANOUT, "fanout", False, True, False, False, False, {}), nothing)
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
    for name in ("plain", "rejects"):
        client.ask(channel, methods.QueueBind(name, FANOUT, "", False, {}), nothing)
    world.wait(50)
    world.promises.bound |= {world.promises.named[name].number for name in ("plain", "rejects")}
    client.vanish()
    del world.clients[-1]


def _declared(world: World, name: str) -> Callable[[Any], None]:
    def declared(_: Any) -> None:
        world.look()
        world.promises.named[name].sealed = True

    return declared
