"""An event log that no broker has written, of any size: true to the format, and with mistakes whose number is known.

`write` plays a broker of fifty queues that is stopped, killed and started again: publishes by the run, some into two
queues, some transient, some never confirmed; deliveries, acknowledgements, requeues, expiries, dead letters, purges, a
quorum queue. A broker that is sound would leave exactly such a log, but for what is planted: messages that are missing
at a start, deliveries after an acknowledgement, twice as new, out of order. The same seed gives the same log.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from broker.entities.queues.events.event_recording import (
    ACK,
    BOOT,
    CONFIRM,
    DEAD_LETTER,
    DECLARE,
    DELIVER,
    EXPIRE,
    PART_EVENTS,
    PUBLISH,
    PURGE,
    QUEUED,
    REJECT,
    REQUEUE,
    ROUTE,
    SNAPSHOT,
    STOP,
    steps,
)
from leveret_events.segment_blocks import START, encode_block, owned
from leveret_events.segment_names import SegmentName
from storage.batch import COUNTER_BITS

NODE = "made-up"
VHOST, CONNECTION, CONSUMER = b"/", b"127.0.0.1:50000 -> 127.0.0.1:5672", b"worker"
QUEUES = [b"queue-%d" % number for number in range(48)]
QUORUM, DEAD = b"quorum", b"dead"
ROUTING = b"\x06orders\x08customer"
DEAD_LETTERS = b"\x00\x04dead"

BOOTS = 4
EVENT_MICROSECONDS = 360
"""Microseconds from event to event: ten million are an hour, and fifty messages of a queue come in a second."""
SEGMENT_EVENTS = 60_000_000 // EVENT_MICROSECONDS
"""Sealed after a minute."""
RUN_MAX = 20
BACKLOG = 100
PLANTED = 10
"""Mistakes of each kind in each boot."""
MISSED = {True: "lost", False: "not confirmed"}
"""The verdict on what is missing, by whether it was confirmed."""
VIOLATIONS = "violations"
DOUBTFUL, UNKNOWN_EVENTS = 3, 50
"""The boot, counted from 0, before which this number of events were not written."""


class Place(NamedTuple):
    """A message in a queue."""

    position: int
    kept: bool
    confirmed: bool
    redelivered: bool = False


class Made(NamedTuple):
    """A log: how many events it has; how many copies an audit must find with these verdicts, or with violations."""

    events: int
    planted: dict[str, int]


class Segments:
    """Events of one boot after another, sealed by the minute."""

    def __init__(self, directory: Path) -> None:
        self.boot = 0
        self.last = 0
        self.events = 0
        self._directory = directory
        self._encode = msgspec.msgpack.Encoder().encode
        self._records: list[object] = []
        self._gathered = 0
        self._sealed = 0
        self._blocks: list[bytes] = []
        self._clock = 1_767_225_600_000_000  # 2026-01-01

    def begin(self, boot: int) -> None:
        """The next events are a boot's."""
        self.boot, self.last, self._sealed = boot, 0, 0

    def add(self, kind: int, events: int, *values: object) -> None:
        """A record that stands for `events` events."""
        self._clock += events * EVENT_MICROSECONDS
        self._records.append((kind, self._clock, *values))
        self.last += events
        self.events += events
        self._gathered += events
        if self._gathered >= PART_EVENTS:
            self._flush()
        if self.last - self._sealed >= SEGMENT_EVENTS:
            self.seal()

    def seal(self) -> None:
        """Write what has gathered."""
        self._flush()
        if self.last > self._sealed:
            name = SegmentName(NODE, self.boot, self._sealed + 1, self.last)
            (self._directory / str(name)).write_bytes(START + owned(NODE, self.boot) + b"".join(self._blocks))
        self._blocks, self._sealed = [], self.last

    def _flush(self) -> None:
        if self._records:
            first = self.last - self._gathered + 1
            self._blocks.append(encode_block(self._encode(self._records), first, self._gathered))
            self._records, self._gathered = [], 0


