"""Lock files: one process at a time uses a place. Every command looks at one, without loading LMDB."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

LOCKS = Path("/proc/locks")
"""The kernel's table of locks: type, process, and file as device and number."""
BROKER = "broker"
"""The place in a data directory that is locked by a broker, and by commands on the data of a stopped one."""


def lock_file(place: Path) -> Path:
    """Path of the lock of a place, beside it."""
    return place.with_name(f"{place.name}.lock")


def flocked(descriptor: int, how: int) -> bool:
    """Lock an open file, LOCK_SH or LOCK_EX, without waiting. True if it is locked now."""
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def holder(descriptor: int) -> int | None:
    """Return the process that has locked an open file; None if the system does not tell."""
    own = os.fstat(descriptor)
    place = f"{os.major(own.st_dev):02x}:{os.minor(own.st_dev):02x}:{own.st_ino}"
    try:
        rows = [line.split() for line in LOCKS.read_text().splitlines()]
    except OSError:
        return None
    found = [int(row[4]) for row in rows if row[1] == "FLOCK" and row[5] == place]
    return found[0] if found and found[0] > 0 else None


def is_locked(place: Path) -> bool:
    """True if a process has locked a place. Raises PermissionError."""
    try:
        descriptor = os.open(lock_file(place), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        return not flocked(descriptor, fcntl.LOCK_SH)  # shared: a broker that starts waits for readers of the lock
    finally:
        os.close(descriptor)
