"""Frames of basic.deliver, basic.get-ok and basic.return with their content.

Written by hand because every delivery passes here. Exchange, routing key and content header are passed on as the
bytes that the publisher sent.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from broker.entities.messages.message import Message, QueuedMessage
from broker.wire.constants import FRAME_BODY, FRAME_HEADER, FRAME_METHOD, ReplyCode
from broker.wire.frames import END, FRAME_OVERHEAD, FRAME_START, Piece, content_pieces, frame

_FRAME: Final = FRAME_START.pack
_TAG: Final = struct.Struct(">QB").pack
_TAG_BYTES: Final = 9
"""Size of a delivery tag and the octet with the redelivered bit."""
_LAST_OCTETS: Final = [bytes((octet,)) for octet in range(256)]
"""All octets by their value, for the last one of a delivery tag."""
_BITS: Final = (b"\x00", b"\x01")
"""The redelivered bit by its value."""
_DELIVER: Final = struct.pack(">HH", 60, 60)
_GET_OK: Final = struct.pack(">HH", 60, 71)
_RETURN: Final = struct.pack(">HHH", 60, 50, ReplyCode.NO_ROUTE) + b"\x08NO_ROUTE"
_COUNT: Final = struct.Struct(">I").pack


def deliver_prefix(consumer_tag: str) -> bytes:
    """Return the part of basic.deliver that is the same for all deliveries to a consumer."""
    tag = consumer_tag.encode("utf-8", "surrogateescape")
    return _DELIVER + bytes((len(tag),)) + tag


def deliver(channel: int, prefix: bytes, tag: int, redelivered: bool, message: Message, frame_max: int) -> list[Piece]:
    """Return the frames of one delivery, in pieces."""
    method = prefix + _TAG(tag, redelivered) + message.route
    content = content_pieces(channel, message.header, message.body, frame_max)
    return [frame(FRAME_METHOD, channel, method), *content]


def deliver_batch(
    channel: int, prefix: bytes, first: int, entries: Sequence[QueuedMessage], frame_max: int
) -> tuple[list[Piece], int, int]:
    """Return the frames of deliveries with consecutive tags, in pieces; their bytes; and how many are redelivered.

    A delivery is five pieces: `start` (the method up to the tag's last octet), that octet, `between` (the rest of the
    method, the header frame, the start of the body frame), the body, and the frame-end octet. `start` and `between` are
    built again only if they change. Bodies are not copied here but when the pieces of a turn are joined.
    """
    pieces: list[Piece] = []
    route_size = header_size = size = first_octets = -1
    last_route = last_header = method_start = start = header_start = body_start = between = b""
    last_redelivered, limit, total, again = False, frame_max - FRAME_OVERHEAD, 0, 0
    for number, entry in enumerate(entries):
        tag = first + number
        message = entry.message
        assert message is not None, "a queue hands over what it has loaded"
        route, header, body, redelivered = message.route, message.header, message.body, entry.redelivered
        if redelivered:
            again += 1
        if not 0 < len(body) <= limit:  # no body frame, or several: too rare to be quick
            large = deliver(channel, prefix, tag, redelivered, message, frame_max)
            pieces += large
            total += sum(map(len, large))
            continue
        if (
            (header is not last_header and header != last_header)
            or (route is not last_route and route != last_route)
            or len(body) != size
            or redelivered != last_redelivered
        ):
            # Each part depends on one length, so that messages of one size with different keys build one part only.
            if len(route) != route_size:
                route_size = len(route)
                method_start = _FRAME(FRAME_METHOD, channel, len(prefix) + _TAG_BYTES + route_size) + prefix
                first_octets = -1
            if len(header) != header_size:
                header_size = len(header)
                header_start = END + _FRAME(FRAME_HEADER, channel, header_size)
            if len(body) != size:
                size = len(body)
                body_start = END + _FRAME(FRAME_BODY, channel, size)
            last_header, last_route, last_redelivered = header, route, redelivered
            between = b"".join((_BITS[redelivered], route, header_start, header, body_start))
        if tag >> 8 != first_octets:  # the start changes with every 256th tag
            first_octets = tag >> 8
            start = method_start + first_octets.to_bytes(7, "big")
        pieces += (start, _LAST_OCTETS[tag & 0xFF], between, body, END)
        total += len(start) + len(between) + size + 2
    return pieces, total, again


def get_ok(channel: int, tag: int, redelivered: bool, remaining: int, message: Message, frame_max: int) -> bytes:
    """Return the frames of basic.get-ok; `remaining` is the number of ready messages left."""
    method = _GET_OK + _TAG(tag, redelivered) + message.route + _COUNT(remaining)
    return _with_content(channel, method, message, frame_max)


def returned(channel: int, message: Message, frame_max: int) -> bytes:
    """Return the frames of basic.return 312 NO_ROUTE."""
    return _with_content(channel, _RETURN + message.route, message, frame_max)


def _with_content(channel: int, method: bytes, message: Message, frame_max: int) -> bytes:
    """Return the frames of a method and its message; they are joined once, because bodies may be large."""
    content = content_pieces(channel, message.header, message.body, frame_max)
    return b"".join((frame(FRAME_METHOD, channel, method), *content))
