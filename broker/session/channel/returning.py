"""Deliveries that go back to their queues in any number: by one frame of the client, or because the channel ends.

They are unpacked and given back some at a time: to a quorum queue in the order in which they went out, to the others,
which put them into their places again, those first that stand last, because that costs least. Until all are back these
queues deliver nothing: a consumer elsewhere would get later messages before earlier ones. What is not back yet is out
with the channel, also when that has ended.
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
from broker.session.channel import deliveries

if TYPE_CHECKING:
    from broker.session.channel.channel import Channel
    from broker.session.channel.old_deliveries import Taken

RETURNED_AT_ONCE: Final = 512
"""How many deliveries one step deals with."""


class Returning:
    """Deliveries of a channel that are on their way back to their queues; `abandoned` where the client did not ask.

    Those of queues that `keeps` says stay out with the channel. `steps` has to be worked off.
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
        """Those in order, a run of them from each step."""
        self._lasts: list[tuple[int, int]] = []
        """A heap: of each run that is left the last position, negative, and its number."""
        self._back: Future[None] = Future()
        channel.settling.append(self)
        for queue in dict.fromkeys(chain.from_iterable(some.queues for some in taken)):
            queue.expect(self._back)

    def values(self) -> Iterator[QueuedMessage]:
        """The deliveries that are not back yet."""
        packed = chain.from_iterable(some.values() for some in self._taken)
        return chain(packed, chain.from_iterable(self._runs))

    def steps(self) -> Iterator[int]:
        """Steps of background work that give everything back."""
        try:
            yield from self._take_apart()
            while self._lasts:
                some = self._last(RETURNED_AT_ONCE)
                deliveries.requeue(some, abandoned=self._abandoned)
                yield RETURN_BYTES * len(some)
        finally:
            self._channel.settling.remove(self)
            self._back.resolve(None)
            leave_queues(self._channel)

    def _take_apart(self) -> Iterator[int]:
        for taken in self._taken:
            while taken:
                some = taken.first(RETURNED_AT_ONCE)
                leaving = self._leaving(some)
                as_they_come = [entry for entry in leaving if entry.queue.returned_last]
                deliveries.requeue(as_they_come, abandoned=self._abandoned)
                run = sorted((entry for entry in leaving if not entry.queue.returned_last), key=_position)
                if run:
                    heappush(self._lasts, (-run[-1].position, len(self._runs)))
                    self._runs.append(run)
                yield RETURN_BYTES * len(some)

    def _leaving(self, entries: list[QueuedMessage]) -> list[QueuedMessage]:
        """Those that do not stay with the channel: where they do, they are out with it under new tags."""
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
        """Take so many away, of all that are left the last, the last first."""
        taken: list[QueuedMessage] = []
        while self._lasts and len(taken) < messages:
            _, number = heappop(self._lasts)
            run = self._runs[number]
            before = -self._lasts[0][0] if self._lasts else 0
            start = max(bisect_left(run, before, key=_position), len(run) - messages + len(taken))
            taken += reversed(run[start:])
            del run[start:]
            if run:
                heappush(self._lasts, (-run[-1].position, number))
        return taken


def leave_queues(channel: Channel) -> None:
    """Have the queues that a channel took messages from forget it, if it has ended and nothing is out with it."""
    if not channel.ended or channel.settling or channel.deliveries or channel.transaction is not None:
        return
    queues_by_id = channel.connection.broker.queues_by_id
    for queue_id in channel.drawn_from:
        queue = queues_by_id.get(queue_id)
        if queue is not None:
            queue.forget(channel)


_position: Final = attrgetter("position")
