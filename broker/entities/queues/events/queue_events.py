"""Event log records of one queue.

With the event log on, a queue has a `QueueEvents` and calls it before each change; otherwise it has None.
`event_recording` explains numbers and positions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from broker.entities.messages.message import Message, QueuedMessage
from broker.entities.queues.events.event_recording import (
    ACK,
    DEAD_LETTER,
    DECLARE,
    DELETE,
    DROP,
    EXPIRE,
    PURGE,
    REJECT,
    RELEASE,
    REQUEUE,
    ROUTE,
    Recorder,
    name_bytes,
)

UNKNOWN = -1
"""Number of target queues of dead letters that wait, or that cannot be read."""
Written = Iterable[tuple[Sequence[Message], Sequence[object]]]
"""Dead letters with the same route, and the queues at its end."""
DEATHS = {"rejected": REJECT, "expired": EXPIRE, "maxlen": DROP, "delivery_limit": DROP}


class QueueEvents:
    """Records what happens in the queue of one name."""

    def __init__(self, recorder: Recorder, vhost: str, queue: str) -> None:
        self._recorder = recorder
        self._place = name_bytes(vhost), name_bytes(queue)
        self.was_purged = False
        """The queue was purged since the start: its former messages may still be on disk for a moment."""

    # In

    def number(self, messages: Sequence[Message]) -> None:
        """Number messages that have no number, alike except for their bodies: dead letters, delayed messages."""
        if not hasattr(messages[0], "number"):
            self._recorder.published(messages, (self._place[0], b"", 0))

    def arrived(self, messages: Sequence[Message], position: int, *, kept: bool) -> int:
        """Record messages appended to the queue, whose next position is `position`; return the first one's position.

        It is the first one's number, or a later one if a dead letter that the message caused has reached this queue
        before it. `kept`: they survive a restart here.
        """
        self.number(messages)
        number = messages[0].number
        first = number if number >= position else self._recorder.draw(len(messages))
        self._routed(number, first, len(messages), kept=kept)
        return first

    def appended(self, message: Message, offset: int) -> None:
        """Record a message appended to a stream, with its offset."""
        self.number((message,))
        self._routed(message.number, offset, 1, kept=True)

    def moved(self, number: int | None) -> int:
        """Record that a kept message gets another position; return that. `number` None: it never had a number."""
        position = self._recorder.draw()
        self._routed(position if number is None else number, position, 1, kept=True)
        return position

    # Out

    def settled(self, entries: Sequence[QueuedMessage]) -> None:
        """Record that messages are acknowledged."""
        self._recorder.settled(ACK, self._place, _positions(entries), 0)

    def requeued(self, entries: Sequence[QueuedMessage], *, abandoned: bool) -> None:
        """Record that messages are requeued; `abandoned`: because their channel has ended."""
        self._recorder.settled(REQUEUE, self._place, _positions(entries), int(abandoned))

    def discarded(
        self, entries: Sequence[QueuedMessage], reason: str, exchange: str | None, written: Written = ()
    ) -> None:
        """Record that messages died, and are dead-lettered to an exchange unless that is None.

        `written`: the dead letters of those whose content could be read, if they are published now.
        """
        self._recorder.settled(DEATHS[reason], self._place, _positions(entries), reason)
        readable = [entry.position for entry in entries if entry.message is not None]
        self._dead_lettered(readable, reason, exchange, written)

    def turned_away(self, message: Message, reason: str, exchange: str | None, written: Written) -> None:
        """Record that a refused message is dead-lettered to an exchange, if it has a number."""
        if hasattr(message, "number"):
            self._dead_lettered([message.number], reason, exchange, written)

    def released(self, entry: QueuedMessage) -> None:
        """Record that a delayed message is due, or that all targets of a waiting dead letter have it."""
        self._recorder.settled(RELEASE, self._place, [entry.position])

    # The whole

    def declared(self, kind: str, *, durable: bool, priorities: int | None) -> None:
        """Record that the queue exists."""
        self._recorder.add(DECLARE, 1, *self._place, kind, int(durable), priorities or 0)

    def purged(self, end: int, unacknowledged: Iterable[QueuedMessage]) -> None:
        """Record that all messages before a position are dropped, except unacknowledged ones."""
        self.was_purged = True
        self._recorder.add(PURGE, 1, *self._place, end, sorted(_positions(unacknowledged)))

    def deleted(self, end: int) -> None:
        """Record that the queue is deleted, with all messages before a position."""
        self._recorder.add(DELETE, 1, *self._place, end)

    def _routed(self, number: int, position: int, count: int, *, kept: bool) -> None:
        self._recorder.add(ROUTE, count, *self._place, number, position, count, int(kept))

    def _dead_lettered(self, positions: list[int], reason: str, exchange: str | None, written: Written) -> None:
        """Record dead letters at these positions; those that are `written` get their numbers here."""
        if exchange is None:
            return
        died = DEAD_LETTER, self._place
        for copies, targets in written:
            mine, positions = positions[: len(copies)], positions[len(copies) :]
            self._recorder.settled(*died, mine, reason, name_bytes(exchange), len(targets))
            if targets and mine:
                self._recorder.published(copies, (self._place[0], b"", 0), len(targets), self._place[1], mine)
        self._recorder.settled(*died, positions, reason, name_bytes(exchange), UNKNOWN)


def _positions(entries: Iterable[QueuedMessage]) -> list[int]:
    return [entry.position for entry in entries]
