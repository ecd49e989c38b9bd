"""What happens in one queue, as records for the event log.

A queue has one of these from its birth where events are recorded, and calls it when something happens, before it does
it; where they are not, it has None. `event_recording` says what numbers and positions mean.
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
"""How many queues dead letters go to that wait, or cannot be read."""
Written = Iterable[tuple[Sequence[Message], Sequence[object]]]
"""Dead letters that go the same way, and the queues at its end."""
DEATHS = {"rejected": REJECT, "expired": EXPIRE, "maxlen": DROP, "delivery_limit": DROP}


class QueueEvents:
    """Records what happens in the queue of one name."""

    def __init__(self, recorder: Recorder, vhost: str, queue: str) -> None:
        self._recorder = recorder
        self._place = name_bytes(vhost), name_bytes(queue)
        self.was_purged = False
        """It was purged since the start: what was in it then may be on disk for a moment yet."""

    # In

    def number(self, messages: Sequence[Message]) -> None:
        """Have messages numbered, alike but for their bodies, that come without: dead letters, and delayed messages."""
        if not hasattr(messages[0], "number"):
            self._recorder.published(messages, (self._place[0], b"", 0))

    def arrived(self, messages: Sequence[Message], position: int, *, kept: bool) -> int:
        """Messages come to the end of the queue, where `position` is the next; the position of the first of them.

        That is its number, unless what died in another queue because of the message has come here before it: then it
        is a later one. `kept` says whether they outlast a restart here.
        """
        self.number(messages)
        number = messages[0].number
        first = number if number >= position else self._recorder.draw(len(messages))
        self._routed(number, first, len(messages), kept=kept)
        return first

    def appended(self, message: Message, offset: int) -> None:
        """A message comes to the end of a stream, which gives it an offset."""
        self.number((message,))
        self._routed(message.number, offset, 1, kept=True)

    def moved(self, number: int | None) -> int:
        """A message that is kept gets another position, which is returned. None: it never had a number."""
        position = self._recorder.draw()
        self._routed(position if number is None else number, position, 1, kept=True)
        return position

    # Out

    def settled(self, entries: Sequence[QueuedMessage]) -> None:
        """Delivered messages are acknowledged."""
        self._recorder.settled(ACK, self._place, _positions(entries), 0)

    def requeued(self, entries: Sequence[QueuedMessage], *, abandoned: bool) -> None:
        """Delivered messages come back, because their channel ended if they are `abandoned`."""
        self._recorder.settled(REQUEUE, self._place, _positions(entries), int(abandoned))

    def discarded(
        self, entries: Sequence[QueuedMessage], reason: str, exchange: str | None, written: Written = ()
    ) -> None:
        """Messages leave without having been acknowledged, as dead letters to an exchange if there is one.

        `written` are the letters of those whose content could be read, if they are published now.
        """
        self._recorder.settled(DEATHS[reason], self._place, _positions(entries), reason)
        readable = [entry.position for entry in entries if entry.message is not None]
        self._dead_lettered(readable, reason, exchange, written)

    def turned_away(self, message: Message, reason: str, exchange: str | None, written: Written) -> None:
        """A message was not taken in, and is a dead letter if there is an exchange. Nothing, if it has no number."""
        if hasattr(message, "number"):
            self._dead_lettered([message.number], reason, exchange, written)

    def released(self, entry: QueuedMessage) -> None:
        """A delayed message is due, or all targets of a dead letter that waited have it."""
        self._recorder.settled(RELEASE, self._place, [entry.position])

    # The whole

    def declared(self, kind: str, *, durable: bool, priorities: int | None) -> None:
        """The queue is there."""
        self._recorder.add(DECLARE, 1, *self._place, kind, int(durable), priorities or 0)

    def purged(self, end: int, held: Iterable[QueuedMessage]) -> None:
        """All messages before a position leave, but those that are held by consumers."""
        self.was_purged = True
        self._recorder.add(PURGE, 1, *self._place, end, sorted(_positions(held)))

    def deleted(self, end: int) -> None:
        """The queue ends, and all messages before a position with it."""
        self._recorder.add(DELETE, 1, *self._place, end)

    def _routed(self, number: int, position: int, count: int, *, kept: bool) -> None:
        self._recorder.add(ROUTE, count, *self._place, number, position, count, int(kept))

    def _dead_lettered(self, positions: list[int], reason: str, exchange: str | None, written: Written) -> None:
        """Messages are dead letters; those that are `written` have queues to go to, and get their numbers here."""
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
