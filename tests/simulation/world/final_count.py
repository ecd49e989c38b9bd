"""The end of a run: everything comes to rest, and everything that was promised is taken out and counted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.wire import methods
from tests.simulation import accounting
from tests.simulation.acts import read_from, read_on_stream
from tests.simulation.copies import Broken, Place
from tests.simulation.simulated_client import Channel, Client, nothing
from tests.simulation.world.patience import MINUTE
from tests.simulation.world.topology_of_seed import DEAD_LETTERS

if TYPE_CHECKING:
    from tests.simulation.world.world import World


def settle(world: World) -> None:
    """Let everything come to rest, and take out everything that is there."""
    world.calm = True
    world.memory.others = 0
    world.disk.others, world.disk.failing, world.disk.slow, world.disk.deadly = 0, False, 1, ""
    world.wait(600_000)
    while world.down or world.process.paused:
        world.wait(600_000)
    world.wait(5_000)
    for client in list(world.clients.values()):
        world.now(client.read_on)
    world.wait(180_000)
    world.patience.check()
    for client in list(world.clients.values()):
        if not client.gone:
            world.now(client.vanish)
    world.wait(10_000_000)
    _drain(world)
    accounting.nothing_is_missing(world.promises)


def _drain(world: World) -> None:
    client = world.connect(-1)
    channel = client.open(1, "plain")
    world.wait(1_000)
    for place in sorted(world.promises.named.values(), key=lambda place: place.recipe.name == DEAD_LETTERS):
        if place.recipe.kind == "stream":
            continue
        while not place.said_empty:
            _get(world, client, channel, place)
    _read_stream(world, client, channel)
    client.vanish()


def _get(world: World, client: Client, channel: Channel, place: Place) -> None:
    def answered(answer: Any) -> None:
        if isinstance(answer, methods.BasicGetEmpty):
            place.said_empty = True
        else:
            client.take(channel, place, *answer, no_ack=True)

    world.begin_event()
    client.ask(channel, methods.BasicGet(place.recipe.name, True), answered)
    empty = place.said_empty
    world.promises.settle()
    place.said_empty = empty
    if channel.expected:
        world.wait(MINUTE)  # what has had its time and is in front goes first, and that may wait for the disk
    if channel.expected:
        raise Broken(f"basic.get from queue {place.recipe.name} is not answered within a minute")


def _read_stream(world: World, client: Client, channel: Channel) -> None:
    channel.prefetch = 100
    client.ask(channel, methods.BasicQos(0, 100, False), nothing)
    read_from(client, channel, "first")
    for _ in range(100_000):
        world.wait(20)
        if not channel.read_tags:
            break
        read_on_stream(client, channel, world.chance("end"))
    world.promises.stream.check_whole()
