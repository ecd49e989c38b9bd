"""A file that is there to be deleted.

On a full disk even a deletion cannot be committed, because LMDB writes new pages for it. Giving these bytes back lets
acknowledgements go on, and they in turn free pages inside the store.
"""

from __future__ import annotations

import os
from pathlib import Path

from storage.messages.lmdb_environment import sync_directory

BALLAST_BYTES = 16 << 20


def _path(directory: Path) -> Path:
    return directory / "ballast"


def release(directory: Path) -> bool:
    """Delete the ballast. False when there was none, or it cannot be deleted."""
    try:
        _path(directory).unlink()
    except OSError:
        return False
    try:
        sync_directory(directory)  # the file system may give the blocks away only then
    except OSError:
        pass  # nothing relies on the file's being gone
    return True


def restore(directory: Path) -> bool:
    """Have the ballast there, all of it. False when the disk has no room, or does not let us."""
    try:
        descriptor = os.open(_path(directory), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        return False
    try:
        if os.fstat(descriptor).st_size != BALLAST_BYTES:
            _allocate(descriptor)
            os.fsync(descriptor)  # a start on a full disk finds it there after a power failure too
            sync_directory(directory)
    except OSError:
        release(directory)  # a part of it would only be in the way
        return False
    finally:
        os.close(descriptor)
    return True


def _allocate(descriptor: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, BALLAST_BYTES)
        return
    block = bytes(1 << 20)  # macOS
    for at in range(0, BALLAST_BYTES, len(block)):
        os.pwrite(descriptor, block, at)
