"""The log of a stream: messages by offset.

All messages are on disk; the latest ones are in memory too, so that consumers that are up to date do not read the disk,
whatever their number. The others read one window at a time. Only synced messages can be read: an offset that a consumer
has seen is never given to another message, even after a crash.

    first ............ tail_first ............ stored ............ next
    on disk only       on disk and in memory   in memory, on its way to disk
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from broker.entities.arguments.stream_arguments import StreamArguments
from broker.entities.messages.message import Message, OriginQueue, QueuedMessage
from broker.entities.queues.queue_store import RECORD_BYTES, QueueStore
from broker.entities.queues.ready_messages import MemoryWindow
from broker.entities.queues.ready_section import ReadySection
from broker.entities.queues.streams.stream_retention import StreamSegment, StreamSegments
from broker.wire.field_tables import Field
from broker.wire.properties import body_size, decode_properties, encode_header
from storage.batch import (
    COUNTER_BITS,
    OFFSET_STRIDE,
    PERSISTENT,
    ClosedStreamSegment,
    Purge,
    StoredMessage,
    StreamHistory,
)

OFFSET_HEADER = "x-stream-offset"
FILTER_HEADER = "x-stream-filter-value"

_OFFSET = struct.Struct(">q").pack


class StreamMessage(NamedTuple):
    """A message as consumers get it, with its offset among its headers; its publish time and filter value."""

    offset: int
    time: int
    """Time of the publish, in milliseconds since the epoch."""
    message: Message
    filter_value: bytes | None


class StreamStore(QueueStore):
    """A stream's part of the message store. Positions are offsets, times are those of the publish."""

    __slots__ = ()

    def append(self, offset: int, message: Message, time: int) -> None:
        """Put a message into the open batch."""
        state = self.state
        self._open().puts[offset] = (message, time)
        self._batches.current.bytes += len(message.body) + len(message.header) + RECORD_BYTES
        state.messages += 1
        state.bytes += len(message.body)
        state.delivered_up_to = offset + 1

    def close(self, segment: StreamSegment) -> None:
        """Put a closed segment's end into the open batch."""
        self._open()
        self._batches.current.closed_segments.append(ClosedStreamSegment(self.queue_id, self.number, *segment))

    def drop_segments(self, dropped: list[StreamSegment]) -> None:
        """Drop the oldest segments, with their messages."""
        state, floor = self.state, dropped[-1].end
        messages = sum(segment.end - segment.first for segment in dropped)
        self.lost(self.number, messages, sum(segment.bytes for segment in dropped))
        state.floor = floor
        self._open()
        self._batches.current.purges.append(Purge(self.queue_id, self.number, floor, ()))

    def between(self, first: int, end: int, window: MemoryWindow) -> list[StoredMessage]:
        """Return stored messages in [first, end), at most one window."""
        found = self._source.read(self.queue_id, self.number, first - 1, end, window.messages, window.bytes)
        self.counters.read(len(found))
        return found

    def find(self, time: int, first: int, end: int) -> int:
        """Return the first offset in [first, end) of a message not older than `time`; else `end`."""
        return self._source.streams.find(self.queue_id, self.number, time, first, end)

    def peeked(self, queue: OriginQueue, stored: StoredMessage) -> QueuedMessage:
        """Return what a look has found as consumers get it; its body may be cut."""
        stamped = _Stamp().stamped(stored.position, stored.expires_at, _message(stored))
        return QueuedMessage(queue, stored.position, stamped.message, body_size(stored.header), 0)

    def history(self) -> StreamHistory:
        """Return the closed segments and the last message in the store."""
        return self._source.streams.history(self.queue_id, self.number)


