"""Confirms that wait for a second place: their messages are on this disk, and not there yet."""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple, Protocol, final

import trio

from storage.batch import SealedBatch, Waiter

WAITS_MAX = 1 << 14
"""Waits of clients for batches beyond which publishers with confirms are not read: a publisher without a window would
take memory for as long as the place is gone."""


class Shipped(Protocol):
    """The records on their way to the place: see `ShipBuffer`."""

    safe: int

    @property
    def position(self) -> int: ...


class _Held(NamedTuple):
    """A batch that is not at the place: it is when all up to `position` is."""

    position: int
    number: int
    waiters: dict[Waiter, None]
    since: float


@final
class HeldConfirms:
    """Waiters of the batches that are on this disk alone, in their order. Of the event loop.

    Those that wait for removals alone are not held: as an acknowledgement, a purge is on this disk first.
    """

    def __init__(self, shipped: Shipped, now: Callable[[], float] = trio.current_time) -> None:
        self._shipped = shipped
        self._now = now
        self._held = OrderedDict[int, _Held]()
        """The batches, ascending, by number: those that somebody waits for."""
        self._of: dict[Waiter, list[int]] = {}
        """Numbers of the batches that a waiter waits for, ascending."""
        self._waits = 0

    @property
    def crowded(self) -> bool:
        """True while publishers with confirms are not read."""
        return self._waits > WAITS_MAX

    def seconds(self) -> float:
        """Return for how long the oldest has waited; 0 if there is none."""
        return self._now() - next(iter(self._held.values())).since if self._held else 0.0

    def hold(self, batch: SealedBatch) -> SealedBatch:
        """Return a batch that has just reached this disk, without the waiters that have to wait for the place.

        Its record is among those by now, and later ones at most are, too.
        """
        position = self._shipped.position
        if not batch.waiters or (not self._held and position <= self._shipped.safe):
            return batch
        self._held[batch.number] = _Held(position, batch.number, dict.fromkeys(batch.waiters), self._now())
        self._waits += len(batch.waiters)
        for waiter in batch.waiters:
            self._of.setdefault(waiter, []).append(batch.number)
        return batch._replace(waiters=())

    def release(self) -> bool:
        """Notify those whose batches are at the place by now. False if there were none."""
        released: dict[Waiter, int] = {}
        while self._held and next(iter(self._held.values())).position <= self._shipped.safe:
            _number, held = self._held.popitem(last=False)
            self._waits -= len(held.waiters)
            released.update(dict.fromkeys(held.waiters, held.number))
        for waiter, number in released.items():
            self._let_go(waiter, number)
        for waiter, number in released.items():
            waiter.stored(number)
        return bool(released)

    def _let_go(self, waiter: Waiter, up_to: int) -> None:
        """Forget the batches up to one that a waiter is told of."""
        numbers = self._of[waiter]
        if numbers[-1] <= up_to:
            del self._of[waiter]
        else:
            del numbers[: bisect_right(numbers, up_to)]

    def forget(self, waiter: Waiter) -> None:
        """Tell a waiter nothing any more: its channel has ended."""
        for number in self._of.pop(waiter, ()):
            held = self._held[number]
            del held.waiters[waiter]
            self._waits -= 1
            if not held.waiters:
                del self._held[number]
