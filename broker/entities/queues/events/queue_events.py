"""Event log records of one queue.

With the event log on, a queue has a `QueueEvents` and calls it before each change; otherwise it has None.
`event_recording` explains numbers and positions.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from broker.entities.arguments.policies import InForce
from broker.entities.arguments.queue_arguments import QueueArguments
from broker.entities.arguments.queue_types import QUORUM, QueueType
from broker.entities.messages.message import Message, QueuedMessage
from broker.entities.queues.events.event_recording import (
    ACK,
    DEAD_LETTER,
    DECLARE,
    DELETE,
    DROP,
    EXPIRE,
    POLICY,
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
TEXT_BYTES_MAX = 255
NUMBER_MAX = (1 << 63) - 1
Arguments = Mapping[str, object]
"""Arguments in force by their names without `x-`, in records."""
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

    def moves_on(self, message: Message, entry: QueuedMessage) -> None:
        """Record the publish of a message that is moved to another queue: it names its place here."""
        self._recorder.published((message,), (self._place[0], b"", 0), 1, self._place[1], [entry.position])

    # The whole

    def declared(
        self, kind: str, *, durable: bool, priorities: int | None, arguments: Arguments, policies: InForce
    ) -> None:
        """Record that the queue exists, and the arguments in force."""
        told = arguments, _names(policies)
        self._recorder.add(DECLARE, 1, *self._place, kind, int(durable), priorities or 0, *told)

    def governed(self, arguments: Arguments, policies: InForce) -> None:
        """Record the arguments in force after other policies were applied."""
        self._recorder.add(POLICY, 1, *self._place, arguments, _names(policies))

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


def told_arguments(kind: QueueType, arguments: QueueArguments, default_limit: int | None) -> Arguments:
    """Return arguments in force as they are recorded: those that are not the defaults, texts cut at TEXT_BYTES_MAX.

    `default_limit` is the delivery limit of quorum queues that have none of their own.
    """
    values = arguments._asdict()
    if kind is QUORUM and arguments.delivery_limit is None:
        values["delivery_limit"] = default_limit
    if values["delivery_limit"] == math.inf:
        values["delivery_limit"] = None
    given = {name: value for name, value in values.items() if value != QueueArguments._field_defaults[name]}
    return {name.replace("_", "-"): _bounded(value) for name, value in given.items()}


def _bounded(value: object) -> object:
    """Return a value as a record can have it: a policy's numbers may be larger."""
    if isinstance(value, str):
        return name_bytes(value)[:TEXT_BYTES_MAX]
    return min(value, NUMBER_MAX) if isinstance(value, int) else value


def _names(policies: InForce) -> list[bytes]:
    """Return the names of the policy and the operator policy in force."""
    return [
        b"" if policy is None else name_bytes(policy.name)[:TEXT_BYTES_MAX]
        for policy in (policies.policy, policies.operator)
    ]


def _positions(entries: Iterable[QueuedMessage]) -> list[int]:
    return [entry.position for entry in entries]
