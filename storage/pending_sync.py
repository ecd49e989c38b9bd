"""The write of one file that the disk has not answered yet, for whoever watches for a disk that hangs."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import final


@final
class PendingSync:
    """Notes that a write into `file`, its sync included, is under way while this is entered. One at a time.

    `number` counts them. `since` is in seconds of `perf_counter`, 0.0 while nothing is under way. `wake`, if it is set,
    is called when one begins.
    """

    def __init__(self, file: str) -> None:
        self.file = file
        self.number = 0
        self.since = 0.0
        self.wake: Callable[[], None] | None = None

    def __enter__(self) -> None:
        """Note that a write begins."""
        self.number += 1
        self.since = perf_counter()
        wake = self.wake  # another thread may take it away
        if wake is not None:
            wake()

    def __exit__(self, *_: object) -> None:
        """Note that the disk has answered, or refused."""
        self.since = 0.0
