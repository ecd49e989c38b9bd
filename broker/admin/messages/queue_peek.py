"""A look at the messages of a queue that changes nothing: no order, no flag, no counter, no expiry.

The section is cut from the queue at one moment, without reading. What is on disk only is read by a thread, in steps,
and bodies are cut while they are read. Messages that clients take meanwhile may still be shown, or be missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, islice
from typing import Any, NamedTuple

import trio

from broker.admin.json_tables import plain
from broker.admin.messages.message_in_json import beginning_in_json, payload_in_json, properties_in_json
from broker.admin.protocol import invalid
from broker.admin.short_steps import pause_if_due
from broker.admin.views.connection_view import channel_name
from broker.entities.messages.message import SHORT_STRING_BYTES, BccMessage, Message, QueuedMessage, route_of
from broker.entities.queues.consumer_prefetch import Outlet
from broker.entities.queues.queue import Queue
from broker.entities.queues.quorum.quorum_entry import QuorumEntry
from broker.entities.queues.quorum.quorum_queue import QuorumQueue
from broker.entities.queues.ready_section import PagedPart, ReadySection, ResidentPart
from broker.session.channel.channel import Channel
from broker.wire.amqp_errors import DecodeError
from broker.wire.properties import decode_properties
from storage.batch import BLIND, PeekLimits, StoredMessage

COUNT, COUNT_MAX = 50, 1000
"""Messages of one answer, if the request does not say, and at most."""
BODY_BYTES, BODY_BYTES_MAX = 50_000, 1 << 20
"""Bytes of each body, if the request does not say, and at most."""
OFFSET_MAX = 1 << 62
UNACKNOWLEDGED_MAX = 4096
"""Unacknowledged messages that a look reaches: they are gone through channel by channel."""
READY, UNACKNOWLEDGED = STATES = ("ready", "unacknowledged")
ENCODINGS = ("auto", "base64")
LOOKED_AT_MAX = 10_000
"""Messages that one request with a filter looks at."""
ANSWER_BYTES_MAX = 8 << 20
"""Size of an answer after which it ends, with MESSAGE_BYTES for each message."""
MESSAGE_BYTES = 1024
"""Approximate size of a message beside its body."""
AT_ONCE, AT_ONCE_BYTES = 128, 1 << 20
"""Messages in memory, and bytes of their bodies, whose contents are read from disk together."""
READER = trio.CapacityLimiter(1)
"""One look reads at a time: threads that read wait for the interpreter, and others wait for them."""


class PeekRequest(NamedTuple):
    """A look: from message number `offset` on, at most `messages` that match, bodies cut to `body_bytes`."""

    offset: int = 0
    messages: int = COUNT
    body_bytes: int = BODY_BYTES
    as_base64: bool = False
    routing_key: str | None = None
    header: tuple[str, str | None] | None = None
    """The name of a header that messages must have, and its value as text; None: any."""
    state: str = READY

    @property
    def filters(self) -> bool:
        """Not all messages match."""
        return self.routing_key is not None or self.header is not None

    @property
    def section(self) -> int:
        """The number of messages to look at."""
        return LOOKED_AT_MAX if self.filters else self.messages

    def matches(self, flags: int, route: bytes, header: bytes) -> bool:
        """Return whether a message matches, by its stored parts; damaged ones do not."""
        key = route[1 + int.from_bytes(route[:1]) :]  # its length and itself, behind the exchange's
        if self.routing_key is not None and key != route_of("", self.routing_key)[1:]:
            return False
        if self.header is None:
            return True
        name, value = self.header
        try:
            headers = plain(decode_properties(_own_header(flags, header)).headers or {})
        except (DecodeError, ValueError, IndexError):
            return False
        return name in headers and (value is None or _text(headers[name]) == value)


def _own_header(flags: int, header: bytes) -> bytes:
    """Return a stored header without the BCC keys behind it."""
    return BccMessage.restored(b"", header, b"", flags).header if flags & BLIND else header


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def checked(given: Mapping[str, Any]) -> PeekRequest:
    """Make a request of the arguments of a command. Raises AdministrationError `invalid`."""
    key, header = given["routing_key"], given["header"]
    if given["encoding"] not in ENCODINGS:
        raise invalid(f"argument encoding: expected {' or '.join(ENCODINGS)}")
    if key is not None and len(key.encode("utf-8", "surrogateescape")) > SHORT_STRING_BYTES:
        raise invalid(f"argument routing_key: is longer than {SHORT_STRING_BYTES} bytes")
    if given["state"] not in STATES:
        raise invalid(f"argument state: expected {' or '.join(STATES)}")
    name, colon, value = (header or "").partition(":")
    return PeekRequest(
        _number(given, "offset", 0, 0, OFFSET_MAX if given["state"] == READY else UNACKNOWLEDGED_MAX - 1),
        _number(given, "count", COUNT, 1, COUNT_MAX),
        _number(given, "truncate", BODY_BYTES, 0, BODY_BYTES_MAX),
        as_base64=given["encoding"] == "base64",
        routing_key=key,
        header=(name, value if colon else None) if name else None,
        state=given["state"],
    )


def _number(given: Mapping[str, Any], name: str, default: int, lowest: int, highest: int) -> int:
    value = default if given[name] is None else given[name]
    if not lowest <= value <= highest:
        raise invalid(f"argument {name}: expected a number from {lowest} to {highest:,}")
    return int(value)


class PeekPage(NamedTuple):
    """The messages of an answer, as rows.

    `next_offset`: where to go on; None at the end. `looked_at` counts messages, `unreadable` those of them that are
    damaged on disk.
    """

    messages: list[dict[str, Any]]
    next_offset: int | None
    messages_ready: int
    messages_unacknowledged: int
    looked_at: int
    unreadable: int


async def peek(queue: Queue, request: PeekRequest) -> PeekPage:
    """Look at messages of a queue."""
    look = _Look(queue, request)
    if request.state == UNACKNOWLEDGED:
        await look.unacknowledged()
        return look.page
    section = ReadySection(queue, request.offset, request.section)
    queue.ready_messages.look(section)
    for part in section.parts:
        if isinstance(part, ResidentPart):
            await look.in_memory(part.entries)
        else:
            await look.on_disk(part)
        if look.full:
            break
    return look.page


class _Look:
    """One look. `reached` is the number of the next message to look at."""

    def __init__(self, queue: Queue, request: PeekRequest) -> None:
        self._queue = queue
        self._request = request
        self._ready, self._unacked = queue.ready, queue.unacked
        self._count = self._ready if request.state == READY else self._unacked
        self._holders: dict[int, Outlet] = {}
        """The channels of unacknowledged messages, by position."""
        self._size = self._unreadable = 0
        self._rows: list[dict[str, Any]] = []
        self.reached = request.offset

    @property
    def full(self) -> bool:
        """The answer has as much as it may."""
        return len(self._rows) >= self._request.messages or self._size >= ANSWER_BYTES_MAX

    @property
    def page(self) -> PeekPage:
        """The answer."""
        request, end = self._request, self._count
        if request.state == UNACKNOWLEDGED:
            end = min(end, UNACKNOWLEDGED_MAX)
        reached = self.reached if self.reached < end else None
        counts = self._ready, self._unacked, self.reached - request.offset, self._unreadable
        return PeekPage(self._rows, reached, *counts)

    @property
    def _limits(self) -> PeekLimits:
        request = self._request
        return PeekLimits(
            request.messages - len(self._rows),
            request.section - (self.reached - request.offset),
            max(1, ANSWER_BYTES_MAX - self._size),
            request.body_bytes,
            request.matches if request.filters else None,
        )

    async def unacknowledged(self) -> None:
        """Look at unacknowledged messages, channel by channel, in the order of deliveries."""
        entries: list[QueuedMessage] = []
        end = min(self._request.offset + self._request.section, UNACKNOWLEDGED_MAX)
        for outlet in self._queue.outlets:
            held = list(islice(outlet.unacked_of(self._queue), end - len(entries)))
            entries += held
            self._holders.update((entry.position, outlet) for entry in held)
            await pause_if_due()
        await self.in_memory(entries[self._request.offset :])

    async def in_memory(self, entries: Sequence[QueuedMessage]) -> None:
        """Look at messages in memory. The contents that are on disk only are read."""
        for some in _batches(entries, self._request.body_bytes):
            read = await self._contents([entry for entry in some if entry.message is None])
            for entry in some:
                if self.full:
                    return
                self._show(entry, read.get(entry.position))
                self.reached += 1
                await pause_if_due()

    async def _contents(self, entries: Sequence[QueuedMessage]) -> dict[int, StoredMessage]:
        """Read contents of messages, by position; those that do not match are left out."""
        found: dict[int, StoredMessage] = {}
        limits = self._limits._replace(messages=AT_ONCE, looked_at=AT_ONCE)
        for level, members in groupby(sorted(entries, key=_place), lambda entry: entry.level):
            positions = [entry.position for entry in members]
            lane = self._queue.store.lane(level).peek(positions[0] - 1, positions[-1] + 1)
            read = await trio.to_thread.run_sync(lane.at, positions, limits, limiter=READER)
            found.update((stored.position, stored) for stored in read)
            self._unreadable += lane.unreadable
        return found

    def _show(self, entry: QueuedMessage, read: StoredMessage | None) -> None:
        """Add a message in memory, whose content may have been read, if it matches."""
        queue, request, message = self._queue, self._request, entry.message
        if message is not None:
            if not request.filters or request.matches(message.flags & ~BLIND, message.route, message.header):
                self._add(entry)
        elif read is not None:
            seen = queue.store.lane(entry.level).peeked(queue, read)
            seen.redelivered = entry.redelivered
            if isinstance(seen, QuorumEntry) and entry.deliveries:  # the latest ones may not be on disk yet
                seen.deliveries, seen.uncounted = entry.deliveries, entry.uncounted
            seen.consumer = entry.consumer
            self._add(seen)

    async def on_disk(self, part: PagedPart) -> None:
        """Look at messages on disk only."""
        lane, first = self._queue.store.lane(part.level).peek(part.after, part.before, part.skip), self.reached
        end = first + part.messages
        while not (lane.done or self.full or self.reached >= end):
            limits = self._limits._replace(looked_at=end - self.reached)
            for number, stored in await trio.to_thread.run_sync(lane.step, limits, limiter=READER):
                self.reached = first + (stored.position - part.after - 1 if part.dense else number - part.skip)
                self._add(self._queue.store.lane(part.level).peeked(self._queue, stored))
                await pause_if_due()
            self.reached = first + max(0, lane.reached - part.after if part.dense else lane.passed - part.skip)
            await pause_if_due()
        self._unreadable += lane.unreadable
        if lane.done:  # some may be gone meanwhile, or cannot be read
            self.reached = end

    def _add(self, entry: QueuedMessage) -> None:
        message = self._shown(entry)
        if message is None:
            return
        row = self._row(entry, message)
        self._rows.append(row)
        self._size += len(message.header) + len(row["payload"]) + MESSAGE_BYTES

    def _row(self, entry: QueuedMessage, message: Message) -> dict[str, Any]:
        request = self._request
        body = message.body[: request.body_bytes]
        in_json = beginning_in_json if len(body) < entry.size else payload_in_json
        return {
            "position": self.reached,
            **self._state(entry),
            "payload_bytes": entry.size,
            "redelivered": entry.redelivered,
            "exchange": message.exchange,
            "routing_key": message.routing_key,
            "message_count": max(0, self._count - self.reached - 1),
            "properties": properties_in_json(decode_properties(message.header)),
            **in_json(body, as_base64=request.as_base64),
        }

    def _state(self, entry: QueuedMessage) -> dict[str, Any]:
        """Return the columns of a message's state. The tag of the consumer is empty for basic.get."""
        holder = self._holders.get(entry.position)
        if holder is None:
            return {"state": READY}
        tag, name = "" if entry.consumer is None else entry.consumer.tag, None
        if isinstance(holder, Channel):
            name = channel_name(holder)
        return {"state": UNACKNOWLEDGED, "channel": name, "consumer_tag": tag}

    def _shown(self, entry: QueuedMessage) -> Message | None:
        """Return a message as basic.get gives it: of a quorum queue with its delivery counts. None without content."""
        queue = self._queue
        if isinstance(queue, QuorumQueue) and isinstance(entry, QuorumEntry):
            earlier = entry.deliveries - (entry.position in self._holders)
            return entry.with_counts(queue.rules.shown(earlier, entry.uncounted))
        return entry.message


def _batches(entries: Sequence[QueuedMessage], body_bytes: int) -> Iterator[list[QueuedMessage]]:
    """Cut messages into batches that are read together."""
    some: list[QueuedMessage] = []
    size = 0
    for entry in entries:
        some.append(entry)
        size += min(entry.size, body_bytes)
        if len(some) >= AT_ONCE or size >= AT_ONCE_BYTES:
            yield some
            some, size = [], 0
    if some:
        yield some


def _place(entry: QueuedMessage) -> tuple[int, int]:
    return entry.level, entry.position
