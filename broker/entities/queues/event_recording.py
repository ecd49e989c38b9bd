"""What happens to messages, as records for the event log.

Nobody asks whether events are recorded. Where they are, each queue is `watched` from its birth: functions of this
module stand before its own and note what they are asked to do; sessions have a kind of channel that does the same.
Where they are not, none of this is there.

A message gets its number, `boot << 40 | counter`, when it is published, and the number becomes its position in every
queue that it reaches. Positions are kept with messages anyway and are never given out twice. So the number costs
nothing, stays the same over redelivery and restart, and stands in every record. In some cases a position is another
number, and the record of the message's way into the queue names both: a stream's positions are its offsets; a quorum
queue puts what a consumer gave back at its end, and dead letters that wait elsewhere in itself; and what died because
of a message may reach a queue before it does.
Dead letters, and delayed messages that are due, are published anew, with new numbers.

A record is a row of values, beginning with its kind and its time in microseconds, and stands for one event or for a
run of them, one event each for the numbers in it. docs/pipeline.md lists the kinds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

from broker.entities.messages.message import Entry, Message
from broker.entities.queues.at_least_once import AtLeastOnce
from broker.entities.queues.delay_queue import DelayQueue
from broker.entities.queues.queue import Queue
from broker.entities.queues.quorum_queue import QuorumEntry, QuorumQueue
from broker.entities.queues.stream_queue import Stream
from storage.batch import COUNTER_BITS

BOOT, STOP, QUEUED, SNAPSHOT, DECLARE = 1, 2, 3, 4, 5
PUBLISH, ROUTE, CONFIRM, NACK, RETURN = 10, 11, 12, 13, 14
DELIVER, ACK, REJECT, REQUEUE = 20, 21, 22, 23
EXPIRE, DROP, DEAD_LETTER, RELEASE, PURGE, DELETE = 24, 25, 26, 27, 28, 29

PART_EVENTS = 8192
"""After how many events what has gathered is handed over."""

DEATHS = {"rejected": REJECT, "expired": EXPIRE, "maxlen": DROP, "delivery_limit": DROP}

Place = tuple[bytes, bytes]
"""Virtual host and queue."""

Publisher = tuple[bytes, bytes, int]
"""Virtual host, connection and channel; b"" and 0 where the broker itself publishes."""


class Recorder:
    """Gathers records, numbers events and messages. `hand_over` takes a part: records, first event, events."""

    def __init__(self, boot: int, hand_over: Callable[[list[object], int, int], None]) -> None:
        self.boot = boot
        self.last_event = 0
        self.discarding: Queue | None = None
        self.place = 0
        self.first_pending: Callable[[], None] = _nothing
        """Called when there is something to hand over, before long, and was nothing before."""
        self.purged: set[int] | None = set()
        """Queues, by their ids, that were purged while it is being recorded what was there at the start. Then None."""
        self._hand_over = hand_over
        self._records: list[object] = []
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
            self.first_pending()
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

    def published(self, messages: Sequence[Message], publisher: Publisher) -> int:
        """Number messages, alike but for their bodies, that have been published; the first number."""
        first = self.draw(len(messages))
        for number, message in enumerate(messages, first):
            message.number = number
        sizes = [len(message.body) for message in messages]
        self.add(PUBLISH, len(sizes), *publisher, first, messages[0].route, int(messages[0].persistent), sizes)
        return first

    def settled(self, kind: int, place: Place, positions: list[int], *values: object) -> None:
        """Something has become of messages of a queue."""
        if positions:
            self.add(kind, len(positions), *place, positions, *values)


def name_bytes(name: str) -> bytes:
    """A name as it stands in records."""
    return name.encode("utf-8", "surrogateescape")


def steps(positions: Sequence[int]) -> list[int]:
    """Ascending positions as the first, and how far it is from each to the next: small numbers."""
    return [*positions[:1], *(after - before for before, after in pairwise(positions))]


def watch(recorder: Recorder, vhost: str, queue: Queue) -> None:
    """Have everything recorded that happens in a queue."""
    place = name_bytes(vhost), name_bytes(queue.name)
    hooks: dict[str, Callable[..., Any]] = dict(_HOOKS)
    if isinstance(queue, Stream):
        hooks |= _STREAM_HOOKS
    elif isinstance(queue, QuorumQueue):
        hooks |= _QUORUM_HOOKS
    elif isinstance(queue, DelayQueue):
        hooks |= _DELAY_HOOKS
    kind = "delay" if isinstance(queue, DelayQueue) else queue.type.name
    recorder.add(DECLARE, 1, *place, kind, int(queue.durable), queue.arguments.max_priority or 0)
    watched = _Watched(recorder, place, queue)
    for name, hook in hooks.items():
        setattr(queue, name, partial(hook, watched))
    if isinstance(queue, QuorumQueue):
        for name, hook in _LETTERS_HOOKS.items():
            setattr(queue.dead_letters, name, partial(hook, watched, queue.dead_letters))


class _Watched(NamedTuple):
    recorder: Recorder
    place: Place
    queue: Queue

    @property
    def unwatched(self) -> Any:
        """The queue's own functions, to be called with the queue."""
        return type(self.queue)

    def take_in(self, message: Message, count: int, *, always_kept: bool = False) -> int:
        """Have the next messages of the queue, of which this is the first, placed at their numbers; the first place.

        What died in another queue because of a message may have come here before it: then it gets a later place.
        """
        queue, number = self.queue, message.number
        first = number if number > queue._position else self.recorder.draw(count)
        queue._position = first - 1
        self.route(number, first, count, kept=always_kept or (queue.durable and message.persistent))
        return first

    def route(self, number: int, position: int, count: int, *, kept: bool) -> None:
        """Record that messages are in the queue; whether they outlast a restart there."""
        self.recorder.add(ROUTE, count, *self.place, number, position, count, int(kept))


