"""From received bytes to handled methods.

Frames are cut where they lie. A publish that is there whole - method, header and one body frame - and an
acknowledgement are handled on the spot, with all of their kind behind them (`runs`); everything else takes the
general way: decoded, assembled into a command, dispatched by its type.
"""

from __future__ import annotations

import struct
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING

from broker.session.channel.channel import HELD_OVERHEAD_BYTES, Channel
from broker.session.input import dispatch, publish_fast_path
from broker.session.login import handshake
from broker.wire import frames, methods
from broker.wire.amqp_errors import ChannelException, ConnectionException, DecodeError
from broker.wire.assembler import Command
from broker.wire.constants import FRAME_BODY, FRAME_END, FRAME_HEADER, FRAME_HEARTBEAT, FRAME_METHOD, ReplyCode
from broker.wire.method import Method

if TYPE_CHECKING:
    from broker.session.connection import Connection

_PUBLISH = methods.BasicPublish.KEY.to_bytes(4, "big")
_ACK = methods.BasicAck.KEY.to_bytes(4, "big")
_KEY = struct.Struct(">I").unpack_from
_FRAME = frames.FRAME_START.unpack_from
_START = frames.FRAME_START.size
_OVERHEAD = frames.FRAME_OVERHEAD

LARGE_BYTES = 64 * 1024
"""Body frames from here up are not copied out of what was received, which then stays in memory until the body is whole:
smaller ones might keep much more alive than they are."""


def missing_of_large(rest: bytes) -> int:
    """How many bytes the large body frame lacks that `rest` is the beginning of; 0 when it is that of none.

    Such a frame is completed by itself, so that what was received behind it need not be moved.
    """
    if len(rest) < _START or rest[0] != FRAME_BODY:
        return 0
    size: int = _FRAME(rest, 0)[2]
    return _OVERHEAD + size - len(rest) if size >= LARGE_BYTES else 0


def handle_frames(connection: Connection, data: bytes, start: int = 0) -> int:
    """Handle whole frames from `start` on until the turn's budget is spent, in copies or in time; how far that was.

    It ends as well when too much has been said that the client has not read. Raises ConnectionException for a broken
    frame. Long and flat because each frame passes here.
    """
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
        if kind == FRAME_METHOD:
            channel = connection.channels.get(number)
            if channel is not None and channel.free and channel.assembler.idle:
                name = data[at + 7 : at + 11]
                if name in (_PUBLISH, _ACK):
                    after = publish_fast_path.handle_batch(channel, data, at, budget, until)
                    if after > at:
                        at = after
                        budget -= connection.copies
                        if budget <= 0:
                            connection.unfinished = True
                            break
                        continue
        try:
            _handle_frame(connection, kind, number, data, at + 7, stop)
        except ConnectionException as error:  # the frames behind it are in step still: connection.close-ok among them
            connection.fail(error)
        at = stop + 1
        if at < end and (monotonic() > until or not connection.readable):
            connection.unfinished = True
            break
    return at


def _handle_frame(connection: Connection, kind: int, number: int, data: bytes, start: int, stop: int) -> None:
    least = frames.PAYLOAD_BYTES_MIN.get(kind)
    if least is None or stop - start < least:
        raise frames.unknown_frame(kind, data[start:stop])
    if kind == FRAME_HEARTBEAT:
        if stop > start:
            raise frames.unknown_frame(kind, data[start:stop])
        if number:
            raise frames.unexpected_frame(kind, data[start:stop])
    elif number == 0:
        _handle_on_connection(connection, kind, data[start:stop])
    elif connection.phase is handshake.Phase.OPEN:
        if kind == FRAME_BODY and stop - start >= LARGE_BYTES:
            _handle_body(connection, number, memoryview(data)[start:stop])
        else:
            _handle_on_channel(connection, kind, number, data[start:stop])
    elif connection.phase is not handshake.Phase.CLOSING:
        handshake.refuse(connection, f"frame on channel {number} before the connection was open")


def _handle_on_connection(connection: Connection, kind: int, payload: bytes) -> None:
    if kind != FRAME_METHOD:
        raise frames.unexpected_frame(kind, payload)
    try:
        method = _decode(connection, payload)
    except ConnectionException as error:  # RabbitMQ's own failure here, not its client's
        raise ConnectionException(ReplyCode.INTERNAL_ERROR, error.text) from error
    if method is None:
        return
    try:
        handshake.handle(connection, method)
    except ChannelException as error:  # on channel 0 every error is the connection's
        raise ConnectionException(error.code, error.text, method.CLASS_ID, method.METHOD_ID) from error


def _handle_on_channel(connection: Connection, kind: int, number: int, payload: bytes) -> None:
    channel = connection.channels.get(number)
    method = _decode(connection, payload) if kind == FRAME_METHOD else None
    if kind == FRAME_METHOD and method is None:
        return
    if channel is None or channel.closing:
        dispatch.handle_unopened(connection, number, channel, method)
        return
    if method is not None:
        command = channel.assembler.method(method)
    elif kind == FRAME_HEADER:
        command = channel.assembler.header(payload)
    else:
        _handle_body(connection, number, payload)
        return
    if command is not None:
        _handle_command(channel, command, len(payload))


def _handle_body(connection: Connection, number: int, payload: bytes | memoryview) -> None:
    channel = connection.channels.get(number)
    if channel is None or channel.closing:
        dispatch.handle_unopened(connection, number, channel, None)
        return
    waiting = channel.assembler.bytes
    command = channel.assembler.body(payload)
    connection.count_incomplete(channel.assembler.bytes - waiting)
    if command is not None:
        _handle_command(channel, command, 0)


def _handle_command(channel: Channel, command: Command, payload_bytes: int) -> None:
    key, size = command.method.KEY, len(command.body) + payload_bytes + HELD_OVERHEAD_BYTES
    action = partial(dispatch.handle, channel, command)
    may_pass = type(command.method) in dispatch.MAKES_ROOM and channel.transaction is None
    channel.connection.guard(channel, key, lambda: channel.handle(key, action, size, may_pass=may_pass))


def _decode(connection: Connection, payload: bytes) -> Method | None:
    try:
        return methods.DECODERS[_KEY(payload)[0]](payload)
    except (KeyError, struct.error):
        handshake.refuse(connection, f"unknown method {payload[:4].hex()}")
        return None
    except DecodeError:
        raise frames.cannot_decode(payload) from None
