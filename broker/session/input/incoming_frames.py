"""From received bytes to handled methods.

Frames are parsed in place. Complete publishes (method, header and one body frame), acks and rejects are handled here,
many of a kind at once: the work that is the same for all of a batch - its queues, the disk batch that it waits for, the
consumer whose credit returns - is done once. Publishes that differ in their bodies alone are recognized by comparing
bytes, without being parsed. All other frames take the general path (`frames_to_commands`).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Final

from broker.session.input.frames_to_commands import LARGE_BYTES, handle_frame
from broker.session.login import handshake
from broker.session.login.phase import Phase
from broker.session.methods.acknowledge import acknowledge, reject_each
from broker.session.methods.publish import PublishBatch
from broker.wire import frames, methods
from broker.wire.amqp_errors import ChannelException, ConnectionException
from broker.wire.constants import FRAME_BODY, FRAME_END, FRAME_HEADER, FRAME_METHOD

if TYPE_CHECKING:
    from broker.entities.messages.message import QueuedMessage
    from broker.session.channel.channel import Channel
    from broker.session.connection import Connection

_PUBLISH: Final = methods.BasicPublish.KEY
_ACK: Final = methods.BasicAck.KEY
_REJECT: Final = methods.BasicReject.KEY
_REJECT_BYTES: Final = _REJECT.to_bytes(4, "big")
_IN_BATCHES: Final = frozenset({_PUBLISH.to_bytes(4, "big"), _ACK.to_bytes(4, "big"), _REJECT_BYTES})
_FRAME: Final[Callable[[bytes, int], tuple[int, int, int]]] = frames.FRAME_START.unpack_from
_START: Final = frames.FRAME_START.size
_OVERHEAD: Final = frames.FRAME_OVERHEAD
_METHOD: Final[Callable[[bytes, int], tuple[int, int, int, int]]] = struct.Struct(">BHII").unpack_from
"""Type, channel, payload size, class and method."""
_HEADER: Final[Callable[[bytes, int], tuple[int, int, int, int, int]]] = struct.Struct(">BHIIQ").unpack_from
"""Type, channel, payload size, class and weight, size of the body."""
_BODY: Final[Callable[[bytes, int], tuple[int, int, int]]] = struct.Struct(">BHI").unpack_from
_BASIC: Final = 60 << 16
"""The basic class, and a weight of 0."""
_CONTENT_BYTES_MIN: Final = 30
"""Least size of a header frame and the start of a body frame behind it; a publish is larger."""

_SETTLEMENT_START: Final = struct.Struct(">BHII").pack
_SETTLEMENT_BYTES: Final = 13
_SETTLEMENT_FRAME: Final = struct.Struct(">11sQ2s")
"""An ack or reject: the bytes that are the same for all of a channel, delivery tag, bits and frame-end octet."""
_LAST_OCTET: Final = 18
"""Offset of the delivery tag's last octet in such a frame."""
_OCTETS: Final = bytes(range(256))
_RUN_MIN: Final = 4
"""Least number of acks or rejects that are tried as one run of consecutive tags."""
_NO_BIT: Final = bytes((0, FRAME_END))
"""The end of an ack that is not multiple, or a reject without requeue."""
UNLIKE_COPIES: Final = 1
"""Cost, in routed copies, of a publish whose method or header differs from the one before."""
_REJECTED_AT_ONCE: Final = 64
"""Rejects of one step: each may be dead-lettered, that is copied, at once."""