def _numbered(watched: _Watched, messages: Sequence[Message]) -> None:
    """Dead letters, and messages that were delayed, come here without a number."""
    if not hasattr(messages[0], "number"):
        watched.recorder.published(messages, (watched.place[0], b"", 0))


def _publish(watched: _Watched, message: Message) -> bool:
    _numbered(watched, (message,))
    watched.take_in(message, 1)
    durable: bool = watched.unwatched.publish(watched.queue, message)
    return durable


def _publish_all(watched: _Watched, messages: Sequence[Message]) -> bool:
    """As one only where the queue itself takes a run as one; other queues come back here with each."""
    _numbered(watched, messages)
    queue = watched.queue
    if type(queue) is Queue and not queue.limits.on_length:
        watched.take_in(messages[0], len(messages))
    durable: bool = watched.unwatched.publish_all(queue, messages)
    return durable


def _append(watched: _Watched, message: Message) -> bool:
    """A stream gives offsets; its record says which message got which."""
    _numbered(watched, (message,))
    stream = watched.queue
    assert isinstance(stream, Stream)
    watched.route(message.number, stream.log.next, 1, kept=True)
    durable: bool = watched.unwatched.publish(stream, message)
    return durable


def _settle(watched: _Watched, entries: Sequence[Entry]) -> None:
    watched.recorder.settled(ACK, watched.place, [entry.position for entry in entries], 0)
    watched.unwatched.settle(watched.queue, entries)


def _requeue(watched: _Watched, entries: Sequence[Entry], *, abandoned: bool = False) -> None:
    watched.recorder.settled(REQUEUE, watched.place, [entry.position for entry in entries], int(abandoned))
    watched.unwatched.requeue(watched.queue, entries, abandoned=abandoned)


def _discard(watched: _Watched, entries: Sequence[Entry], reason: str) -> None:
    recorder, queue = watched.recorder, watched.queue
    positions = [entry.position for entry in entries]
    exchange = queue.arguments.dead_letter_exchange
    recorder.settled(DEATHS[reason], watched.place, positions, reason)
    if exchange is not None:
        recorder.settled(DEAD_LETTER, watched.place, positions, reason, name_bytes(exchange))
    before, recorder.discarding = recorder.discarding, queue
    try:
        watched.unwatched.discard(queue, entries, reason)
    finally:
        recorder.discarding = before