class Broker:
    """The broker whose life the log tells."""

    def __init__(self, log: Segments, seed: int) -> None:
        self.log = log
        self.planted: Counter[str] = Counter()
        self._dice = random.Random(seed)
        self._ready: dict[bytes, deque[Place]] = {name: deque() for name in (*QUEUES, QUORUM, DEAD)}
        self._number = 0
        self._tag = 0
        self._gone: list[tuple[bytes, int]] = []
        """Some copies that have been acknowledged in this boot."""

    # Starts and ends

    def start(self, *, known: int = 0) -> None:
        """A boot begins: `known` events of the one before are known to have been on disk."""
        before, last = self.log.boot, self.log.last
        self.log.begin(before + 1)
        self._number, self._gone = self.log.boot << COUNTER_BITS, []
        self.log.add(BOOT, 1, NODE.encode(), before, last, known)
        for name in self._ready:
            self.log.add(DECLARE, 1, VHOST, name, "quorum" if name == QUORUM else "classic", 1, 0)
        self._record_queued()
        self.log.add(SNAPSHOT, 1)

    def stop(self) -> None:
        """It ends in order."""
        for name, places in self._ready.items():
            self._ready[name] = deque(place for place in places if place.kept)
        self._record_queued()
        self.log.add(STOP, 1, 1)
        self.log.seal()

    def kill(self) -> None:
        """It ends. Messages not kept are gone; the others come as redelivered, as far as anybody can tell."""
        for name, places in self._ready.items():
            self._ready[name] = deque(place._replace(redelivered=True) for place in places if place.kept)
        self.log.seal()

    def _record_queued(self) -> None:
        for name, places in self._ready.items():
            if places:
                self.log.add(QUEUED, len(places), VHOST, name, steps(sorted(place.position for place in places)))

    # What goes on

    def work(self) -> None:
        """A run is published, and one is consumed."""
        dice = self._dice
        name = QUORUM if dice.random() < 0.02 else dice.choice(QUEUES)
        copied = name != QUORUM and dice.random() < 0.1
        names = {name, dice.choice(QUEUES)} if copied else {name}
        self._publish(
            sorted(names), dice.randint(1, RUN_MAX), kept=dice.random() > 0.05, confirmed=dice.random() > 0.05
        )
        busy = name if len(self._ready[name]) > BACKLOG else dice.choice((*QUEUES, QUORUM, DEAD))
        self._consume(busy, dice.randint(1, 3 * RUN_MAX))

    def _publish(self, names: Sequence[bytes], count: int, *, kept: bool = True, confirmed: bool = True) -> None:
        first, self._number = self._number + 1, self._number + count
        sizes = [self._dice.randint(100, 2000) for _ in range(count)]
        self.log.add(PUBLISH, count, VHOST, CONNECTION, 1, first, ROUTING, int(kept), sizes)
        for name in names:
            stays = kept or name == QUORUM
            self.log.add(ROUTE, count, VHOST, name, first, first, count, int(stays))
            self._ready[name].extend(Place(number, stays, confirmed) for number in range(first, first + count))
        if confirmed:
            self.log.add(CONFIRM, count, VHOST, CONNECTION, 1, [first, count])

    def _consume(self, name: bytes, count: int) -> None:
        places = self._ready[name]
        taken = [places.popleft() for _ in range(min(count, len(places)))]
        for again in (False, True):
            self._settle(name, [place for place in taken if place.redelivered is again], again)

    def _settle(self, name: bytes, taken: list[Place], again: bool) -> None:
        if not taken:
            return
        chance = self._dice.random()
        if chance < 0.01:
            self._end(EXPIRE, name, taken, "expired")
            return
        self._deliver(name, [place.position for place in taken], again)
        if chance < 0.02 and name != DEAD:
            self._reject(name, taken)
        elif chance < 0.03:
            self._give_back(name, taken)
        else:
            self.log.add(ACK, len(taken), VHOST, name, [place.position for place in taken], 0)
            self._gone.append((name, taken[0].position))

    def _deliver(self, name: bytes, positions: Sequence[int], again: bool) -> None:
        first, self._tag = self._tag + 1, self._tag + len(positions)
        self.log.add(DELIVER, len(positions), VHOST, name, positions, CONNECTION, 2, CONSUMER, first, int(again))

    def _end(self, kind: int, name: bytes, taken: Iterable[Place], reason: str) -> None:
        positions = [place.position for place in taken]
        self.log.add(kind, len(positions), VHOST, name, positions, reason)

    def _reject(self, name: bytes, taken: list[Place]) -> None:
        """Dead letters are published one by one, by the broker itself; they are as durable as what they were."""
        self._end(REJECT, name, taken, "rejected")
        self.log.add(DEAD_LETTER, len(taken), VHOST, name, [place.position for place in taken], "rejected", b"")
        for place in taken:
            self._number += 1
            self.log.add(PUBLISH, 1, VHOST, b"", 0, self._number, DEAD_LETTERS, int(place.kept), [100])
            self.log.add(ROUTE, 1, VHOST, DEAD, self._number, self._number, 1, int(place.kept))
            self._ready[DEAD].append(Place(self._number, place.kept, False))

    def _give_back(self, name: bytes, taken: list[Place]) -> None:
        """To their places, or to the end of a quorum queue."""
        self.log.add(REQUEUE, len(taken), VHOST, name, [place.position for place in taken], 0)
        if name != QUORUM:
            self._ready[name].extendleft(place._replace(redelivered=True) for place in reversed(taken))
            return
        for place in taken:
            self._number += 1
            self.log.add(ROUTE, 1, VHOST, name, place.position, self._number, 1, 1)
            self._ready[name].append(place._replace(position=self._number, redelivered=True))

    def purge(self) -> None:
        """All of a queue goes."""
        name = self._dice.choice(QUEUES)
        self.log.add(PURGE, 1, VHOST, name, self._number + 1, [])
        self._ready[name].clear()

    # What must not be

    def forget(self, what: Mapping[bool, str]) -> None:
        """Plant: messages, confirmed and not, that are there and will not be in the next full record."""
        for confirmed, verdict in what.items():
            found = [(name, place) for name in QUEUES for place in self._ready[name]]
            found = [each for each in found if each[1].kept and each[1].confirmed is confirmed]
            for name, place in self._dice.sample(found, min(PLANTED, len(found))):
                self._ready[name].remove(place)
                self.planted[verdict] += 1

    def break_rules(self) -> None:
        """Plant: copies that are delivered after their end, twice as new, and out of order."""
        gone = sorted(set(self._gone))
        for name, position in self._dice.sample(gone, min(PLANTED, len(gone))):
            self._deliver(name, [position], again=True)
            self.planted[VIOLATIONS] += 1
        for number, name in enumerate(self._dice.sample(QUEUES, PLANTED)):
            self._publish([name], 2)
            second, first = self._ready[name].pop().position, self._ready[name].pop().position
            for position in (first, first, second) if number % 2 else (second, first):
                self._deliver(name, [position], again=False)
            self.log.add(ACK, 2, VHOST, name, [first, second], 0)
            self.planted[VIOLATIONS] += 1


def write(directory: Path, events: int, seed: int = 1) -> Made:
    """Write a log of about `events` events into a directory that is there and empty."""
    log = Segments(directory)
    broker = Broker(log, seed)
    for boot in range(BOOTS):
        broker.start(known=log.last + (UNKNOWN_EVENTS if boot == DOUBTFUL else 0))
        for until in (2 * boot + 1, 2 * boot + 2):
            _live(broker, events * until // (2 * BOOTS))
            broker.purge()
        broker.break_rules()
        broker.forget({True: "unknown", False: "unknown"} if boot + 1 == DOUBTFUL else MISSED)
        broker.stop() if boot % 2 else broker.kill()
    return Made(log.events, dict(broker.planted))


def _live(broker: Broker, until: int) -> None:
    while broker.log.events < until:
        broker.work()
