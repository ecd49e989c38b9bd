"""The history of messages, for tests to assert on: the latest records of the event log, in memory.

A record stands for a run of events. It is kept as it is, and expanded when a test asks. Events are numbered one by
one; the number of an event's message leads to exchange, routing key and body.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

from broker.admin.messages.message_in_json import payload_in_json, properties_in_json
from broker.entities.messages.message import Message, QueuedMessage
from broker.entities.queues.events.event_recording import (
    ACK,
    CONFIRM,
    DEAD_LETTER,
    DECLARE,
    DELETE,
    DELIVER,
    DROP,
    EXPIRE,
    NACK,
    PUBLISH,
    PURGE,
    REJECT,
    RELEASE,
    REQUEUE,
    RETURN,
    ROUTE,
    Recorder,
)
from broker.wire.properties import decode_properties
from storage.batch import COUNTER_BITS

EVENTS_MAX = 100_000
MESSAGES_BYTES_MAX = 64 << 20
"""Limit of the bodies and properties of messages that are kept."""
MESSAGE_BYTES = 512
"""Approximate memory of a message without them."""

Values = tuple[Any, ...]
Event = dict[str, Any]


class HistoryRecord(NamedTuple):
    """A run of events from number `first` on, at the time `at` of the broker's clock."""

    first: int
    events: int
    at: int
    kind: int
    values: Values


class MessageHistory:
    """The latest records, and the latest messages. `now` is the broker's clock."""

    def __init__(self, now: Callable[[], int], *, bytes_max: int = MESSAGES_BYTES_MAX) -> None:
        self._now = now
        self._bytes_max = bytes_max
        self._records: deque[HistoryRecord] = deque()
        self._messages: dict[int, Message] = {}
        self._bytes = 0
        self.last = 0
        """Number of the last event."""

    def note(self, kind: int, count: int, values: Values) -> None:
        """Note `count` events. Kinds that the history does not show, such as bindings, are not kept."""
        if count > 0 and kind in KINDS:
            self._records.append(HistoryRecord(self.last + 1, count, self._now(), kind, values))
            self.last += count
        while self._records and self._records[0].first + self._records[0].events <= self.last - EVENTS_MAX:
            self._records.popleft()

    def keep(self, messages: Iterable[tuple[int, Message]]) -> None:
        """Keep messages by their numbers, and drop the oldest beyond the limit."""
        for number, message in messages:
            self._messages[number] = message
            self._bytes += _size(message)
        while self._bytes > self._bytes_max:
            self._bytes -= _size(self._messages.pop(next(iter(self._messages))))

    def keep_unknown(self, entries: Iterable[QueuedMessage]) -> None:
        """Keep delivered messages that are not known yet: they are older than the history or the boot. Not those of
        streams, whose offsets are not unique."""
        for entry in entries:
            if entry.position >> COUNTER_BITS and entry.position not in self._messages and entry.message is not None:
                self.keep([(entry.position, entry.message)])

    def message(self, number: int) -> dict[str, str | tuple[str, ...]]:
        """Return exchange, routing key and queues of a message that was published just now."""
        message = self._messages.get(number)
        exchange, key = ("", "") if message is None else _names(message.route)
        queues = []
        for record in reversed(self._records):
            if record.kind == ROUTE and record.values[2] <= number < record.values[2] + record.values[4]:
                queues.append(_text(record.values[1]))
            elif record.kind == PUBLISH and record.values[3] <= number:
                break
        return {"exchange": exchange, "routing_key": key, "queue": tuple(queues)}

    def clear(self) -> None:
        """Forget everything; the numbers of events are not reused."""
        self._records.clear()
        self._messages.clear()
        self._bytes = 0

    @property
    def first(self) -> int:
        """Number of the oldest event that is kept."""
        return self._records[0].first if self._records else self.last + 1

    def events(self, after: int = 0, word: str = "", *, bodies: bool = False) -> Iterator[Event]:
        """Yield the events after an event, oldest first; all, or those of one kind (`word`), with their `bodies`."""
        moved: dict[tuple[bytes, bytes, int], int] = {}
        for record in list(self._records):
            if record.kind == ROUTE and record.values[2] != record.values[3]:
                vhost, queue, number, position, count, _ = record.values
                moved |= {(vhost, queue, position + index): number + index for index in range(count)}
            if record.first + record.events > after + 1 and word in ("", KINDS[record.kind].word):
                events = self._taken_apart(record, moved, bodies=bodies)
                yield from (event for event in events if event["id"] > after)

    def _taken_apart(
        self, record: HistoryRecord, moved: dict[tuple[bytes, bytes, int], int], *, bodies: bool
    ) -> Iterator[Event]:
        word, numbers_of, more = KINDS[record.kind]
        numbers = numbers_of(record.values)
        shown = {"event": word, "at": record.at, **more(record.values)}
        for index, number in enumerate(numbers):
            place = (record.values[0], record.values[1], number)
            message = moved.get(place, number) if record.kind in IN_QUEUES else number
            yield {"id": record.first + index, **shown, **self._shown(message, bodies=bodies)}
        if not numbers:
            yield {"id": record.first, **shown}

    def _shown(self, number: int, *, bodies: bool) -> Event:
        message = self._messages.get(number)
        if message is None:
            return {"message": number}
        exchange, key = _names(message.route)
        shown: Event = {"message": number, "exchange": exchange, "routing_key": key, "bytes": len(message.body)}
        if bodies:
            shown["properties"] = properties_in_json(decode_properties(message.header)) or {}
            shown |= payload_in_json(message.body, as_base64=False)
        return shown