def _dead_letter(watched: _Watched, messages: Sequence[Message], reason: str) -> None:
    """What dies on its way in was never in the queue; what dies in it has been recorded by `_discard`."""
    recorder, queue = watched.recorder, watched.queue
    exchange = queue.arguments.dead_letter_exchange
    if exchange is not None and recorder.discarding is not queue:
        numbers = [message.number for message in messages if hasattr(message, "number")]
        recorder.settled(DEAD_LETTER, watched.place, numbers, reason, name_bytes(exchange))
    watched.unwatched.dead_letter(queue, messages, reason)


def _purge(watched: _Watched) -> int:
    queue, recorder = watched.queue, watched.recorder
    held = sorted(entry.position for entry in queue.held)
    if recorder.purged is not None:
        recorder.purged.add(queue.store.queue_id)
    recorder.add(PURGE, 1, *watched.place, queue._position + 1, held)
    purged: int = watched.unwatched.purge(queue)
    return purged


def _delete(watched: _Watched) -> int:
    watched.recorder.add(DELETE, 1, *watched.place, watched.queue._position + 1)
    for name in _HOOKS | _STREAM_HOOKS | _QUORUM_HOOKS | _DELAY_HOOKS:
        vars(watched.queue).pop(name, None)  # they hold the queue, which shall be free now
    if isinstance(watched.queue, QuorumQueue):
        for name in _LETTERS_HOOKS:
            vars(watched.queue.dead_letters).pop(name, None)
    return watched.queue.delete()


def _publish_counted(watched: _Watched, message: Message) -> bool:
    """A quorum queue asks for the place of whatever it puts at its end, with `next_position`."""
    _numbered(watched, (message,))
    watched.recorder.place = watched.take_in(message, 1, always_kept=True)
    durable: bool = watched.unwatched.publish(watched.queue, message)
    return durable


def _append_again(watched: _Watched, entry: QuorumEntry) -> None:
    """A message that came back to a quorum queue gets a new place at its end."""
    recorder = watched.recorder
    recorder.place = recorder.draw()
    watched.route(entry.position, recorder.place, 1, kept=True)
    watched.unwatched._append_again(watched.queue, entry)


def _next_position(watched: _Watched) -> int:
    recorder, queue = watched.recorder, watched.queue
    queue._position = recorder.place or recorder.draw()
    recorder.place = 0
    return queue._position


def _dead_letter_waits(watched: _Watched, dead_letters: AtLeastOnce, message: Message, reason: str) -> None:
    """A dead letter that nobody takes gets a place of its own, in the queue where its message died."""
    recorder = watched.recorder
    recorder.place = place = recorder.draw()
    watched.route(getattr(message, "number", place), place, 1, kept=True)
    AtLeastOnce._wait(dead_letters, message, reason)


def _dead_letter_taken(watched: _Watched, dead_letters: AtLeastOnce, dead_letter: Entry) -> None:
    watched.recorder.settled(RELEASE, watched.place, [dead_letter.position])
    AtLeastOnce._let_go(dead_letters, dead_letter)


def _let_go(watched: _Watched, entry: Entry) -> None:
    watched.recorder.settled(RELEASE, watched.place, [entry.position])
    watched.unwatched._let_go(watched.queue, entry)


_HOOKS: dict[str, Callable[..., Any]] = {
    "publish": _publish,
    "publish_all": _publish_all,
    "settle": _settle,
    "requeue": _requeue,
    "discard": _discard,
    "dead_letter": _dead_letter,
    "purge": _purge,
    "delete": _delete,
}
_STREAM_HOOKS: dict[str, Callable[..., Any]] = {"publish": _append}
_QUORUM_HOOKS: dict[str, Callable[..., Any]] = {
    "publish": _publish_counted,
    "next_position": _next_position,
    "_append_again": _append_again,
}
_DELAY_HOOKS: dict[str, Callable[..., Any]] = {"_let_go": _let_go}
_LETTERS_HOOKS: dict[str, Callable[..., Any]] = {"_wait": _dead_letter_waits, "_let_go": _dead_letter_taken}


def _nothing() -> None:
    """Nobody wants to know."""
