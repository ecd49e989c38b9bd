"""Cost of shipping: the same load without `[ship]`, with it to a directory of this disk, and with confirms that wait.

In turn, each round beginning with another. The whole process counts, the thread that ships included. Figures of the
broker with `[ship]` beside those without: `rate`, 1.0 is as fast, and the CPU time per message of both.
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path

from bench.compare import cpu, rate
from bench.load import generator
from bench.load.generator import Figures
from bench.load.measured_broker import Target, Wanted, median, own_broker, report, target_of

ROUNDS = 5
SECONDS = 4.0
QUEUE = "bench.shipping"
LOADS = {"window 1000": 1000, "one confirm at a time": 1}
CONFIRMS = ("local", "shipped")
OFF = "off"


def shipping(wanted: Wanted) -> None:
    """For each load medians of some rounds: parts of the rate without `[ship]`, CPU time, confirms."""
    rounds = max(1, min(ROUNDS, wanted.sized(10 * ROUNDS) // 10))
    with tempfile.TemporaryDirectory(prefix="leveret-bench-") as directory, ExitStack() as running:
        targets = {OFF: target_of(running.enter_context(own_broker()))}
        for confirm in CONFIRMS:
            config = _config(Path(directory) / confirm, confirm)
            targets[confirm] = target_of(running.enter_context(own_broker(LEVERET_CONFIG=config)))
        for load, window in LOADS.items():
            found = _in_turn(targets, window, rounds, wanted.seconds(SECONDS))
            for confirm in CONFIRMS:
                report(f'{load}, confirm = "{confirm}"', rounds=rounds, **_beside(found[confirm], found[OFF]))


def _config(place: Path, confirm: str) -> str:
    """Write the settings of a broker that ships to a directory, which is made; returns their path."""
    place.mkdir()
    path = place.with_suffix(".toml")
    path.write_text(f'[ship]\nto = "{place}"\nconfirm = "{confirm}"\n')
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
