"""The writer of a change of definitions: the event loop, if the change is alone and the disk is quick, or a thread.

A client that declares its topology waits for each answer. The way to a thread and back takes as long as the write. But
changes of several clients share one transaction if they are written by a thread, because they gather meanwhile; and a
disk that hangs must not hold up everybody's heartbeats.
"""

from __future__ import annotations

from collections.abc import Sequence

from broker.server.commits import quick_disk
from broker.server.commits.quick_disk import QuickDisk
from storage.definitions.definition_rows import Change, Delete, Put

APART_SECONDS = 0.0001
"""A change that comes sooner after the last answers is not alone: other clients were ready while that was written."""
QUICK_WRITES_MIN = quick_disk.QUICK_WRITES_MIN
CHANGES_MAX = 8
BYTES_MAX = 16 << 10
"""A larger change is written by a thread."""


class LoneChanges:
    """Decides on the changes of one broker, one after the other. Times are seconds of any one clock."""

    def __init__(self) -> None:
        self.disk = QuickDisk(QUICK_WRITES_MIN)
        """The times of the transactions, by the event loop or a thread."""
        self._answered_at = 0.0

    def loop_writes(self, groups: int, changes: Sequence[Change], now: float) -> bool:
        """Return True if the event loop writes these changes. `groups`: how many of them somebody waits for."""
        if groups != 1 or len(changes) > CHANGES_MAX or not self.disk.quick(now):
            return False
        return now - self._answered_at >= APART_SECONDS and sum(map(_size, changes)) <= BYTES_MAX

    def answered(self, now: float) -> None:
        """Note that clients have their answers."""
        self._answered_at = now


def _size(change: Change) -> int:
    """Return about how many bytes a change has."""
    fields = change.key.values() if isinstance(change, Delete) else change.row if isinstance(change, Put) else change
    return sum(len(field) for field in fields if isinstance(field, str | bytes))
