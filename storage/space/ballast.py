"""The ballast: 16 MiB of reserved disk space in a file, which is deleted when the disk is full.

On a full disk not even a deletion can be committed, because LMDB writes new pages for it. With the space of this file
acknowledgements are committed, and they in turn free pages inside the store.
"""

from __future__ import annotations

import os
from pathlib import Path

from storage import synced_files

BALLAST_BYTES = 16 << 20


def _path(directory: Path) -> Path:
    return directory / "ballast"


def release(directory: Path) -> bool:
    """Delete the ballast. False if there is none, or it cannot be deleted."""
    try:
        _path(directory).unlink()
    except OSError:
        return False
    try:
        synced_files.sync_directory(directory)  # the file system may give the blocks away only then
    except OSError:
        pass  # nothing depends on the deletion being durable
    return True


def restore(directory: Path) -> bool:
    """Create the ballast, if it is not there in full. False if the disk has no room, or the system refuses."""
    try:
        descriptor = os.open(_path(directory), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        return False
    try:
        if os.fstat(descriptor).st_size != BALLAST_BYTES:
            synced_files.allocate(descriptor, BALLAST_BYTES)
            synced_files.sync(descriptor)  # so that a start on a full disk has it also after a power failure
            synced_files.sync_directory(directory)
    except OSError:
        release(directory)  # a part of it would be of no use
        return False
    finally:
        os.close(descriptor)
    return True
