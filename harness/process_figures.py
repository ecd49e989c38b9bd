"""The system's figures of a process: memory, CPU time, open files."""

from __future__ import annotations

import os
import resource
from pathlib import Path

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def own_memory(pid: int) -> int:
    """Bytes that a process holds for itself (RssAnon): without pages of files, which the kernel may take back."""
    return _status(pid, "RssAnon")


def resident_memory(pid: int) -> int:
    """Bytes of a process in memory, pages of mapped files included (VmRSS)."""
    return _status(pid, "VmRSS")


def _status(pid: int, name: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024
    raise ValueError(f"process {pid} has no {name}")


def cpu_seconds(pid: int) -> float:
    """User and system time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND


def descriptors(pid: int) -> int:
    """Return the number of files and sockets that a process has open."""
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


def allow_open_files() -> None:
    """Let this process have as many open files as the system allows."""
    highest = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest, highest))
