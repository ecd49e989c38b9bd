"""Figures of this process from the system. A figure that it does not give is None."""

from __future__ import annotations

import gc
import resource
from pathlib import Path
from typing import NamedTuple

OWN = Path("/proc/self")


class Threads(NamedTuple):
    """Threads of this process, and the limit for all of its user's."""

    used: int
    limit: int


def open_files() -> int | None:
    """Return the number of open descriptors."""
    directory = OWN / "fd"
    try:
        return directory.stat().st_size or sum(1 for _ in directory.iterdir()) - 1  # the size says so since Linux 6.2
    except OSError:
        pass
    try:
        return sum(1 for _ in Path("/dev/fd").iterdir()) - 1  # macOS
    except OSError:
        return None


def open_files_limit() -> int:
    """Return the limit of open descriptors."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def threads() -> Threads | None:
    """Return the number of threads, and their limit."""
    used = status_number("Threads")
    limit = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    if limit == resource.RLIM_INFINITY:
        try:
            limit = int(Path("/proc/sys/kernel/threads-max").read_text())
        except (OSError, ValueError):
            return None
    return None if used is None else Threads(used, limit)


def resident_bytes() -> int | None:
    """Return the resident memory of this process, with mapped pages of the message store."""
    return status_number("VmRSS")


def container_bytes(own: Path = OWN / "cgroup", groups: Path = Path("/sys/fs/cgroup")) -> int | None:
    """Return the memory of this process's control group, as `docker stats` shows it: without files' pages that are only
    cached. None if there is no such group, or the process is not in a container or service with one."""
    try:
        memberships = own.read_text().splitlines()
    except OSError:
        return None
    for membership in memberships:
        _, controllers, group = membership.split(":", 2)
        if controllers == "":
            root, used, cached = groups, "memory.current", "inactive_file"
        elif "memory" in controllers.split(","):
            root, used, cached = groups / "memory", "memory.usage_in_bytes", "total_inactive_file"
        else:
            continue
        for directory in (root / group.lstrip("/"), root):  # the root is the container's own where that is all it sees
            try:
                statistics = dict(line.split() for line in (directory / "memory.stat").read_text().splitlines())
                return int((directory / used).read_text()) - int(statistics[cached])
            except (OSError, KeyError, ValueError):
                continue
    return None


def context_switches() -> int:
    """Return the number of context switches."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_nvcsw + used.ru_nivcsw


def collections() -> int:
    """Return the number of Python's garbage collections."""
    return sum(generation["collections"] for generation in gc.get_stats())


def status_number(name: str) -> int | None:
    """Return a value of /proc/self/status; sizes are bytes."""
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
