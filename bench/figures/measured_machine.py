"""The machine of a sitting, and the processors that other programs took meanwhile."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Sequence
from pathlib import Path

from bench.figures.sittings import FILE, Machine
from broker.server.resource_alarms import file_system, memory_total
from harness.process_figures import TICKS_PER_SECOND, cpu_seconds


def machine(others: float) -> Machine:
    """Return this machine as a sitting tells it; `others` is the processors that other programs took."""
    memory = round(memory_total() / 2**30, 1)
    return Machine(_processor(), os.cpu_count() or 1, memory, platform.release(), file_system(FILE), round(others, 2))


class OtherPrograms:
    """Counts from its creation on the processors that programs took other than these and this one with its children."""

    def __init__(self, pids: Sequence[int]) -> None:
        self._pids = pids
        self._began = time.monotonic()
        self._at_first = self._seconds()

    def processors(self) -> float:
        """Return their mean number until now."""
        taken = self._seconds() - self._at_first
        return round(max(0.0, taken) / (time.monotonic() - self._began), 2)

    def _seconds(self) -> float:
        times = os.times()
        own = times.user + times.system + times.children_user + times.children_system
        return _busy_seconds() - own - sum(map(cpu_seconds, self._pids))


def _busy_seconds() -> float:
    """Return the seconds that all processors have worked: user, nice, system, interrupts; without idle and I/O wait."""
    first = Path("/proc/stat").read_text().splitlines()[0].split()[1:]
    user, nice, system, _, _, irq, softirq, steal = map(int, first[:8])
    return (user + nice + system + irq + softirq + steal) / TICKS_PER_SECOND


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
