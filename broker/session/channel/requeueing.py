"""Requeueing of any number of deliveries, by one frame of the client or because the channel ends, as background work.

Each step gives some back: to a quorum queue in the order of delivery, to other queues, which sort them in again by
position, in descending order, because that costs least. Until all are back these queues deliver nothing: another
consumer would get later messages before earlier ones. Until then the rest counts as unacknowledged on the channel, even
after the channel has ended.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from broker.entities.messages.message import OriginQueue, QueuedMessage
from broker.entities.queues.queue_background_work import RETURN_BYTES
from broker.entities.scheduling.future import Future
from broker.session.channel import delivery_tags

if TYPE_CHECKING:
    from broker.session.channel.channel import Channel
    from broker.session.channel.packed_deliveries import Taken

RETURNED_AT_ONCE: Final = 512
"""Deliveries of one step."""


class Requeueing:
    """Deliveries of a channel that are being requeued; `abandoned` if the channel ended rather than the client asked.

    Deliveries of queues for which `keeps` is true stay with the channel. The caller has to run `steps` to their end.
    """

    def __init__(
        self,
        channel: Channel,
        *taken: Taken,
        abandoned: bool = False,
        keeps: Callable[[OriginQueue], bool] | None = None,
    ) -> None:
        self._channel = channel
        self._taken = taken
        self._abandoned = abandoned
        self._keeps = keeps
        self._runs: list[list[QueuedMessage]] = []
        """Unpacked deliveries, one list per step, each sorted by position."""
        self._lasts: list[tuple[int, int]] = []
        """A heap with an entry for each run that is not empty: its highest position, negated, and its index."""
        self._back: Future[None] = Future()
        channel.settling.append(self)
        for queue in dict.fromkeys(chain.from_iterable(some.queues for some in taken)):
            queue.expect(self._back)

    def values(self) -> Iterator[QueuedMessage]:
        """Return the deliveries that are not back yet."""
        packed = chain.from_iterable(some.values() for some in self._taken)
        return chain(packed, chain.from_iterable(self._runs))

    def steps(self) -> Iterator[int]:
        """Yield the work done, in bytes, after each step of giving everything back."""
        try:
            yield from self._take_apart()
            while self._lasts:
                some = self._last(RETURNED_AT_ONCE)
                delivery_tags.requeue(some, abandoned=self._abandoned)
                yield RETURN_BYTES * len(some)
        finally:
            self._channel.settling.remove(self)
            self._back.resolve(None)
            leave_queues(self._channel)

    def _take_apart(self) -> Iterator[int]:
        """Unpack the deliveries: give back those of quorum queues at once, and sort the others into runs."""
        for taken in self._taken:
            while taken:
                some = taken.first(RETURNED_AT_ONCE)
                leaving = self._leaving(some)
                as_they_come = [entry for entry in leaving if entry.queue.returned_last]
                delivery_tags.requeue(as_they_come, abandoned=self._abandoned)
                run = sorted((entry for entry in leaving if not entry.queue.returned_last), key=_position)
                if run:
                    heappush(self._lasts, (-run[-1].position, len(self._runs)))
                    self._runs.append(run)
                yield RETURN_BYTES * len(some)

    def _leaving(self, entries: list[QueuedMessage]) -> list[QueuedMessage]:
        """Return the deliveries to give back. Those that stay with the channel get new delivery tags."""
        if self._keeps is None:
            return entries
        leaving = []
        for entry in entries:
            if self._keeps(entry.queue):
                self._channel.deliveries.add(entry)
            else:
                leaving.append(entry)
        return leaving

    def _last(self, messages: int) -> list[QueuedMessage]:
        """Pop up to `messages` entries with the highest positions, in descending order."""
        taken: list[QueuedMessage] = []
        while self._lasts and len(taken) < messages:
            _, number = heappop(self._lasts)
            run = self._runs[number]
            before = -self._lasts[0][0] if self._lasts else 0  # the highest position in the other runs
            start = max(bisect_left(run, before, key=_position), len(run) - messages + len(taken))
            taken += reversed(run[start:])
            del run[start:]
            if run:
                heappush(self._lasts, (-run[-1].position, number))
        return taken


def leave_queues(channel: Channel) -> None:
    """Have the queues that a channel consumed from forget it, if it has ended and has no deliveries left."""
    if not channel.ended or channel.settling or channel.deliveries or channel.transaction is not None:
        return
    queues_by_id = channel.connection.broker.queues_by_id
    for queue_id in channel.drawn_from:
        queue = queues_by_id.get(queue_id)
        if queue is not None:
            queue.forget(channel)


_position: Final = attrgetter("position")