class IncomingFrames:
    """Cuts the bytes of one client into frames and handles them. `unfinished`: received frames are left to handle."""

    __slots__ = ("_connection", "_rest", "unfinished")

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._rest = b""
        self.unfinished = False

    def receive(self, data: bytes) -> None:
        """Handle received bytes. If `unfinished` is set afterwards, call again with b"" after other clients' turns."""
        connection = self._connection
        self.unfinished = False
        if connection.ended:
            return
        if (invariants := connection.broker.invariants) is not None:
            invariants.touch_all((connection, connection.broker.statistics))
        rest, self._rest, start = self._rest, b"", 0
        try:
            if rest:
                missing = _missing_of_large(rest)
                if 0 < missing < len(data):  # complete the large frame alone, so that what follows it is not copied
                    self._handle_frames(rest + data[:missing], 0)
                    start = missing
                else:
                    data = rest + data
            if connection.phase is Phase.HEADER:
                data = handshake.read_header(connection, data)
                if connection.phase is Phase.HEADER:  # still incomplete
                    self._rest = data
                    return
            self._rest = data[self._handle_frames(data, start) :]
        except ConnectionException as error:
            connection.fail(error)

    @property
    def unhandled_bytes(self) -> int:
        """Bytes received and not handled yet."""
        return len(self._rest)

    @property
    def missing(self) -> int:
        """Approximate bytes missing from a body of which a large frame is arriving; else 0."""
        if not _missing_of_large(self._rest):
            return 0
        channel = self._connection.channels.get(_FRAME(self._rest, 0)[1])
        return 0 if channel is None else channel.assembler.missing

    def _handle_frames(self, data: bytes, start: int) -> int:
        """Handle complete frames from `start` on and return the offset behind the last.

        Stops when the turn's budget of copies or time is spent, or the connection is not readable any more. Raises
        ConnectionException for a malformed frame. Long and flat because each frame passes here.
        """
        connection = self._connection
        at, end, budget = start, len(data), connection.settings.turn_copies_max
        until = monotonic() + connection.settings.turn_seconds
        while end - at >= _START and not connection.ended:
            kind, number, size = _FRAME(data, at)
            if size > connection.frame_max:  # RabbitMQ, too, grants a frame's own 8 bytes on top
                raise frames.frame_too_large(kind, size, connection.frame_max)
            stop = at + 7 + size
            if stop >= end:
                break
            if data[stop] != FRAME_END:
                raise frames.bad_frame_end(kind, data[at + 7 : stop], data[stop])
            if kind == FRAME_METHOD and data[at + 7 : at + 11] in _IN_BATCHES:
                channel = connection.channels.get(number)
                if channel is not None:
                    after, copies = _handle_batch(channel, data, at, budget, until)
                    if after > at:
                        at = after
                        budget -= copies
                        if budget <= 0:
                            self.unfinished = True
                            break
                        continue
            try:
                handle_frame(connection, kind, number, data, at + 7, stop)
            except ConnectionException as error:  # the frames behind it are sound: connection.close-ok is among them
                connection.fail(error)
            at = stop + 1
            if at < end and (monotonic() > until or not connection.readable):
                self.unfinished = True
                break
        return at


def _missing_of_large(rest: bytes) -> int:
    """Return the bytes missing from a partially received large body frame at the start of `rest`; 0 if it has none."""
    if len(rest) < _START or rest[0] != FRAME_BODY:
        return 0
    size = _FRAME(rest, 0)[2]
    return _OVERHEAD + size - len(rest) if size >= LARGE_BYTES else 0


