"""Made-up brokers to which much happens by chance, and who know at each moment what is in their queues."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import TYPE_CHECKING

from tests.pipeline.inputs.made_up_events import EPOCH, History

if TYPE_CHECKING:
    from pyspark.sql import Row

MINUTE_US = 60_000_000
STEPS = 400

Minute = tuple[str, int]
"""A queue, and the number of a minute since the beginning."""


def minute_of(row: Row) -> int:
    """The number of the minute that a row of a table is about."""
    return int((row.minute.astimezone(EPOCH.tzinfo) - EPOCH) // timedelta(minutes=1))


def commotions_of(seeds: Iterable[int]) -> list[Commotion]:
    """One for each seed, after all its steps; their nodes have the seed's name."""
    made = [Commotion(f"seed {seed}", seed) for seed in seeds]
    for each in made:
        each.run(STEPS)
    return made


class Commotion:
    """Publishes, deliveries, ends of all kinds, purges, deletions, restarts, gaps of the log, by a seed.

    `depths` is what a reader of the log can know: how many messages were in a queue at the end of a minute in which
    something happened to it; None where that cannot be known.
    """

    def __init__(self, node: str, seed: int) -> None:
        self.history = History(node)
        self.depths: dict[Minute, int | None] = {}
        self._chance = random.Random(seed)
        self._held: dict[str, list[int]] = {}
        self._out: dict[str, set[int]] = {}
        self._known: dict[str, bool] = {}
        self._seen = 0

    def run(self, steps: int) -> None:
        """Begin, and go on for so many steps."""
        self.history.start()
        self._start()
        self._look()
        weighted: list[tuple[Callable[[], None], int]] = [
            (self._publish, 30),
            (self._deliver, 25),
            (self._end, 20),
            (self._give_back, 10),
            (self._purge, 2),
            (self._delete, 2),
            (self._miss, 1),
            (self._restart, 2),
        ]
        steps_to_take, weights = zip(*weighted, strict=True)
        for step in self._chance.choices(steps_to_take, weights, k=steps):
            step()
            self._look()
            self._wait(self._chance.expovariate(1 / 8))
            if self.history.clock_us // MINUTE_US % 7 == 6:
                self._wait(200)

    def _wait(self, seconds: float) -> None:
        """Time passes; what comes next is told within one minute."""
        self.history.wait(seconds)
        if self.history.clock_us % MINUTE_US > 58_000_000:
            self.history.wait(2)

    def _look(self) -> None:
        """Note how many are in the queues that something has happened to, for the minute in which it did."""
        fresh, self._seen = self.history.events[self._seen :], len(self.history.events)
        for event in fresh:
            if event.queue is not None:
                self.depths[event.queue, event.ts_us // MINUTE_US] = None
        minute = self.history.events[-1].ts_us // MINUTE_US
        for queue, at in self.depths:
            if at == minute:
                self.depths[queue, at] = len(self._held.get(queue, ())) if self._known.get(queue, True) else None

    def _start(self) -> None:
        """What was there is told of: some of it is recorded, some is consumed before anybody has come to it."""
        self._out.clear()
        self._known = dict.fromkeys(["q", "quorum"], False)
        for queue in ("q", "quorum"):
            self._held.setdefault(queue, [])
            self.history.declare(queue, kind="classic" if queue == "q" else queue)
        for queue, held in self._held.items():
            for position in list(held):
                if self._chance.random() < 0.3:
                    self.history.deliver(position, queue, redelivered=True)
                    self.history.of("ack", position, queue)
                    held.remove(position)
                else:
                    self.history.of("queued", position, queue)
        self.history.tell("snapshot")
        self._known = dict.fromkeys(["q", "quorum"], True)

    def _restart(self) -> None:
        last = self.history.events[-1]
        self._look()
        if self._chance.random() < 0.5:
            self.history.stop(*self._held["q"])
            self._look()
            self.history.start()
        elif self._chance.random() < 0.5:
            self.history.start()
        else:
            self._forget(last.ts_us // MINUTE_US)
            self.history.start(known=last.seq + 5)
        self._look()
        self._wait(self._chance.choice([0, 30, 90]))
        self._start()

    def _miss(self) -> None:
        """Something happens of which the log says nothing."""
        self._forget(self.history.events[-1].ts_us // MINUTE_US)
        self.history.lose(3)
        self.history.tell("return", msg_id=1)

    def _forget(self, minute: int) -> None:
        """From now on, and already in this minute, nobody knows what is there."""
        for queue, held in self._held.items():
            self._known[queue] = False
            del held[: len(held) // 2]
            self._out.get(queue, set()).intersection_update(held)
            if (queue, minute) in self.depths:
                self.depths[queue, minute] = None

    def _publish(self) -> None:
        queues = self._chance.choice([["q"], ["quorum"], ["q", "quorum"]])
        for _ in range(self._chance.randrange(1, 5)):
            position = self.history.publish(*queues)
            for queue in queues:
                self._held[queue].append(position)

    def _deliver(self) -> None:
        for queue, position in self._some(out=False):
            self.history.deliver(position, queue, redelivered=self._chance.random() < 0.2)
            self._out.setdefault(queue, set()).add(position)

    def _end(self) -> None:
        for queue, position in self._some(out=True):
            kind = self._chance.choice(["ack", "ack", "reject", "expire", "drop"])
            self.history.of(kind, position, queue)
            self._held[queue].remove(position)

    def _give_back(self) -> None:
        for queue, position in self._some(out=True):
            self.history.of("requeue", position, queue)
            if queue == "quorum":
                self._held[queue].remove(position)
                self._held[queue].append(self.history.move(position, queue))

    def _purge(self) -> None:
        queue = self._chance.choice(["q", "quorum"])
        kept = sorted(self._out.get(queue, set()) & set(self._held[queue]))
        below = max(self._held[queue], default=0) + 1
        self.history.tell("purge", queue=queue, detail=f'{{"below": {below}, "kept": {kept}}}')
        self._held[queue], self._known[queue] = kept, True

    def _delete(self) -> None:
        """And a queue of that name comes into being again."""
        self.history.tell("delete", queue="q", detail='{"below": 1, "kept": []}')
        self._held["q"], self._known["q"] = [], True
        self._out.pop("q", None)
        self._look()
        self._wait(self._chance.choice([0, 40]))
        self.history.declare()

    def _some(self, *, out: bool) -> list[tuple[str, int]]:
        """Messages that are out with a consumer, or are not; the former are so no longer."""
        queue = self._chance.choice(["q", "quorum"])
        held, with_consumers = self._held[queue], self._out.setdefault(queue, set())
        found = [position for position in held if (position in with_consumers) is out][: self._chance.randrange(1, 5)]
        if out:
            with_consumers.difference_update(found)
        return [(queue, position) for position in found]
