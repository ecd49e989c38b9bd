"""The broker that is measured: one of this checkout on a data directory of its own, or any other by address and pid."""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.brokers.broker_process import BrokerProcess
from harness.process_figures import own_memory

MIB = 1 << 20


@dataclass(frozen=True)
class Target:
    """Address of a broker, and the process whose time and memory count."""

    address: tuple[str, int]
    pid: int


@dataclass(frozen=True)
class Wanted:
    """Subject of a measurement: `target`, or a broker of one's own where it is None; `part` shrinks sizes, 1.0 is the
    whole."""

    target: Target | None
    part: float = 1.0

    def sized(self, whole: int) -> int:
        """A size, shrunk; a multiple of ten."""
        return max(10, int(whole * self.part) // 10 * 10)

    def seconds(self, whole: float) -> float:
        """A duration, shrunk; not below a fifth of a second."""
        return max(0.2, whole * min(1.0, self.part))


def environment(**more: str) -> dict[str, str]:
    """For brokers that are measured: they may keep their compiled modules, as an installed one does."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"} | more


TRIAL = "BENCH_TRIAL"
"""Variable of a run that only shows that rows work: its brokers are copies of a loaded process, which start sooner."""


@contextmanager
def own_broker(*, serves_http: bool = False, **more: str) -> Iterator[BrokerProcess]:
    """A running broker of this checkout, with more in its environment; killed at the end and its data removed.

    With `serves_http` it has the management API and metrics, on ports that the system chooses.
    """
    with tempfile.TemporaryDirectory(prefix="leveret-bench-") as directory:
        data = Path(directory) / "data"
        broker = BrokerProcess(
            data,
            environment=environment(**more),
            own_group=True,
            loaded_anew=TRIAL not in os.environ,
            check_invariants=False,
        )
        if serves_http:
            broker.http = ("--management-listen", "127.0.0.1:0", "--prometheus-listen", "127.0.0.1:0")
        broker.start()
        try:
            yield broker
        finally:
            if broker.running:
                broker.kill()


def target_of(broker: BrokerProcess) -> Target:
    """A broker of one's own as a target. Ask again after a restart: the process is another."""
    return Target(broker.address, broker.pid)


@contextmanager
def chosen(wanted: Wanted) -> Iterator[Target]:
    """The target that was named, or a broker of this checkout."""
    if wanted.target is not None:
        yield wanted.target
        return
    with own_broker() as broker:
        yield target_of(broker)


def parse_target(text: str) -> Target:
    """`HOST:PORT,PID` as a target. Raises ValueError."""
    address, _, pid = text.partition(",")
    host, _, port = address.rpartition(":")
    return Target((host, int(port)), int(pid))


class MemoryWatch:
    """Samples a process's own memory in a thread: `with MemoryWatch(pid) as watch: ...`, then `watch.highest`."""

    def __init__(self, pid: int, interval_seconds: float = 0.1) -> None:
        self.samples = [own_memory(pid)]
        self._pid = pid
        self._interval = interval_seconds
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> MemoryWatch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        self.samples.append(own_memory(self._pid))

    @property
    def highest(self) -> int:
        """Bytes, the most that was seen."""
        return max(self.samples)

    def throughout(self, points: int = 10) -> list[float]:
        """MiB at `points` moments, evenly spread, the last one at the end."""
        last = len(self.samples) - 1
        return [mib(self.samples[last * point // points]) for point in range(1, points + 1)]

    def _run(self) -> None:
        while not self._done.wait(self._interval):
            self.samples.append(own_memory(self._pid))


def report(row: str, **figures: Any) -> None:
    """Print one line of JSON."""
    print(json.dumps({"row": row, **figures}), flush=True)


def mib(size: float) -> float:
    """Bytes as MiB, to a tenth."""
    return round(size / MIB, 1)


def median(values: Sequence[float], digits: int = 4) -> float:
    """The median, rounded."""
    return round(statistics.median(values), digits)