def _handle_batch(channel: Channel, data: bytes, at: int, copies_max: int, until: float) -> tuple[int, int]:
    """Handle the complete publishes and acks in `data` from `at` on; return the offset behind them, and the copies.

    Stops after `copies_max` copies, or at the deadline `until` for publishes handled one at a time. Returns `at`
    unchanged if no such frame starts there (a publish with an empty body, or a body in several frames, is none), or
    the channel holds methods that come first.
    """
    if channel.gates or channel.held or channel.closing or not channel.assembler.idle:
        return at, 0
    if data.startswith(_REJECT_BYTES, at + 7):
        return _handle_rejections(channel, data, at, copies_max, until)
    connection = channel.connection
    batch: PublishBatch | None = None
    settled: list[QueuedMessage] = []
    end, copies = len(data), 0
    # Two `try`: the `finally` puts what came before a faulty frame into its queues, the `except` clauses then close the
    # channel or connection. Publishes wait in `batch` and acknowledged messages in `settled`, to be handled together.
    try:
        try:
            while at < end and copies < copies_max:
                cuts = _cut_publish(data, at, channel.number, connection.frame_max)
                if cuts is None:  # not a complete publish: a run of acks, or the end of this batch
                    tags, after = _cut_settlements(data, at, channel.number, _ACK, end)
                    if not tags or channel.transaction is not None:
                        break
                    connection.handling, at = _ACK, after
                    channel.deliveries.take_each(tags, settled)
                    continue
                connection.handling = _PUBLISH
                batch = batch or PublishBatch(channel)
                stop, header_stop, body_stop = cuts
                arguments, header = data[at + 11 : stop], data[stop + 8 : header_stop]
                start, at, body_at = at, body_stop + 1, header_stop + 8
                queues = batch.plain_queues(arguments, header, body_stop - body_at)
                if not queues:
                    copies += UNLIKE_COPIES + batch.publish_special(arguments, header, data[body_at:body_stop])
                    if monotonic() > until:
                        copies = max(copies, copies_max)  # ends the loop, and the turn of this connection
                    continue
                bodies = [data[body_at:body_stop]]
                # A next publish that is equal up to its body's size costs a comparison and a slice, nothing else.
                if data[at : at + body_at - start] == data[start:body_at]:
                    at = _cut_bodies(data, start, body_at, at, bodies, 1 + (copies_max - copies) // len(queues))
                copies += UNLIKE_COPIES + len(bodies) * len(queues)
                batch.add(queues, header, bodies)
        finally:
            if batch is not None:
                batch.enqueue()
            if settled:
                _acknowledge(channel, settled)
    except ChannelException as error:
        channel.fail(error, connection.handling)
    except ConnectionException as fatal:
        connection.fail(fatal, connection.handling)
    return at, copies


def _handle_rejections(channel: Channel, data: bytes, at: int, copies_max: int, until: float) -> tuple[int, int]:
    """Handle rejects without requeue in `data` from `at` on; returns as `_handle_batch` does."""
    if channel.transaction is not None or channel.reads_streams:
        return at, 0
    tags, after = _cut_settlements(data, at, channel.number, _REJECT, _REJECTED_AT_ONCE)
    if tags:
        channel.connection.guard(channel, _REJECT, partial(reject_each, channel, tags))
    return after, len(tags) if monotonic() <= until else copies_max


def _acknowledge(channel: Channel, settled: list[QueuedMessage]) -> None:
    acknowledge(channel, settled)
    if channel.prefetch_all:
        channel.replenish(settled=True)


def _cut_publish(data: bytes, at: int, channel: int, frame_max: int) -> tuple[int, int, int] | None:
    """Return the offsets of the frame-end octets of the three frames of a publish; None if none is complete at `at`."""
    # A frame that is malformed makes no publish here either: the general path then raises the right error.
    end = len(data)
    if end - at < _CONTENT_BYTES_MIN:
        return None
    kind, number, method_size, key = _METHOD(data, at)
    stop = at + 7 + method_size
    if key != _PUBLISH or number != channel or kind != FRAME_METHOD or end - stop < _CONTENT_BYTES_MIN:
        return None
    kind, number, header_size, start, body_size = _HEADER(data, stop + 1)
    header_stop = stop + 8 + header_size
    body_stop = header_stop + 8 + body_size
    if kind != FRAME_HEADER or number != channel or start != _BASIC or header_size < 14 or body_stop >= end:
        return None
    kind, number, size = _BODY(data, header_stop + 1)
    if kind != FRAME_BODY or number != channel or size != body_size or not size:
        return None
    if not data[stop] == data[header_stop] == data[body_stop] == FRAME_END:
        return None
    if method_size > frame_max or header_size > frame_max or body_size > frame_max:
        return None
    return stop, header_stop, body_stop


def _cut_bodies(data: bytes, at: int, body_at: int, after: int, bodies: list[bytes], bodies_max: int) -> int:
    """Append the bodies of the publishes behind data[at:after] that equal it up to the body; return their end."""
    common = data[at:body_at]
    skip, stride = body_at - at, after - at
    last = len(data) - stride
    while after <= last and len(bodies) < bodies_max and data[after : after + skip] == common:
        stop = after + stride - 1
        if data[stop] != FRAME_END:
            break
        bodies.append(data[after + skip : stop])
        after = stop + 1
    return after


def _cut_settlements(data: bytes, at: int, channel: int, key: int, tags_max: int) -> tuple[Sequence[int], int]:
    """Return the delivery tags of the acks or rejects (`key`) of one message each from `at` on, and their end."""
    common = _SETTLEMENT_START(FRAME_METHOD, channel, _SETTLEMENT_BYTES, key)
    if not data.startswith(common, at):
        return (), at
    count = min(tags_max, (len(data) - at) // _SETTLEMENT_FRAME.size)
    if count >= _RUN_MIN:
        run = _run_of_settlements(data, at, count)
        if run:
            return run, at + len(run) * _SETTLEMENT_FRAME.size
    tags: list[int] = []
    whole = at + count * _SETTLEMENT_FRAME.size
    for start, tag, end in _SETTLEMENT_FRAME.iter_unpack(memoryview(data)[at:whole]):
        if start != common or end != _NO_BIT:
            break
        tags.append(tag)
    return tags, at + len(tags) * _SETTLEMENT_FRAME.size


def _run_of_settlements(data: bytes, at: int, count_max: int) -> range:
    """Return the tags of up to `count_max` acks or rejects from `at` on if they are consecutive; else an empty range.

    The run ends before the tag's last octet wraps. Frames are not parsed: all must equal the first but for that octet.
    """
    size = _SETTLEMENT_FRAME.size
    last = data[at + _LAST_OCTET]
    count = min(count_max, len(_OCTETS) - last)
    run = bytearray(data[at : at + count * size])
    octets = run[_LAST_OCTET::size]
    if octets != _OCTETS[last : last + count]:
        return range(0)
    # With that octet zeroed, frames that are all equal make a text that equals itself moved by one frame.
    run[_LAST_OCTET::size] = bytes(count)
    if run[size:] != run[:-size] or run[_LAST_OCTET + 1 : size] != _NO_BIT:
        return range(0)
    first = int.from_bytes(data[at + _LAST_OCTET - 7 : at + _LAST_OCTET + 1], "big")
    return range(first, first + count)