class StreamLog:
    """The messages of one stream, in the role of its ready messages. Reading removes none of them."""

    def __init__(self, store: StreamStore, rules: StreamArguments, window: MemoryWindow) -> None:
        self._store = store
        self._window = window
        self.segments = StreamSegments(rules)
        self._stamp = _Stamp()
        self._tail: dict[int, StreamMessage] = {}
        self._tail_bytes = 0
        self.tail_first = 0
        self.stored = 0
        self.next = 0

    def __len__(self) -> int:
        return self._store.state.messages

    @property
    def bytes(self) -> int:
        """Bytes of the bodies of all messages."""
        return self._store.state.bytes

    @property
    def in_memory(self) -> MemoryWindow:
        """Number of messages in memory, and bytes of their bodies."""
        return MemoryWindow(len(self._tail), self._tail_bytes)

    @property
    def head(self) -> None:
        """None: each consumer reads from a position of its own."""

    @property
    def first(self) -> int:
        """The lowest offset of the stream."""
        return self.segments.first

    # In

    def append(self, message: Message, now: int) -> None:
        """Append a message at the next offset."""
        segments = self.segments
        if segments.full:
            self._roll(now)
        offset, time = self.next, max(now, segments.last_time)
        self.next = offset + 1
        self._store.append(offset, message, time)
        segments.add(len(message.body), time)
        self._tail[offset] = self._stamp.stamped(offset, time, message)
        self._tail_bytes += len(message.body)
        self.keep_window()

    def keep_window(self) -> None:
        """Drop from memory messages that are on disk and beyond the window."""
        while self.tail_first < self.stored and self._beyond_window:
            self._shorten()

    @property
    def _beyond_window(self) -> bool:
        """More messages are in memory than the window has. Those that are not on disk yet stay anyway."""
        return len(self._tail) > self._window.messages or self._tail_bytes > self._window.bytes

    def synced(self, up_to: int) -> None:
        """Note that all messages up to an offset are on disk."""
        self.stored = up_to + 1

    def restore(self) -> None:
        """Take up the messages on disk at a start; leave a gap if the stored next offset is far above the last one."""
        closed, last = self._store.history()
        state = self._store.state
        end, time = (0, 0) if last is None else (last[0] + 1, last[1])
        go_on_at = end
        if state.delivered_up_to >> COUNTER_BITS == 0:  # else the counters were damaged, and this is no offset
            go_on_at = max(end, state.delivered_up_to)
        if go_on_at - end < OFFSET_STRIDE:
            end = go_on_at
        stored = StreamSegment(state.floor, end, state.bytes, time)
        self.segments.restore((StreamSegment(*segment[2:]) for segment in closed), stored, state.messages)
        if end < go_on_at and (rest := self.segments.go_on_at(go_on_at)) is not None:
            self._store.close(rest)
        self.next = self.stored = self.tail_first = go_on_at

    def end(self) -> int:
        """Drop everything from memory; return 0, as RabbitMQ reports for every deleted stream."""
        self._tail.clear()
        self._tail_bytes = 0
        self.tail_first = self.next
        return 0

    # Out

    def read(self, start: int, window: MemoryWindow) -> tuple[list[StreamMessage], int]:
        """Return messages from an offset on, at most one window, and the offset to go on from.

        Dropped and unreadable messages are skipped, so an empty list does not mean the end of the stream.
        """
        start = max(start, self.first)
        if start >= self.tail_first:
            return self._read_tail(start, window)
        end = min(self.tail_first, self.stored)
        found = self._store.between(start, end, window)
        stamped = [self._stamp.stamped(stored.position, stored.expires_at, _message(stored)) for stored in found]
        return stamped, stamped[-1].offset + 1 if stamped else max(start, end)

    def look(self, section: ReadySection) -> None:
        """Add the messages that are synced to a section. A message's number is its offset less that of the first."""
        first, tail = self.first, max(self.first, min(self.tail_first, self.stored))
        section.add_on_disk(tail - first, first - 1, tail, 0, dense=True)
        section.add_numbers(range(tail, self.stored), lambda offset: self._entry(section.queue, offset))

    def _entry(self, queue: OriginQueue, offset: int) -> QueuedMessage:
        message = self._tail[offset].message
        return QueuedMessage(queue, offset, message, len(message.body), 0)

    def find(self, time: int) -> int:
        """Return the offset of the first message not older than `time`, or the next offset."""
        first = self.first
        if first < self.stored:
            offset = self._store.find(time, first, self.stored)
            if offset < self.stored:
                return offset
        offset = max(first, self.stored)
        while offset < self.next and self._tail[offset].time < time:
            offset += 1
        return offset

    def _read_tail(self, start: int, window: MemoryWindow) -> tuple[list[StreamMessage], int]:
        found: list[StreamMessage] = []
        size = 0
        for offset in range(start, min(self.stored, start + window.messages)):
            found.append(self._tail[offset])
            size += len(found[-1].message.body)
            if size >= window.bytes:
                break
        return found, start + len(found)

    def check(self) -> None:
        """Raise AssertionError unless offsets in memory and in segments are consecutive, and counted right."""
        self.segments.check()
        assert list(self._tail) == list(range(self.tail_first, self.next)), (
            f"offsets {self.tail_first} to {self.next} are in memory as {list(self._tail)}"
        )
        assert self.stored <= self.next, f"offset {self.stored - 1} is on disk, {self.next} is the next"
        size = sum(len(found.message.body) for found in self._tail.values())
        assert self._tail_bytes == size, f"{size} bytes are in memory, {self._tail_bytes} are counted"
        messages, most = self._store.state.messages, self.next - self.first
        assert 0 <= messages <= most, f"the store counts {messages} messages, there are {most} offsets"

    def _roll(self, now: int) -> None:
        self._store.close(self.segments.close())
        dropped = self.segments.drop(now)
        if dropped:
            self._store.drop_segments(dropped)
            while self._tail and self.tail_first < self.first:
                self._shorten()

    def _shorten(self) -> None:
        self._tail_bytes -= len(self._tail.pop(self.tail_first).message.body)
        self.tail_first += 1


class _Stamp:
    """Adds the offset to a message's headers. Caches the last header, because consecutive ones are mostly equal."""

    def __init__(self) -> None:
        self._header = b""
        self._before = self._after = b""
        self._filter_value: bytes | None = None

    def stamped(self, offset: int, time: int, message: Message) -> StreamMessage:
        """Return a message as consumers get it."""
        if message.header != self._header:
            self._take_apart(message.header)
        header = self._before + _OFFSET(offset) + self._after
        return StreamMessage(
            offset, time, Message(message.route, header, message.body, message.flags), self._filter_value
        )

    def _take_apart(self, header: bytes) -> None:
        """Encode the headers with two offsets, and find where they differ: those 8 bytes are the offset."""
        properties = decode_properties(header)
        headers = dict(properties.headers or {})
        given = headers.get(FILTER_HEADER)
        zero, ones = (
            encode_header(
                body_size(header),
                properties._replace(headers=dict(sorted({**headers, OFFSET_HEADER: Field("l", offset)}.items()))),
            )
            for offset in (0, -1)
        )
        at = next(index for index, (one, other) in enumerate(zip(zero, ones, strict=True)) if one != other)
        self._before, self._after = zero[:at], zero[at + 8 :]
        self._filter_value = given.value if given is not None and given.kind == "S" else None
        self._header = header


def kept(message: Message) -> Message:
    """Return a message as a stream stores it: persistent whatever its delivery mode, without BCC keys."""
    if message.flags == PERSISTENT:
        return message
    own = Message(message.route, message.header, message.body, PERSISTENT)
    own.body_id = message.body_id
    return own


def _message(stored: StoredMessage) -> Message:
    return Message(stored.route, stored.header, stored.body, stored.flags)
