"""The file by which one process keeps a place to itself. Every command looks at one; nothing of LMDB is needed."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

BROKER = "broker"
"""The place in a data directory that a broker locks, and a command on a stopped broker's data."""


def lock_file(place: Path) -> Path:
    """Where the lock of a place is: beside it."""
    return place.with_name(f"{place.name}.lock")


def flocked(descriptor: int, how: int) -> bool:
    """Lock a file that is open, LOCK_SH or LOCK_EX, if that can be done at once; whether it could."""
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_locked(place: Path) -> bool:
    """Whether a process has a place for itself. Raises PermissionError."""
    try:
        descriptor = os.open(lock_file(place), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        return not flocked(descriptor, fcntl.LOCK_SH)  # shared: a broker that starts waits for readers of the lock
    finally:
        os.close(descriptor)
