"""What goes wrong in a world, and when."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from broker.entities.scheduling.alarms import MEMORY

if TYPE_CHECKING:
    from tests.simulation.world.world import World

HOUR = 3_600_000

ACTS_WITHOUT_LULL = 400
"""After so many acts of clients they all have a rest, so that much time passes in a run, and much of it in quiet."""

Fault = Callable[["World", Random], None]


def kill(world: World, chance: Random) -> None:
    """The process is killed."""
    world.kill("crash", chance.choice((10, 10, 500, 500, 60_000, 2 * HOUR)))


def stop(world: World, chance: Random) -> None:
    """The broker is stopped in order."""
    world.stop(chance.choice((10, 500, 60_000)))


def set_clock(world: World, chance: Random) -> None:
    """Somebody sets the wall clock, by seconds or by hours, forward or back."""
    by = chance.choice((-1, 1)) * chance.choice((2_000, 120_000, 5 * HOUR, 26 * HOUR))
    world.note(f"the wall clock is set by {by / 1000:g} s")
    world.counts["clock set"] += 1
    world.times.set_wall(by)


def memory_runs_short(world: World, chance: Random) -> None:
    """There is little memory for a while."""
    world.note("memory is short")
    world.counts["memory alarm"] += 1
    process = world.process
    process.alarm(MEMORY, short=True)
    process.end_turn()

    def plenty() -> None:
        if process.alive:
            world.note("memory is plentiful")
            process.alarm(MEMORY, short=False)
            process.end_turn()

    world.agenda.after(chance.choice((50, 3_000, 600_000)), plenty)


def disk_fills(world: World, chance: Random) -> None:
    """The disk is full for a while."""
    world.note("the disk is full")
    world.counts["disk full"] += 1
    world.disk.full = True

    def room() -> None:
        world.note("the disk has room")
        world.disk.full = False

    world.agenda.after(chance.choice((50, 3_000, 60_000)), room)


def disk_slows(world: World, chance: Random) -> None:
    """Commits take long for a while."""
    world.counts["disk slow"] += 1
    world.disk.slow = chance.choice((20, 300))

    def quick() -> None:
        world.disk.slow = 1
        if dies and not world.down:
            world.kill("crash")

    dies = chance.random() < 0.4
    world.agenda.after(chance.choice((500, 5_000)), quick)


def commit_fails(world: World, chance: Random) -> None:
    """The next commit fails, and the broker ends."""
    world.counts["failed commit"] += 1
    world.disk.failing = True
    world.agenda.after(2_000, lambda: setattr(world.disk, "failing", False))


def commit_kills(world: World, chance: Random) -> None:
    """The process dies while it writes messages, or definitions."""
    world.disk.deadly = chance.choice(("messages", "messages", "definitions"))


def lull(world: World, chance: Random) -> None:
    """Nobody does anything for a while."""
    world.counts["lull"] += 1
    world.note("lull")
    world.lull_until = max(world.lull_until, world.times.now + chance.choice((60_000, 20 * 60_000, HOUR, 5 * HOUR)))


FAULTS: list[tuple[int, Fault]] = [
    (3, kill),
    (8, commit_kills),
    (2, stop),
    (6, set_clock),
    (8, memory_runs_short),
    (3, disk_fills),
    (6, disk_slows),
    (1, commit_fails),
    (2, lull),
]


def begin(world: World) -> None:
    """Have things go wrong from now on."""
    chance = world.chance("faults")
    weights, acts = [weight for weight, _ in FAULTS], [0]

    def next_one() -> None:
        if world.calm:
            return
        world.agenda.after(chance.choice((100, 1_500, 5_000)) + max(0, world.lull_until - world.times.now), next_one)
        _, fault = chance.choices(FAULTS, weights)[0]
        if world.counts["acts"] - acts[0] > ACTS_WITHOUT_LULL:
            fault = lull
        if fault is lull:
            acts[0] = world.counts["acts"]
        if not world.down:
            fault(world, chance)

    world.agenda.after(1_000, next_one)


def clear(world: World) -> None:
    """Nothing is short any more."""
    world.process.alarm(MEMORY, short=False)
    world.process.end_turn()