class HistoryRecorder(Recorder):
    """Keeps records as history, and passes them on to the event log's recorder, if the event log is on."""

    def __init__(self, boot: int, history: MessageHistory, log: Recorder | None) -> None:
        super().__init__(boot, _nowhere, _nothing)
        self._history = history
        self._log = log
        self.labels = None if log is None else log.labels
        self.last_event = 0 if log is None else log.last_event

    def begin_boot(self, boot: int) -> None:
        """Number messages from the start of a later boot on."""
        assert self._log is None, "the event log is one boot's"
        self.boot, self._number = boot, boot << COUNTER_BITS

    def add(self, kind: int, events: int, *values: object) -> None:
        self._history.note(kind, events, values)
        if self._log is not None:
            self._log.add(kind, events, *values)
            self.last_event = self._log.last_event

    def flush(self) -> None:
        if self._log is not None:
            self._log.flush()

    def published(
        self, messages: Sequence[Message], publisher: tuple[bytes, bytes, int], queues: int = -1, *origin: object
    ) -> int:
        first = super().published(messages, publisher, queues, *origin)
        self._history.keep(enumerate(messages, first))
        return first

    def delivering(self, entries: Sequence[QueuedMessage]) -> None:
        self._history.keep_unknown(entries)


def _nowhere(records: list[object], first: int, events: int) -> None:
    """Write nothing: `add` is overridden."""


def _nothing() -> None:
    """Wake nobody: nothing is pending."""


def _size(message: Message) -> int:
    return len(message.body) + len(message.header) + MESSAGE_BYTES


def _names(route: bytes) -> tuple[str, str]:
    end = 1 + route[0]
    return _text(route[1:end]), _text(route[end + 1 :])


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


def _of_channel(values: Values) -> Event:
    vhost, connection, channel = values[:3]
    return {"vhost": _text(vhost), "connection": _text(connection) or None, "channel": channel or None}


def _of_queue(values: Values) -> Event:
    return {"vhost": _text(values[0]), "queue": _text(values[1])}


def _of_delivery(values: Values) -> Event:
    vhost, queue, _, connection, channel, tag, _, again = values
    client = {"connection": _text(connection), "channel": channel, "consumer_tag": _text(tag)}
    redelivered = bool(again) if isinstance(again, int) else any(again)
    return {**_of_queue((vhost, queue)), **client, "redelivered": redelivered}


def _of_end(values: Values) -> Event:
    return {**_of_queue(values), "reason": values[3]}


def _of_dead_letter(values: Values) -> Event:
    return {**_of_end(values), "to_exchange": _text(values[4])}


def _in_ranges(ranges: Sequence[int]) -> list[int]:
    pairs = zip(ranges[::2], ranges[1::2], strict=True)
    return list(chain.from_iterable(range(first, first + count) for first, count in pairs))


IN_QUEUES = frozenset({DELIVER, ACK, REJECT, REQUEUE, EXPIRE, DROP, DEAD_LETTER, RELEASE})
"""Kinds whose records have positions in a queue, which are not the message's number after dead-lettering."""


class HistoryKind(NamedTuple):
    """The word for an event, a function that returns the message numbers of a record, and one for its other fields."""

    word: str
    numbers: Callable[[Values], list[int]]
    more: Callable[[Values], Event]


KINDS = {
    DECLARE: HistoryKind("declared", lambda values: [], _of_queue),
    PUBLISH: HistoryKind("published", lambda values: list(range(values[3], values[3] + len(values[6]))), _of_channel),
    ROUTE: HistoryKind("routed", lambda values: list(range(values[2], values[2] + values[4])), _of_queue),
    CONFIRM: HistoryKind("confirmed", lambda values: _in_ranges(values[3]), _of_channel),
    NACK: HistoryKind("nacked", lambda values: _in_ranges(values[3]), _of_channel),
    RETURN: HistoryKind("returned", lambda values: _in_ranges(values[3]), _of_channel),
    DELIVER: HistoryKind("delivered", lambda values: values[2], _of_delivery),
    ACK: HistoryKind("acked", lambda values: values[2], _of_queue),
    REJECT: HistoryKind("rejected", lambda values: values[2], _of_end),
    REQUEUE: HistoryKind("requeued", lambda values: values[2], _of_queue),
    EXPIRE: HistoryKind("expired", lambda values: values[2], _of_end),
    DROP: HistoryKind("dropped", lambda values: values[2], _of_end),
    DEAD_LETTER: HistoryKind("dead-lettered", lambda values: values[2], _of_dead_letter),
    RELEASE: HistoryKind("released", lambda values: values[2], _of_queue),
    PURGE: HistoryKind("purged", lambda values: [], _of_queue),
    DELETE: HistoryKind("deleted", lambda values: [], _of_queue),
}
WORDS = tuple(kind.word for kind in KINDS.values())
