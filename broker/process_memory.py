"""Memory of this process: anonymous memory, and mapped files, whose pages the kernel drops when it needs memory.

Linux says both in /proc/self/status, some containers (gVisor) in /proc/self/statm alone; macOS gives its *footprint*,
the figure of its Activity Monitor. On any other system `ps` is asked for all of the resident memory.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import time
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

ASK_AGAIN_SECONDS = 1.0
"""An answer of `ps`, which is a process of its own, is used for this long."""
_PS_SECONDS = 5.0
_FOOTPRINT_BYTES = 16 + 10 * 8
_FOOTPRINT_AT = 16 + 7 * 8
"""macOS's rusage_info_v0: 16 bytes, then ten numbers of 8, of which the eighth is the footprint."""


class ProcessMemory(NamedTuple):
    """Bytes of anonymous memory, and of resident pages of files."""

    used: int
    mapped: int


def memory_used() -> int:
    """Return the bytes of anonymous memory of this process; 0 if the system does not tell."""
    return _measuring()().used


def memory_mapped() -> int:
    """Return the resident bytes of mapped files, code among them; 0 if the system does not tell."""
    return _measuring()().mapped


Measure = Callable[[], ProcessMemory]


@cache
def _measuring() -> Measure:
    """Return the first way of measuring that this system has."""
    for measuring in (_by_status, _by_statm, _by_footprint):
        measure = measuring()
        if measure is not None and measure().used > 0:
            return measure
    return _Asked(os.getpid()).measure


def _by_status() -> Measure | None:
    status = _opened("/proc/self/status")
    if status is None:
        return None

    def measure() -> ProcessMemory:
        used = mapped = 0
        for line in os.pread(status, 1 << 14, 0).splitlines():
            if line.startswith(b"RssAnon:"):
                used = int(line.split()[1]) * 1024
            elif line.startswith(b"RssFile:"):
                mapped = int(line.split()[1]) * 1024
        return ProcessMemory(used, mapped)

    return measure


def _by_statm() -> Measure | None:
    statm = _opened("/proc/self/statm")
    if statm is None:
        return None
    page = os.sysconf("SC_PAGE_SIZE")

    def measure() -> ProcessMemory:
        _size, resident, shared, *_ = map(int, os.pread(statm, 1 << 10, 0).split())
        return ProcessMemory((resident - shared) * page, shared * page)

    return measure


def _by_footprint() -> Measure | None:
    ask = getattr(ctypes.CDLL(None), "proc_pid_rusage", None)
    if ask is None:
        return None
    answer = ctypes.create_string_buffer(_FOOTPRINT_BYTES)

    def measure() -> ProcessMemory:
        if ask(os.getpid(), 0, answer):
            return ProcessMemory(0, 0)
        return ProcessMemory(ctypes.c_uint64.from_buffer(answer, _FOOTPRINT_AT).value, 0)

    return measure


class _Asked:
    """Answers of `ps`; nothing if there is no such program."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._used = 0
        self._asked_at = float("-inf")

    def measure(self) -> ProcessMemory:
        now = time.monotonic()
        if now > self._asked_at + ASK_AGAIN_SECONDS:
            self._asked_at, self._used = now, self._ask()
        return ProcessMemory(self._used, 0)

    def _ask(self) -> int:
        command = ["ps", "-o", "rss=", "-p", str(self._pid)]
        try:
            answer = subprocess.run(command, capture_output=True, timeout=_PS_SECONDS, check=True).stdout
            return int(answer) * 1024
        except (OSError, ValueError, subprocess.SubprocessError):
            return 0


def _opened(path: str) -> int | None:
    """Return a descriptor of a file of the kernel's that stays open, for when descriptors run out; None without it."""
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
