"""The general path of a frame: decode it, assemble a command of method and content, dispatch it by the method's type.

All frames but those of complete publishes, acks and rejects take it (see `incoming_frames`).
"""

from __future__ import annotations

import struct
from functools import partial

from broker.session.channel.channel import HELD_OVERHEAD_BYTES, Channel
from broker.session.connection import Connection
from broker.session.input import dispatch
from broker.session.login import handshake
from broker.session.login.phase import Phase
from broker.wire import frames, methods
from broker.wire.amqp_errors import ChannelException, ConnectionException, DecodeError
from broker.wire.assembler import Command
from broker.wire.constants import FRAME_BODY, FRAME_HEADER, FRAME_HEARTBEAT, FRAME_METHOD, ReplyCode
from broker.wire.method import Method

LARGE_BYTES = 64 * 1024
"""Body frames of this size or more are not copied but refer to the received bytes, which stay in memory until the body
is complete. A smaller frame might keep alive many times its own size."""

_KEY = struct.Struct(">I").unpack_from


def handle_frame(connection: Connection, kind: int, number: int, data: bytes, start: int, stop: int) -> None:
    """Handle the frame with payload data[start:stop]. Raises ConnectionException if it is malformed or unexpected."""
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
    elif connection.phase is Phase.OPEN:
        if kind == FRAME_BODY and stop - start >= LARGE_BYTES:
            _handle_body(connection, number, memoryview(data)[start:stop])
        else:
            _handle_on_channel(connection, kind, number, data[start:stop])
    elif connection.phase is not Phase.CLOSING:
        raise frames.unexpected_frame(kind, data[start:stop])


def _handle_on_connection(connection: Connection, kind: int, payload: bytes) -> None:
    if kind != FRAME_METHOD:
        raise frames.unexpected_frame(kind, payload)
    try:
        method = _decode(connection, payload)
    except ConnectionException as error:  # on channel 0 RabbitMQ answers 541, as for an error of its own
        raise ConnectionException(ReplyCode.INTERNAL_ERROR, error.text) from error
    if method is None:
        return
    try:
        handshake.handle(connection, method)
    except ChannelException as refusal:  # on channel 0 every error is the connection's
        raise ConnectionException(refusal.code, refusal.text, method.CLASS_ID, method.METHOD_ID) from refusal


def _handle_on_channel(connection: Connection, kind: int, number: int, payload: bytes) -> None:
    channel = connection.channels.get(number)
    method = _decode(connection, payload) if kind == FRAME_METHOD else None
    if kind == FRAME_METHOD and method is None:
        return
    if channel is None or channel.closing:
        dispatch.handle_unopened(connection, number, channel, method)
        return
    if method is not None:
        command = channel.assembler.method(method, payload[4:])
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
    may_pass = type(command.method) in dispatch.OVERTAKES_PUBLISHES and channel.transaction is None
    channel.connection.guard(channel, key, lambda: channel.handle(key, action, size, may_pass=may_pass))


def _decode(connection: Connection, payload: bytes) -> Method | None:
    try:
        return methods.DECODERS[_KEY(payload)[0]](payload)
    except (KeyError, struct.error):
        connection.refuse(f"unknown method {payload[:4].hex()}")
        return None
    except DecodeError:
        raise frames.cannot_decode(payload) from None
