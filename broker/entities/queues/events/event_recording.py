"""The recorder of the event log: message numbers, and records gathered in parts.

With the event log on, each queue has a `QueueEvents` that records what happens in it, and each channel records what
crosses it. Otherwise there is no recorder.

A message gets its number, `boot << 40 | counter`, when it is published, and the number is its position in every queue
that it reaches. Positions are stored anyway and never reused, so the number costs nothing, stays the same over
redelivery and restart, and is in every record. In four cases the position is another number, and the ROUTE record has
both: in a stream it is the offset; a quorum queue appends a returned message again; a waiting dead letter moves to
another lane of its quorum queue; a dead letter caused by a message may reach a queue before the message itself.
Dead letters and released delayed messages are publishes of their own, with new numbers.

A record is a tuple that begins with its kind and its time in microseconds. It stands for one event, or for several, one
for each number in it. docs/event-log.md lists the kinds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby, pairwise
from operator import attrgetter

from broker.entities.messages.message import Message, QueuedMessage
from broker.entities.queues.events.message_labels import MessageLabels, RecordedProperties
from broker.entities.scheduling.turn import Turn
from storage.batch import COUNTER_BITS

BOOT, STOP, QUEUED, SNAPSHOT, DECLARE, BIND, UNBIND, LOSS, POLICY = 1, 2, 3, 4, 5, 6, 7, 8, 9
PUBLISH, ROUTE, CONFIRM, NACK, RETURN = 10, 11, 12, 13, 14
DELIVER, ACK, REJECT, REQUEUE = 20, 21, 22, 23
EXPIRE, DROP, DEAD_LETTER, RELEASE, PURGE, DELETE = 24, 25, 26, 27, 28, 29

PART_EVENTS = 8192
"""Events after which the gathered records are handed over."""

NO_ORIGIN = (None, (), 0)
NOTHING_FURTHER = (*NO_ORIGIN, 0)
"""In place of the origin of a dead letter or of a transaction's publish, where a record has further values."""

QueueKey = tuple[bytes, bytes]
"""Virtual host and queue."""

Publisher = tuple[bytes, bytes, int]
"""Virtual host, connection and channel; b"" and 0 where the broker itself publishes."""


class Recorder:
    """Gathers records, and numbers events and messages.

    `hand_over` takes a part: its records, the number of its first event, the number of events. What it has taken
    survives the process. `first_pending` is called when a first record waits to be handed over. Records are handed over
    before the batch with their messages is stored, and before their confirms are sent. `labels` reads the properties
    that are recorded with publishes, if there are any.
    """

    def __init__(
        self,
        boot: int,
        hand_over: Callable[[list[object], int, int], None],
        first_pending: Callable[[], None],
        labels: MessageLabels | None = None,
    ) -> None:
        self.boot = boot
        self.labels = labels
        self.last_event = 0
        self._hand_over = hand_over
        self._first_pending = first_pending
        self._records: list[object] = []
        self._answers: list[Callable[[], None]] = []
        self._gathered = 0
        self._number = boot << COUNTER_BITS

    def draw(self, count: int = 1) -> int:
        """Draw `count` consecutive numbers for messages that are being published; return the first."""
        first = self._number + 1
        self._number += count
        return first

    def add(self, kind: int, events: int, *values: object) -> None:
        """Add a record that stands for `events` events."""
        if not self._records:
            self._first_pending()
        self._records.append((kind, time.time_ns() // 1000, *values))
        self.last_event += events
        self._gathered += events
        if self._gathered >= PART_EVENTS:
            self.flush()

    def flush(self) -> None:
        """Hand over the gathered records."""
        if self._records:
            records, self._records = self._records, []
            events, self._gathered = self._gathered, 0
            self._hand_over(records, self.last_event - events + 1, events)

    def at_turn_end(self, turn: Turn, record: Callable[[], None]) -> None:
        """Record answers to a publisher at the end of the turn, handed over together with those to all others."""
        if not self._answers:
            turn.last(self._record_answers)
        self._answers.append(record)

    def _record_answers(self) -> None:
        answers, self._answers = self._answers, []
        for record in answers:
            record()
        self.flush()

    def published(self, messages: Sequence[Message], publisher: Publisher, queues: int = -1, *origin: object) -> int:
        """Number and record messages published to the same queues, all persistent or none; return the first number.

        `queues`: how many queues they are routed to, -1 for unknown. `origin`: for dead letters the queue in which
        their messages died, and the positions there; for a transaction's publishes None, (), 1, because they were
        routed before the commit.
        """
        first = self.draw(len(messages))
        for number, message in enumerate(messages, first):
            message.number = number
        number, kept = first, int(messages[0].persistent)
        for expires, mine in _by_expiration(messages):
            further = (*origin, *NO_ORIGIN[len(origin) :], 1) if expires else origin
            for route, group in groupby(mine, attrgetter("route")):
                alike = list(group)
                sizes = [len(message.body) for message in alike]
                about = further if self.labels is None else _labelled(further, self.labels.of(alike))
                self.add(PUBLISH, len(sizes), *publisher, number, route, kept, sizes, queues, *about)
                number += len(sizes)
        return first

    def delivering(self, entries: Sequence[QueuedMessage]) -> None:
        """Note messages that are about to be delivered. Nothing to do here: records name them by position."""

    def settled(self, kind: int, place: QueueKey, positions: list[int], *values: object) -> None:
        """Record an event of one kind for messages of a queue."""
        if positions:
            self.add(kind, len(positions), *place, positions, *values)


def _labelled(further: tuple[object, ...], labels: RecordedProperties) -> tuple[object, ...]:
    """Return further values of a record of publishes, with the properties behind them."""
    return (*further, *NOTHING_FURTHER[len(further) :], *labels)


def _by_expiration(messages: Sequence[Message]) -> Iterable[tuple[bool, Iterable[Message]]]:
    """Divide messages, in order, into those with an expiration and those without."""
    if [message for message in messages if message.expiration is not None]:  # quicker than any() over a generator
        return groupby(messages, lambda message: message.expiration is not None)
    return ((False, messages),)


def name_bytes(name: str) -> bytes:
    """Return a name as bytes, as records have it."""
    return name.encode("utf-8", "surrogateescape")


def steps(positions: Sequence[int]) -> list[int]:
    """Return ascending positions as the first one and the differences between neighbours, which are small numbers."""
    return [*positions[:1], *(after - before for before, after in pairwise(positions))]
