"""Files and directories that survive a power failure: created, allocated and synced.

A file's bytes and its name are synced separately: the name is in its directory.
"""

from __future__ import annotations

import os
from pathlib import Path

_BLOCK = bytes(1 << 20)


def make_directory(directory: Path) -> None:
    """Create a directory and its parents, each synced into its own parent."""
    if directory.is_dir():
        return
    make_directory(directory.parent)
    directory.mkdir(mode=0o700, exist_ok=True)
    sync_directory(directory.parent)


def sync_file(path: Path) -> None:
    """Sync a file's bytes to disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_directory(directory: Path) -> None:
    """Sync a directory's names to disk."""
    sync_file(directory)


def allocate(descriptor: int, size: int) -> None:
    """Extend a file to at least `size` bytes, with disk blocks allocated for all of them. Raises OSError."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, size)
        return
    for at in range(os.fstat(descriptor).st_size, size, len(_BLOCK)):  # macOS
        write_all(descriptor, _BLOCK[: size - at], at)


def write_all(descriptor: int, data: bytes, at: int) -> None:
    """Write all of `data` at offset `at`, also if the system writes it in parts. Raises OSError."""
    done = 0
    while done < len(data):
        done += os.pwrite(descriptor, memoryview(data)[done:], at + done)
