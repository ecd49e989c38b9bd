"""Mishaps of a world, and their times."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from tests.simulation.world.disk import SIZE_BYTES
from tests.simulation.world.memory import SIZE_BYTES as MEMORY_BYTES

if TYPE_CHECKING:
    from tests.simulation.world.world import World

HOUR = 3_600_000

ACTS_WITHOUT_LULL = 400
"""Acts of clients between rests of all, so that hours pass in a run, and much of them in quiet."""

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
    """Others take much of the memory for a while, or all of it."""
    world.counts["memory runs short"] += 1
    _take_memory(world, MEMORY_BYTES - chance.choice((0, 0, 10_000, 50_000)))
    world.agenda.after(chance.choice((50, 3_000, 600_000)), lambda: _take_memory(world, 0))


def _take_memory(world: World, size: int) -> None:
    world.note(f"others take {size} bytes of memory")
    world.memory.others = size
    process = world.process
    process.when_running(process.look_at_memory)


def disk_fills(world: World, chance: Random) -> None:
    """Somebody's file leaves little room on the disk, for a while."""
    world.counts["disk fills"] += 1
    _leave(world, chance.choice((0, 0, 10_000, 40_000, 120_000)))

    def room() -> None:
        _leave(world, chance.choice((20_000, 200_000, SIZE_BYTES, SIZE_BYTES)))

    world.agenda.after(chance.choice((50, 3_000, 60_000, 300_000)), room)
    world.agenda.after(900_000, lambda: _leave(world, SIZE_BYTES))


def _leave(world: World, size: int) -> None:
    world.disk.leave(size)
    world.note(f"somebody's file leaves {world.disk.free} bytes of the disk")


def pause(world: World, chance: Random) -> None:
    """The process is stopped, or its machine frozen."""
    world.pause(chance.choice((700, 40_000, 200_000, 900_000)))


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


def change_policy(world: World, chance: Random) -> None:
    """An administrator sets a policy, or clears one."""
    world.change_policy(chance.choice(list(world.policies)))


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
    (6, disk_fills),
    (4, pause),
    (6, disk_slows),
    (1, commit_fails),
    (7, change_policy),
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
        if not world.down and (not world.process.paused or fault in (kill, set_clock, disk_fills)):
            fault(world, chance)

    world.agenda.after(1_000, next_one)
