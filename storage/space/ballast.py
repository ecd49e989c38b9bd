"""A file that is there to be deleted.

On a full disk even a deletion cannot be committed, because LMDB writes new pages for it. Giving these bytes back lets
acknowledgements go on, and they in turn free pages inside the store.
"""

from __future__ import annotations

import os
from pathlib import Path

from storage import synced_files

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
        synced_files.sync_directory(directory)  # the file system may give the blocks away only then
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
            synced_files.allocate(descriptor, BALLAST_BYTES)
            os.fsync(descriptor)  # a start on a full disk finds it there after a power failure too
            synced_files.sync_directory(directory)
    except OSError:
        release(directory)  # a part of it would only be in the way
        return False
    finally:
        os.close(descriptor)
    return True
