"""Freed memory: how much of it glibc keeps for the next large messages, and when it goes back to the system."""

from __future__ import annotations

import ctypes
from functools import cache

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
"""Options of mallopt, from glibc's malloc.h."""
MAPPED_BYTES_MIN = 32 << 20
"""Blocks of this size or more are mapped, so they go back to the kernel as soon as they are freed."""
KEPT_BYTES = 64 << 20
"""Freed memory that is kept at the end of the heap."""


def keep_freed_memory() -> None:
    """Have glibc keep freed memory for further large messages instead of asking the kernel each time.

    The kernel clears each page that it hands out, and each page faults once: for messages of a
    mebibyte that was a third of their cost. Up to KEPT_BYTES may be idle in return. Without glibc nothing happens.
    """
    options = {_M_MMAP_THRESHOLD: MAPPED_BYTES_MIN, _M_TRIM_THRESHOLD: KEPT_BYTES}
    mallopt = getattr(_c_library(), "mallopt", None)
    if mallopt is not None:
        for option, value in options.items():
            mallopt(option, value)


def give_freed_memory_back(kept_bytes: int = 0) -> None:
    """Have glibc return freed memory but `kept_bytes` to the system, 16 MiB in 1 to 3 ms. Only glibc can."""
    trim = getattr(_c_library(), "malloc_trim", None)
    if trim is not None:
        trim(ctypes.c_size_t(kept_bytes))


@cache
def _c_library() -> ctypes.CDLL:
    """Return the C library, loaded once: each CDLL object is garbage in a cycle."""
    return ctypes.CDLL(None)
