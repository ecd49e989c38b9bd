"""The data file of all sittings, from which tables and pictures are made: `sittings.json`, the newest last.

A sitting has its date, the machine, the brokers with their versions, the seconds of a run, and for each load and
broker the runs of all rounds as measured. Medians and spreads are computed from them.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import msgspec.structs

FILE = Path(__file__).parent / "sittings.json"
OURS = "Leveret"


class Machine(msgspec.Struct, frozen=True):
    """The machine of a sitting. `others` is the processors that other programs took, the mean over all runs."""

    processor: str
    processors: int
    memory_gib: float
    kernel: str
    file_system: str
    others: float


class Broker(msgspec.Struct, frozen=True):
    """A broker of a sitting, by the name of its columns."""

    name: str
    version: str
    settings: str


class Runs(msgspec.Struct, frozen=True):
    """All rounds of one load on one broker; latencies of confirms in milliseconds, 0.0 where there are none."""

    rate: list[float]
    cpu_us: list[float]
    p50_ms: list[float]
    p99_ms: list[float]


class Sitting(msgspec.Struct, frozen=True):
    """One sitting. `loads` has the runs by load and broker."""

    date: str
    command: str
    seconds: float
    machine: Machine
    brokers: list[Broker]
    loads: dict[str, dict[str, Runs]]

    def median(self, load: str, broker: str, figure: str) -> float | None:
        """Return the median of a figure over the rounds; None where the load has none."""
        runs = self.loads.get(load, {}).get(broker)
        values: Sequence[float] = [] if runs is None else getattr(runs, figure)
        return statistics.median(values) if any(values) else None

    def ratios(self, load: str, broker: str, figure: str = "rate") -> list[float]:
        """Return how many times as good we are as another broker, round by round, ascending: a higher rate, a shorter
        wait."""
        of_load = self.loads.get(load, {})
        if OURS not in of_load or broker not in of_load:
            return []
        pairs = zip(getattr(of_load[OURS], figure), getattr(of_load[broker], figure), strict=True)
        return sorted(ours / theirs if figure == "rate" else theirs / ours for ours, theirs in pairs if ours and theirs)


def read(file: Path = FILE) -> list[Sitting]:
    """Return all sittings, the newest last; none where nothing was measured yet."""
    if not file.exists():
        return []
    return msgspec.json.decode(file.read_bytes(), type=list[Sitting])


def append(sitting: Sitting, file: Path = FILE, *, into_last: bool = False) -> None:
    """Add a sitting at the end of the file, which is made if it is missing; or its rounds to the newest one."""
    before = read(file)
    if into_last and before:
        sitting = _joined(before.pop(), sitting)
    known: list[Any] = msgspec.to_builtins([*before, sitting])
    file.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")


def _joined(first: Sitting, second: Sitting) -> Sitting:
    """Return the first sitting with the rounds of the second behind its own."""
    loads = {load: dict(by_name) for load, by_name in first.loads.items()}
    for load, by_name in second.loads.items():
        for name, runs in by_name.items():
            known = loads.setdefault(load, {}).get(name, Runs([], [], [], []))
            columns = (getattr(known, field) + getattr(runs, field) for field in Runs.__struct_fields__)
            loads[load][name] = Runs(*columns)
    others = round((first.machine.others + second.machine.others) / 2, 2)
    machine = msgspec.structs.replace(first.machine, others=others)
    return msgspec.structs.replace(first, machine=machine, loads=loads)
