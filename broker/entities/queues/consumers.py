"""Consumers of a queue, and whose turn it is."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from broker.entities.queues.consumer_prefetch import Consumer
    from broker.entities.scheduling.turn import Turn

STALE_MILLISECONDS: Final = 10_000
"""After what time a measurement of the capacity says nothing any more of now: two rounds of samples."""


class Consumers:
    """The consumers of one queue, served in turn, higher priorities first.

    Only those that may have credit stand in the rotation, so that finding the next one does not mean asking
    everybody. With a single active consumer only the first of `members` is ever enlisted. Its order is the purpose of
    such a queue: while one that was cancelled has messages out, its successor on another channel waits, because they
    may come back.
    """

    def __init__(self, now: Callable[[], int], *, single_active: bool) -> None:
        self._now = now
        self._single_active = single_active
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
        """Those that were the single active one, and have messages out."""

    def __len__(self) -> int:
        return len(self.members)

    @property
    def stalled_milliseconds(self) -> int:
        """For how long messages have waited because no consumer might be given more, all such times together."""
        return self._stalled + (self._now() - self._stalled_since if self._stalled_since else 0)

    @property
    def exclusive(self) -> bool:
        """There is an exclusive consumer."""
        return self._exclusive is not None

    def add(self, consumer: Consumer) -> None:
        """Take in a new consumer, last in the rotation of its priority."""
        self.members[consumer] = None
        if consumer.exclusive:
            self._exclusive = consumer
        if self._active is None:
            self._active = consumer
        self.enlist(consumer)

    def remove(self, consumer: Consumer) -> None:
        """Let one go. A single active consumer's place passes to the next."""
        del self.members[consumer]
        if self._exclusive is consumer:
            self._exclusive = None
        consumer.ended = True
        consumer.queue.use()
        self._retire(consumer)
        if not self.members:
            self._end_stall()
        if self._active is consumer:
            self._active = None
            if self._single_active:
                self._succeed(consumer)

    def end(self) -> None:
        """The queue is gone, and has no consumers any more: see `notify`."""
        self._orphans = list(self.members)
        for consumer in self._orphans:
            self.remove(consumer)

    def notify(self, turn: Turn) -> None:
        """The deletion is certain: consumers get basic.cancel, after the answer to the client that asked for it."""
        orphans, self._orphans = self._orphans, []
        for consumer in orphans:
            turn.last(partial(consumer.outlet.cancelled, consumer))

    def _succeed(self, former: Consumer) -> None:
        """Make one of those that stand by the active one: of the highest priority, and of these the first to come."""
        if former.unacked:
            self._leaving[former] = None
        if self.members:
            self._active = max(self.members, key=_priority)
            self.enlist(self._active)

    def _leave(self, former: Consumer) -> None:
        """Nothing that one had is out any more."""
        self._leaving.pop(former, None)
        if self._active is not None:
            self.enlist(self._active)

    def _waits(self, consumer: Consumer) -> bool:
        """Another channel has messages that were given to its predecessors."""
        return any(former.outlet is not consumer.outlet for former in self._leaving)

    def active(self, consumer: Consumer) -> bool:
        """It may be given messages; the others of a single-active-consumer queue stand by."""
        return not self._single_active or self._active is consumer

    def enlist(self, consumer: Consumer) -> None:
        """Put a consumer that may have credit into the rotation."""
        if consumer.ended:
            if consumer in self._leaving and not consumer.unacked:
                self._leave(consumer)
            return
        if consumer.waiting or not self.active(consumer) or (self._leaving and self._waits(consumer)):
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
        """The consumer whose turn it is, its credit, and whether it is the only one of its priority."""
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
        """There are messages, and no consumer may be given one."""
        self._stalled_since = self._stalled_since or self._now()

    def measure(self) -> None:
        """Work out the capacity in the time since the last measurement."""
        now, stalled = self._now(), self.stalled_milliseconds
        passed = now - self._measured_at
        if passed > 0:
            self._capacity = min(1.0, max(0.0, 1 - (stalled - self._measured) / passed))
        self._measured, self._measured_at = stalled, now

    @property
    def capacity(self) -> float:
        """In which part of the time that was measured last messages need not have waited for a consumer: 0 to 1.

        Where nothing else measures it, the time since it was asked for last, of STALE_MILLISECONDS at least.
        """
        if self._now() - self._measured_at > STALE_MILLISECONDS:
            self.measure()
        return self._capacity if self.members else 0.0

    def _end_stall(self) -> None:
        self._stalled, self._stalled_since = self.stalled_milliseconds, 0

    def check(self) -> None:
        """Raise AssertionError unless those in the rotation, and no others, are members that wait for their turn."""
        rotation = [consumer for members in self._rotations.values() for consumer in members]
        for consumer in rotation:
            assert consumer in self.members, f"consumer {consumer.tag} has gone and is in the rotation"
            assert self.active(consumer), f"consumer {consumer.tag} stands by and is in the rotation"
            assert not self._waits(consumer), f"consumer {consumer.tag} is in the rotation before its predecessor left"
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
