"""The write of one file that the disk has not answered yet, for whoever watches for a disk that hangs."""

from __future__ import annotations

from collections.abc import Callable
from threading import get_ident
from time import perf_counter
from typing import final


@final
class PendingSync:
    """Notes when a write into `file`, its sync included, began, and which thread waits for it. One at a time.

    `number` counts them. `since` is in seconds of `perf_counter`, 0.0 while nothing is under way. `wake`, if it is set,
    is called when one begins.
    """

    def __init__(self, file: str) -> None:
        self.file = file
        self.number = 0
        self.since = 0.0
        self.thread = 0
        self.wake: Callable[[], None] | None = None

    def begin(self) -> None:
        """Note that this thread writes from now on."""
        self.number += 1
        self.thread = get_ident()
        self.since = perf_counter()
        wake = self.wake  # another thread may take it away
        if wake is not None:
            wake()

    def end(self) -> None:
        """Note that the disk has answered, or refused."""
        self.since = 0.0
