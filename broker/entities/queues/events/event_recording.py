"""Records of what happens to messages, for the event log: their numbers, and how they are gathered.

Where events are recorded, each queue has a `QueueEvents` that says here what happens in it, and each channel does the
same for what crosses it. Where they are not, there is no recorder.

A message gets its number, `boot << 40 | counter`, when it is published, and the number becomes its position in every
queue that it reaches. Positions are kept with messages anyway and are never given out twice. So the number costs
nothing, stays the same over redelivery and restart, and stands in every record. In some cases a position is another
number, and the record of the message's way into the queue names both: a stream's positions are its offsets; a quorum
queue puts what a consumer gave back at its end, and dead letters that wait elsewhere in itself; and what died because
of a message may reach a queue before it does.
Dead letters, and delayed messages that are due, are published anew, with new numbers.

A record is a row of values, beginning with its kind and its time in microseconds, and stands for one event or for a
run of them, one event each for the numbers in it. docs/event-log.md lists the kinds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import groupby, pairwise
from operator import attrgetter

from broker.entities.messages.message import Message, QueuedMessage
from broker.entities.scheduling.turn import Turn
from storage.batch import COUNTER_BITS

BOOT, STOP, QUEUED, SNAPSHOT, DECLARE, BIND, UNBIND, LOSS = 1, 2, 3, 4, 5, 6, 7, 8
PUBLISH, ROUTE, CONFIRM, NACK, RETURN = 10, 11, 12, 13, 14
DELIVER, ACK, REJECT, REQUEUE = 20, 21, 22, 23
EXPIRE, DROP, DEAD_LETTER, RELEASE, PURGE, DELETE = 24, 25, 26, 27, 28, 29

PART_EVENTS = 8192
"""After how many events what has gathered is handed over."""

QueueKey = tuple[bytes, bytes]
"""Virtual host and queue."""

Publisher = tuple[bytes, bytes, int]
"""Virtual host, connection and channel; b"" and 0 where the broker itself publishes."""


class Recorder:
    """Gathers records, numbers events and messages.

    `hand_over` takes a part: records, first event, events. What it has taken outlives the process. `first_pending` is
    called when there is something to hand over, before long, and was nothing before. What is about to be on disk, or to
    be confirmed, has to be handed over before.
    """

    def __init__(
        self, boot: int, hand_over: Callable[[list[object], int, int], None], first_pending: Callable[[], None]
    ) -> None:
        self.boot = boot
        self.last_event = 0
        self._hand_over = hand_over
        self._first_pending = first_pending
        self._records: list[object] = []
        self._answers: list[Callable[[], None]] = []
        self._gathered = 0
        self._number = boot << COUNTER_BITS

    def draw(self, count: int = 1) -> int:
        """The first of so many new numbers in a row, for messages that are being published."""
        first = self._number + 1
        self._number += count
        return first

    def add(self, kind: int, events: int, *values: object) -> None:
        """Take in a record that stands for so many events."""
        if not self._records:
            self._first_pending()
        self._records.append((kind, time.time_ns() // 1000, *values))
        self.last_event += events
        self._gathered += events
        if self._gathered >= PART_EVENTS:
            self.flush()

    def flush(self) -> None:
        """Hand over what has gathered."""
        if self._records:
            records, self._records = self._records, []
            events, self._gathered = self._gathered, 0
            self._hand_over(records, self.last_event - events + 1, events)

    def at_turn_end(self, turn: Turn, record: Callable[[], None]) -> None:
        """Have answers to a publisher recorded when a turn ends, and handed over with those to all others."""
        if not self._answers:
            turn.last(self._record_answers)
        self._answers.append(record)

    def _record_answers(self) -> None:
        answers, self._answers = self._answers, []
        for record in answers:
            record()
        self.flush()

    def published(self, messages: Sequence[Message], publisher: Publisher, queues: int = -1, *origin: object) -> int:
        """Number messages that have been published to the same queues, all persistent or none; the first number.

        `queues` is how many they are routed to, -1: unknown. The `origin` of dead letters is the queue in which their
        messages died, and the positions of these; of what is published by a transaction None, (), 1: it was routed
        before it was committed.
        """
        first = self.draw(len(messages))
        for number, message in enumerate(messages, first):
            message.number = number
        number, kept = first, int(messages[0].persistent)
        for route, alike in groupby(messages, attrgetter("route")):
            sizes = [len(message.body) for message in alike]
            self.add(PUBLISH, len(sizes), *publisher, number, route, kept, sizes, queues, *origin)
            number += len(sizes)
        return first

    def delivering(self, entries: Sequence[QueuedMessage]) -> None:
        """These are about to go out. Records name them by their positions, which is all that is needed here."""

    def settled(self, kind: int, place: QueueKey, positions: list[int], *values: object) -> None:
        """Something has become of messages of a queue."""
        if positions:
            self.add(kind, len(positions), *place, positions, *values)


def name_bytes(name: str) -> bytes:
    """A name as it stands in records."""
    return name.encode("utf-8", "surrogateescape")


def steps(positions: Sequence[int]) -> list[int]:
    """Ascending positions as the first, and how far it is from each to the next: small numbers."""
    return [*positions[:1], *(after - before for before, after in pairwise(positions))]
