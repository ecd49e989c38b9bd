"""Cost of each attack of harness/attacks for a good client, beside an honest load of the same CPU.

The good client publishes 100 messages of 1 KiB a second, persistent, with confirms, and consumes them:
bench/load/load.c in a process of its own. A confirm's latency counts from when its message was due. The attacker is a
process too.

The honest load is a publisher with a consumer, throttled to rates from nothing to as much as goes; how many cores the
broker uses and what the good client waits meanwhile is the line that attacks are held against, at their own CPU.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from bench.load import generator
from bench.load.generator import Load
from bench.load.measured_broker import (
    MemoryWatch,
    Target,
    Wanted,
    chosen,
    mib,
    own_broker,
    report,
    target_of,
)
from harness.attacks.attack_catalogue import ATTACKS
from harness.process_figures import allow_open_files, descriptors, own_memory
from harness.project import ROOT

SECONDS = 10.0
SETTLE_SECONDS = 1.0
GOOD = {"label": "good", "size": 1024, "rate": 100, "window": 10, "prefetch": 100, "warm": 0.3}
RATES = (0, 1000, 4000, 10_000, 20_000, 40_000, 80_000, 160_000)
"""Messages per second of the honest load; beyond what goes, its window of 1,000 holds it."""


class Benign(NamedTuple):
    """Waits of the good client beside an honest load: cores of the broker, p50 and p99 in ms."""

    cores: float
    p50: float
    p99: float


def attacks(wanted: Wanted) -> None:
    """The honest loads first, then each attack against a broker of its own, or against the target.

    ATTACKS_ONLY names some of the attacks, separated by commas.
    """
    allow_open_files()
    line = _benign_line(wanted)
    for name in named("ATTACKS_ONLY") or (ATTACKS if wanted.part >= 0.1 else list(ATTACKS)[-2:]):
        with chosen(wanted) as target:
            measure(target, wanted, name, line)


def named(variable: str) -> list[str]:
    """The attacks that an environment variable names, separated by commas."""
    return [name for name in os.environ.get(variable, "").split(",") if name]


def measure(target: Target, wanted: Wanted, name: str, line: list[Benign]) -> dict[str, Any]:
    """One attack: what the good client waits, and what the broker holds meanwhile and after."""
    with good_queue(target) as good:
        before, open_before = own_memory(target.pid), descriptors(target.pid)
        with MemoryWatch(target.pid) as memory, attacking(target, name, wanted):
            found = good(wanted.seconds(SECONDS))
            held = descriptors(target.pid)
        time.sleep(wanted.seconds(SETTLE_SECONDS))
        alike = benign_at(line, found["broker_cores"])
        figures = {
            "cores": found["broker_cores"],
            "p50": found["confirm_ms"]["p50"],
            "p99": found["confirm_ms"]["p99"],
            "worst": found["confirm_ms"]["max"],
            "benign_p99": round(alike.p99, 2),
            "of_benign": round(found["confirm_ms"]["p99"] / max(0.001, alike.p99), 2),
            "mib_more": round(mib(memory.highest) - mib(before), 1),
            "mib_kept": round(mib(own_memory(target.pid)) - mib(before), 1),
            "descriptors_more": held - open_before,
            "descriptors_kept": descriptors(target.pid) - open_before,
        }
    report(name, **figures)
    return figures


def benign_at(line: list[Benign], cores: float) -> Benign:
    """Return the good client's waits beside an honest load of `cores` cores, between the two measured next to it."""
    below = max((point for point in line if point.cores <= cores), default=line[0])
    above = min((point for point in line if point.cores >= cores), default=line[-1])
    if above.cores <= below.cores:
        return below
    share = (cores - below.cores) / (above.cores - below.cores)
    return Benign(cores, *(low + share * (high - low) for low, high in zip(below[1:], above[1:], strict=True)))


def _benign_line(wanted: Wanted) -> list[Benign]:
    line = []
    for rate in RATES if wanted.part >= 1 else RATES[:2]:
        with own_broker() as broker:
            target = target_of(broker)
            client = generator.connect(target)
            generator.declare_fresh(client, "bench.honest")
            with good_queue(target) as good:
                seconds = wanted.seconds(SECONDS)
                options = {"key": "bench.honest", "queue": "bench.honest", "rate": rate, "seconds": seconds + 2}
                load = Load(target, label="honest", **options) if rate else None
                found = good(seconds)
                if load is not None:
                    load.stop()
            client.close()
        point = Benign(found["broker_cores"], found["confirm_ms"]["p50"], found["confirm_ms"]["p99"])
        report(f"benign, {rate} messages a second", cores=point.cores, p50=point.p50, p99=point.p99)
        line.append(point)
    return sorted(line)


@contextmanager
def good_queue(target: Target) -> Iterator[Callable[[float], generator.Figures]]:
    """A function that has the good client work for a number of seconds; its queue is there as long as the context."""
    client = generator.connect(target)
    generator.declare_fresh(client, "bench.good")

    def good(seconds: float) -> generator.Figures:
        return generator.run(target, key="bench.good", queue="bench.good", seconds=seconds, **GOOD)

    yield good
    generator.delete(client, "bench.good")
    client.close()


@contextmanager
def attacking(target: Target, name: str, wanted: Wanted) -> Iterator[None]:
    """An attack from a process of its own, for as long as the context."""
    host, port = target.address
    size = str(max(0.01, min(1.0, wanted.part)))
    command = [sys.executable, "-m", "harness.attacks.attack_process", f"{host}:{port}", name, "--size", size]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdout.readline()
    try:
        yield
    finally:
        process.stdin.close()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
        process.wait()
