"""Cost of shipping: the same load without `[ship]`, with it to a directory of this disk, and with confirms that wait.

A place in memory shows how much of it is the processor's, without the second write to the disk. In turn, each round
beginning with another. The whole process counts, the thread that ships included. Figures of the broker with `[ship]`
beside those without: `rate`, 1.0 is as fast, and the CPU time per message of both.
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from bench.compare import cpu, rate
from bench.load import generator
from bench.load.generator import Figures
from bench.load.measured_broker import Target, Wanted, median, own_broker, report, target_of

ROUNDS = 5
SECONDS = 4.0
QUEUE = "bench.shipping"
LOADS = {"window 1000": 1000, "one confirm at a time": 1}
MEMORY = Path("/dev/shm")
OFF = "off"
KEPT_SECONDS = 10.0
"""Time for which pieces are kept: a place in memory must not fill it."""


class Kind(NamedTuple):
    """A broker that ships: its name in the rows, `ship.confirm`, and whether its place is in memory."""

    name: str
    confirm: str
    in_memory: bool = False


KINDS = (
    Kind('confirm = "local"', "local"),
    Kind('confirm = "local", the place in memory', "local", in_memory=True),
    Kind('confirm = "shipped"', "shipped"),
)


def shipping(wanted: Wanted) -> None:
    """For each load medians of some rounds: parts of the rate without `[ship]`, CPU time, confirms."""
    rounds = max(1, min(ROUNDS, wanted.sized(10 * ROUNDS) // 10))
    kinds = [kind for kind in KINDS if MEMORY.is_dir() or not kind.in_memory]
    with ExitStack() as running:
        targets = {OFF: target_of(running.enter_context(own_broker()))}
        for kind in kinds:
            parent = MEMORY if kind.in_memory else None
            place = running.enter_context(tempfile.TemporaryDirectory(prefix="leveret-bench-", dir=parent))
            config = _config(Path(place), kind.confirm)
            targets[kind.name] = target_of(running.enter_context(own_broker(LEVERET_CONFIG=config)))
        for load, window in LOADS.items():
            found = _in_turn(targets, window, rounds, wanted.seconds(SECONDS))
            for name in [kind.name for kind in kinds]:
                report(f"{load}, {name}", rounds=rounds, **_beside(found[name], found[OFF]))


def _config(directory: Path, confirm: str) -> str:
    """Write the settings of a broker that ships to a place in a directory; returns their path."""
    (directory / "place").mkdir()
    path = directory / "ship.toml"
    path.write_text(f'[ship]\nto = "{directory / "place"}"\nconfirm = "{confirm}"\nkept_seconds = {KEPT_SECONDS}\n')
    return str(path)


def _in_turn(targets: dict[str, Target], window: int, rounds: int, seconds: float) -> dict[str, list[Figures]]:
    found: dict[str, list[Figures]] = {name: [] for name in targets}
    names = list(targets)
    for number in range(rounds):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            found[name].append(_load(targets[name], window, seconds))
    return found


def _load(target: Target, window: int, seconds: float) -> Figures:
    """1 KiB, persistent, each delivery acknowledged."""
    client = generator.connect(target)
    generator.declare_fresh(client, QUEUE)
    found = generator.run(target, label="shipping", key=QUEUE, queue=QUEUE, window=window, seconds=seconds)
    generator.delete(client, QUEUE)
    client.close()
    return {**found, "messages_per_s": found["delivered_per_s"]}


def _beside(shipped: list[Figures], off: list[Figures]) -> Figures:
    return {
        "rate": median([rate(one) / rate(other) for one, other in zip(shipped, off, strict=True)], 3),
        "messages_per_s": median([rate(one) for one in shipped], 0),
        "cpu_us": median([cpu(one) for one in shipped], 2),
        "cpu_us_off": median([cpu(one) for one in off], 2),
        "confirm_p50_ms": median([one["confirm_ms"]["p50"] for one in shipped], 3),
        "confirm_p50_ms_off": median([one["confirm_ms"]["p50"] for one in off], 3),
    }
