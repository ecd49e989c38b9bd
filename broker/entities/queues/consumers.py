"""The consumers of a queue: round-robin by priority, single active consumer, consumer capacity."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from broker.entities.queues.consumer_prefetch import Consumer
    from broker.entities.scheduling.turn import Turn

STALE_MILLISECONDS: Final = 10_000
"""Age at which a measurement of the capacity is too old: two sampling intervals."""


class Consumers:
    """The consumers of one queue, served round-robin, higher priorities first.

    Only consumers that may have credit are in the rotation, so that finding the next one does not ask all of them.
    With a single active consumer only the active one is in the rotation. Order is the purpose of such a queue: while a
    cancelled active consumer has unacknowledged messages, its successor on another channel waits, because they may be
    returned. `takeover`: a new consumer of higher priority than the active one takes its place once that has nothing
    unacknowledged; until then nobody is served.
    """

    def __init__(self, now: Callable[[], int], *, single_active: bool, takeover: bool = False) -> None:
        self._now = now
        self._single_active = single_active
        self._takeover = takeover
        self._challenger: Consumer | None = None
        """The consumer that takes the active one's place."""
        self._stalled_since = 0
        self._stalled = self._measured = 0
        self._measured_at = now()
        self._capacity = 1.0
        self.members: dict[Consumer, None] = {}
        self._active: Consumer | None = None
        self._exclusive: Consumer | None = None
        self._rotations: dict[int, OrderedDict[Consumer, None]] = {}
        self._priorities: list[int] = []
        self._orphans: list[Consumer] = []
        self._leaving: dict[Consumer, None] = {}
        """Former single active consumers that still have unacknowledged messages."""

    def __len__(self) -> int:
        return len(self.members)

    @property
    def stalled_milliseconds(self) -> int:
        """Total time for which ready messages waited because no consumer had credit."""
        return self._stalled + (self._now() - self._stalled_since if self._stalled_since else 0)

    @property
    def exclusive(self) -> bool:
        """There is an exclusive consumer."""
        return self._exclusive is not None

    def add(self, consumer: Consumer) -> None:
        """Add a new consumer, last in the rotation of its priority."""
        self.members[consumer] = None
        if consumer.exclusive:
            self._exclusive = consumer
        if self._active is None:
            self._active = consumer
        self._challenge(self._active, consumer)
        self.enlist(consumer)

    def remove(self, consumer: Consumer) -> None:
        """Remove a consumer. If it was the single active one, make another one active."""
        del self.members[consumer]
        if self._exclusive is consumer:
            self._exclusive = None
        consumer.ended = True
        consumer.queue.use()
        self._retire(consumer)
        if not self.members:
            self._end_stall()
        if self._active is consumer:
            self._active = self._challenger = None
            if self._single_active:
                self._succeed(consumer)
        elif self._challenger is consumer and self._active is not None:
            self._give_up(self._active)

    def end(self) -> None:
        """Remove all consumers of a deleted queue: see `notify`."""
        self._orphans = list(self.members)
        for consumer in self._orphans:
            self.remove(consumer)

    def notify(self, turn: Turn) -> None:
        """Send basic.cancel to the consumers of a deleted queue, after the answer to the client that deleted it."""
        orphans, self._orphans = self._orphans, []
        for consumer in orphans:
            turn.last(partial(consumer.outlet.cancelled, consumer))

    def _succeed(self, former: Consumer) -> None:
        """Make the waiting consumer of the highest priority, and of those the oldest, the active one."""
        if former.unacked:
            self._leaving[former] = None
        if self.members:
            self._active = max(self.members, key=_priority)
            self.enlist(self._active)

    def _challenge(self, active: Consumer, challenger: Consumer) -> None:
        """Have a consumer take the active one's place if its priority is higher than that and any challenger's."""
        rival = self._challenger or active
        if self._single_active and self._takeover and challenger.priority > rival.priority:
            self._challenger = challenger
            self._retire(active)
            self._take_over(active)

    def _give_up(self, active: Consumer) -> None:
        """Find another challenger, if the present one has gone; without one the active consumer goes on."""
        self._challenger = None
        self._challenge(active, max(self.members, key=_priority))
        self.enlist(active)

    def _take_over(self, active: Consumer) -> None:
        """Make the challenger active if the active consumer has no unacknowledged messages left."""
        if not active.unacked and self._challenger is not None:
            self._active, self._challenger = self._challenger, None
            self.enlist(self._active)

    def _leave(self, former: Consumer) -> None:
        """Let the active consumer go on: a former one has no unacknowledged messages left."""
        self._leaving.pop(former, None)
        if self._active is not None:
            self.enlist(self._active)

    def _waits(self, consumer: Consumer) -> bool:
        """Return whether a former active consumer on another channel still has unacknowledged messages."""
        return any(former.outlet is not consumer.outlet for former in self._leaving)

    def active(self, consumer: Consumer) -> bool:
        """Return whether a consumer may be given messages: any, or with a single active consumer only that one."""
        return not self._single_active or self._active is consumer

    def enlist(self, consumer: Consumer) -> None:
        """Put a consumer that may have credit into the rotation."""
        if consumer.ended:
            if consumer in self._leaving and not consumer.unacked:
                self._leave(consumer)
            return
        if consumer.waiting or not self.active(consumer) or (self._leaving and self._waits(consumer)):
            return
        if self._challenger is not None:
            self._take_over(consumer)
            return
        consumer.waiting = True
        if self._stalled_since:
            self._end_stall()
        rotation = self._rotations.get(consumer.priority)
        if rotation is None:
            rotation = self._rotations[consumer.priority] = OrderedDict()
            self._priorities = sorted(self._rotations, reverse=True)
        rotation[consumer] = None
        consumer.queue.touch()

    def next(self) -> tuple[Consumer, int, bool] | None:
        """Return the next consumer, its credit, and whether it is the only one of its priority; None without one."""
        for priority in self._priorities:
            rotation = self._rotations[priority]
            while rotation:
                consumer = next(iter(rotation))
                credit = consumer.credit()
                if credit > 0:
                    rotation.move_to_end(consumer)
                    return consumer, credit, len(rotation) == 1
                del rotation[consumer]
                consumer.waiting = False
        return None

    def stall(self) -> None:
        """Note that messages are ready and no consumer has credit."""
        self._stalled_since = self._stalled_since or self._now()

    def measure(self) -> None:
        """Compute the capacity for the time since the last measurement."""
        now, stalled = self._now(), self.stalled_milliseconds
        passed = now - self._measured_at
        if passed > 0:
            self._capacity = min(1.0, max(0.0, 1 - (stalled - self._measured) / passed))
        self._measured, self._measured_at = stalled, now

    @property
    def capacity(self) -> float:
        """Consumer capacity: the fraction of the last measured interval in which a consumer had credit, 0 to 1.

        If nothing else measures it, the interval is the time since the last read, at least STALE_MILLISECONDS.
        """
        if self._now() - self._measured_at > STALE_MILLISECONDS:
            self.measure()
        return self._capacity if self.members else 0.0

    def _end_stall(self) -> None:
        self._stalled, self._stalled_since = self.stalled_milliseconds, 0

    def check(self) -> None:
        """Raise AssertionError unless the rotation holds exactly the members that are marked as waiting."""
        rotation = [consumer for members in self._rotations.values() for consumer in members]
        for consumer in rotation:
            assert consumer in self.members, f"consumer {consumer.tag} has gone and is in the rotation"
            assert self.active(consumer), f"consumer {consumer.tag} stands by and is in the rotation"
            assert not self._waits(consumer), f"consumer {consumer.tag} is in the rotation before its predecessor left"
            assert self._challenger is None, f"consumer {consumer.tag} is in the rotation, and shall give place"
        waiting = [consumer for consumer in self.members if consumer.waiting]
        assert set(rotation) == set(waiting), f"{len(rotation)} consumers are in the rotation, {len(waiting)} wait"
        for priority, members in self._rotations.items():
            assert all(consumer.priority == priority for consumer in members), f"rotation {priority} has others in it"
        assert self._priorities == sorted(self._rotations, reverse=True), f"priorities are served as {self._priorities}"
        for special in (self._active, self._exclusive):
            assert special is None or special in self.members, f"consumer {special.tag} has gone and is remembered"
        for consumer in self._leaving:
            assert consumer.ended, f"consumer {consumer.tag} is leaving and has not ended"
            assert consumer.unacked > 0, f"consumer {consumer.tag} is leaving and holds {consumer.unacked} messages"
        for consumer in self.members:
            assert not consumer.ended, f"consumer {consumer.tag} has ended and is a member"
            assert consumer.unacked >= 0, f"consumer {consumer.tag} holds {consumer.unacked} messages"

    def _retire(self, consumer: Consumer) -> None:
        if consumer.waiting:
            del self._rotations[consumer.priority][consumer]
            consumer.waiting = False
        if not self._rotations.get(consumer.priority, True):
            del self._rotations[consumer.priority]
            self._priorities = sorted(self._rotations, reverse=True)


def _priority(consumer: Consumer) -> int:
    return consumer.priority
