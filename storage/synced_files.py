"""Files and directories that survive a power failure: created, allocated and synced.

A file's bytes and its name are synced separately: the name is in its directory. On macOS `fsync`, and a write through
an `O_DSYNC` descriptor, end when the drive has the bytes in its cache: only the command F_FULLFSYNC has them written.
"""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

_BLOCK = bytes(1 << 20)
_FULL_SYNC: int | None = getattr(fcntl, "F_FULLFSYNC", None)
"""The command by which macOS has a drive write its cache; None where a sync does so."""
_UNSUPPORTED = frozenset({errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOTTY})
"""Errors by which a system, or a file system such as exFAT, says that it does not know a command."""


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
        sync(descriptor)
    finally:
        os.close(descriptor)


def sync(descriptor: int) -> None:
    """Sync an open file's bytes, or an open directory's names, to disk. Raises OSError."""
    if _FULL_SYNC is None:
        os.fsync(descriptor)
        return
    try:
        fcntl.fcntl(descriptor, _FULL_SYNC)
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
        os.fsync(descriptor)


def finish_write(descriptor: int) -> None:
    """Have the disk keep what was written through an `O_DSYNC` descriptor. Raises OSError."""
    if _FULL_SYNC is not None:
        sync(descriptor)


def sync_directory(directory: Path) -> None:
    """Sync a directory's names to disk."""
    sync_file(directory)


def allocate(descriptor: int, size: int, first: int = 0) -> None:
    """Extend a file to at least `size` bytes, with disk blocks allocated for all of them from `first` on.

    Raises OSError. macOS has no call for it, and musl none on file systems without one: zeros are written there.
    """
    if hasattr(os, "posix_fallocate"):
        try:
            os.posix_fallocate(descriptor, first, size - first)
            return
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise
    _write_zeros(descriptor, max(first, os.fstat(descriptor).st_size), size)


def lengthen(path: Path, size: int) -> None:
    """Extend a file to at least `size` bytes by zeros, synced: later writes into them change nothing else on disk.

    Raises OSError.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        length = os.fstat(descriptor).st_size
        if length < size:
            _write_zeros(descriptor, length, size)
            sync(descriptor)
    finally:
        os.close(descriptor)


def replace(path: Path, data: bytes) -> None:
    """Write a file of its owner's, synced, in place of the one that may be there: it is the old or the new, whole.

    Raises OSError.
    """
    fresh = path.with_name(f"{path.name}.new")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        write_all(descriptor, data, 0)
        sync(descriptor)
    finally:
        os.close(descriptor)
    fresh.rename(path)
    sync_directory(path.parent)


def _write_zeros(descriptor: int, first: int, end: int) -> None:
    for at in range(first, end, len(_BLOCK)):
        write_all(descriptor, _BLOCK[: end - at], at)


def write_all(descriptor: int, data: bytes, at: int) -> None:
    """Write all of `data` at offset `at`, also if the system writes it in parts. Raises OSError."""
    done = 0
    while done < len(data):
        done += os.pwrite(descriptor, memoryview(data)[done:], at + done)
