"""Meaning of a failed commit: the batch may be tried again, or its outcome is unknown.

LMDB reports three kinds of failure by an error number alone, and two kinds share one number:

- A failed or short write happens before any record refers to its pages: nothing has changed, the batch may be retried.
- A failed sync may have lost written pages, and a second sync may succeed without writing them: the outcome is unknown.

Linux reports a failed sync once on each descriptor that was open when it happened. So a read-only descriptor of our own
distinguishes a failed sync from a failed write.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, TypeVar, final

import lmdb

from storage import synced_files
from storage.storage_errors import StoreCutShort, StoreError, StoreFailed, StoreFull

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

_FULL = ("No space left on device", "Disk quota exceeded", "File too large")
_CUT_SHORT = "Input/output error"
_ROOM_BYTES = 64 << 20
"""A write that was cut short counts as a full disk if the disk has less room than this: a batch may need as much."""
_PROBE_BYTES = 1 << 20
_UNKNOWN = "its outcome is unknown: look at the disk, then restart"


@final
class FailureClassifier:
    """Classifies the errors of one LMDB environment. Open it with the environment, so that no failed sync is missed."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._data = directory / "data.mdb"
        self._probe = directory / "probe"
        self._probe.unlink(missing_ok=True)
        self._sync_probe = os.open(self._data, os.O_RDONLY | os.O_CLOEXEC)

    def close(self) -> None:
        """Close the file."""
        os.close(self._sync_probe)

    def classify(self, error: lmdb.Error) -> StoreError:
        """Return the error that a failed transaction means. Call it at once, and once for each error.

        StoreFull and StoreCutShort: nothing was changed. The batch may be tried again at any time after StoreFull, once
        after StoreCutShort. StoreFailed: the outcome is unknown, or LMDB refuses further commits after a failed write
        of its meta page.
        """
        unsynced = self._failed_sync()
        if unsynced:
            return StoreFailed(f"{self._data}: a sync failed ({unsynced}), {_UNKNOWN}")
        if isinstance(error, lmdb.MapFullError) or any(text in str(error) for text in _FULL):
            return self._full(error)
        if _CUT_SHORT not in str(error):
            return StoreFailed(f"{self._data}: a commit failed ({error}), {_UNKNOWN}")
        if not self._can_grow():
            return self._full(error)
        return StoreCutShort(f"{self._data}: a write failed, and again ({error}): look at the disk, then restart")

    def _full(self, error: lmdb.Error) -> StoreFull:
        return StoreFull(
            f"{self._directory}: the disk is full ({error}): free some space, or let consumers drain queues"
        )

    def _failed_sync(self) -> str:
        try:
            synced_files.sync(self._sync_probe)
        except OSError as error:
            return str(error.strerror)
        return ""

    def _can_grow(self) -> bool:
        """True if a file of the store's size can grow by `_ROOM_BYTES`; writes a part of that to find out."""
        try:
            descriptor = os.open(self._probe, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                end = self._data.stat().st_size
                synced_files.allocate(descriptor, end + _ROOM_BYTES, end)
                return os.pwrite(descriptor, bytes(_PROBE_BYTES), end) == _PROBE_BYTES
            finally:
                os.close(descriptor)
                self._probe.unlink()
        except OSError:
            return False


def retry_once(attempt: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
    """Call `attempt`, and once more if a write was cut short although the disk has room.

    The likely cause is a disk that was full for an instant. Raises StoreCutShort if the second attempt fails alike.
    """
    try:
        return attempt(*args, **kwargs)
    except StoreCutShort:
        return attempt(*args, **kwargs)
