"""Frames: type (1), channel (2), payload size (4), payload, frame-end octet; and RabbitMQ's errors for broken ones."""

from __future__ import annotations

import struct
from typing import Final, TypeAlias

from broker.wire.amqp_errors import REPLY_TEXT_BYTES_MAX, ConnectionException
from broker.wire.constants import (
    FRAME_BODY,
    FRAME_END,
    FRAME_HEADER,
    FRAME_HEARTBEAT,
    FRAME_METHOD,
    ReplyCode,
)
from broker.wire.method import Method

FRAME_START: Final = struct.Struct(">BHI")
"""Type, channel, payload size in bytes."""
FRAME_OVERHEAD: Final = FRAME_START.size + 1
END: Final = bytes((FRAME_END,))
HEARTBEAT: Final = FRAME_START.pack(FRAME_HEARTBEAT, 0, 0) + END
PROTOCOL_HEADER: Final = b"AMQP\x00\x00\x09\x01"
PAYLOAD_BYTES_MIN: Final = {FRAME_METHOD: 4, FRAME_HEADER: 12, FRAME_BODY: 0, FRAME_HEARTBEAT: 0}
"""Least bytes of the payload by frame type: class and method; class, weight and body size."""


Piece: TypeAlias = bytes | memoryview
"""A part of the output, sent without joining it to others first."""


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    """Return one frame as it goes on the wire."""
    return FRAME_START.pack(kind, channel, len(payload)) + payload + END


def method_frame(channel: int, method: Method) -> bytes:
    """Return the frame of a method."""
    return frame(FRAME_METHOD, channel, method.encode())


def content_frames(channel: int, header_payload: bytes, body: bytes, frame_max: int) -> bytes:
    """Return a content header frame and the body frames behind it, no frame larger than frame_max bytes (0: no limit).

    An empty body has no body frame.
    """
    return b"".join(content_pieces(channel, header_payload, body, frame_max))


def content_pieces(channel: int, header_payload: bytes, body: bytes, frame_max: int) -> list[Piece]:
    """Return the frames of `content_frames` as pieces, without copying the body."""
    size = len(body)
    pieces: list[Piece] = [FRAME_START.pack(FRAME_HEADER, channel, len(header_payload)), header_payload, END]
    part_size = frame_max - FRAME_OVERHEAD if frame_max else size
    view = memoryview(body)
    for start in range(0, size, part_size or 1):
        part = view[start : start + part_size]
        pieces += (FRAME_START.pack(FRAME_BODY, channel, len(part)), part, END)
    return pieces


# --- RabbitMQ's errors for broken frames (3.10.8, rabbit_reader: frame_error, unexpected_frame, payload_snippet) ---

_SNIPPET_BYTES: Final = 16
_ESCAPES: Final = {8: "\\b", 9: "\\t", 10: "\\n", 11: "\\v", 12: "\\f", 13: "\\r", 27: "\\e", 34: '\\"', 92: "\\\\"}


def render_octets(data: bytes) -> str:
    """Write bytes as Erlang's `~p` does: `<<"abc">>` when every one is a printable Latin-1 character, else `<<0,20>>`.

    Characters over 126 stay single bytes (surrogate escapes), as they do in RabbitMQ's own reply texts.
    """
    if data and all(byte in _ESCAPES or 32 <= byte <= 126 or byte >= 160 for byte in data):
        shown = b"".join(_ESCAPES[byte].encode() if byte in _ESCAPES else bytes((byte,)) for byte in data)
        return '<<"' + shown.decode("utf-8", "surrogateescape") + '">>'
    return render_numbers(data)


def render_numbers(data: bytes) -> str:
    """Write bytes as Erlang's `~w` does: `<<0,20,97>>`, whatever they are."""
    return f"<<{','.join(map(str, data))}>>"


def frame_too_large(kind: int, size: int, frame_max: int) -> ConnectionException:
    """Return the 501 for a payload over frame_max, raised before it is read. The text names frame_max - 8."""
    return _frame_error(kind, b"", f"{{frame_too_large,{size},{frame_max - FRAME_OVERHEAD}}}")


def bad_frame_end(kind: int, payload: bytes, octet: int) -> ConnectionException:
    """Return the 501 for a frame whose end octet is not 0xCE."""
    return _frame_error(kind, payload, f"{{invalid_frame_end_marker,{octet}}}")


def unknown_frame(kind: int, payload: bytes) -> ConnectionException:
    """Return the 501 for a frame of an unknown type or too short for its type, or a heartbeat with a payload."""
    return _frame_error(kind, payload, "unknown_frame")


def unexpected_frame(kind: int, payload: bytes) -> ConnectionException:
    """Return the 505 for content on channel 0, or a heartbeat on another channel."""
    return ConnectionException(ReplyCode.UNEXPECTED_FRAME, f"type {kind}, {_snippet(payload)}")


def cannot_decode(payload: bytes) -> ConnectionException:
    """Return the 501 for a method frame with invalid arguments; `payload`: all of it, the method's ids included."""
    class_id, method_id = struct.unpack_from(">HH", payload)
    text = f"cannot decode {render_numbers(payload[4 : 4 + REPLY_TEXT_BYTES_MAX])}"  # a reply text is cut anyway
    return ConnectionException(ReplyCode.FRAME_ERROR, text, class_id, method_id)


def _frame_error(kind: int, payload: bytes, reason: str) -> ConnectionException:
    return ConnectionException(ReplyCode.FRAME_ERROR, f"type {kind}, {_snippet(payload)}: {reason}")


def _snippet(payload: bytes) -> str:
    amount = "all" if len(payload) <= _SNIPPET_BYTES else f"first {_SNIPPET_BYTES}"
    return f"{amount} octets = {render_octets(payload[:_SNIPPET_BYTES])}"
