"""Files and directories that are there after a power failure: made, allocated and synced.

A file's bytes and its name are synced apart: the name is in its directory.
"""

from __future__ import annotations

import os
from pathlib import Path

_BLOCK = bytes(1 << 20)


def make_directory(directory: Path) -> None:
    """Make a directory and its parents, each synced into its own parent."""
    if directory.is_dir():
        return
    make_directory(directory.parent)
    directory.mkdir(mode=0o700, exist_ok=True)
    sync_directory(directory.parent)


def sync_file(path: Path) -> None:
    """Have a file's bytes on disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_directory(directory: Path) -> None:
    """Have a directory's names on disk."""
    sync_file(directory)


def allocate(descriptor: int, size: int) -> None:
    """Have room on the disk for a file of so many bytes, and the file as long as that. Raises OSError."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, size)
        return
    for at in range(os.fstat(descriptor).st_size, size, len(_BLOCK)):  # macOS
        write_all(descriptor, _BLOCK[: size - at], at)


def write_all(descriptor: int, data: bytes, at: int) -> None:
    """Write all of it at a place, however often the system takes a part. Raises OSError."""
    done = 0
    while done < len(data):
        done += os.pwrite(descriptor, memoryview(data)[done:], at + done)
