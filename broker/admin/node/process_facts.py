"""What the system says of this process. What it does not say is None."""

from __future__ import annotations

import gc
import resource
from pathlib import Path
from typing import NamedTuple

OWN = Path("/proc/self")


class Threads(NamedTuple):
    """Threads of this process, and how many its user may have in all."""

    used: int
    limit: int


def open_files() -> int | None:
    """How many descriptors are open."""
    try:
        directory = OWN / "fd"
        return directory.stat().st_size or sum(1 for _ in directory.iterdir()) - 1  # the size says so since Linux 6.2
    except OSError:
        return None


def open_files_limit() -> int:
    """How many descriptors may be open."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def threads() -> Threads | None:
    """Threads that there are, and may be."""
    used = status_number("Threads")
    limit = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    if limit == resource.RLIM_INFINITY:
        try:
            limit = int(Path("/proc/sys/kernel/threads-max").read_text())
        except (OSError, ValueError):
            return None
    return None if used is None else Threads(used, limit)


def resident_bytes() -> int | None:
    """Memory of this process, pages of the message store that are mapped included."""
    return status_number("VmRSS")


def mapped_bytes() -> int | None:
    """The part of it that is files': the kernel takes it back when it needs the room."""
    return status_number("RssFile")


def context_switches() -> int:
    """How often another thread was given the processor."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_nvcsw + used.ru_nivcsw


def collections() -> int:
    """How often Python has looked for cycles of objects."""
    return sum(generation["collections"] for generation in gc.get_stats())


def status_number(name: str) -> int | None:
    """A value of /proc/self/status; sizes are bytes."""
    try:
        text = (OWN / "status").read_text()
    except OSError:
        return None
    for line in text.splitlines():
        label, _, value = line.partition(":")
        if label == name:
            number, *unit = value.split()
            return int(number) * (1024 if unit else 1)
    return None
