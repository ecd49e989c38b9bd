"""Content headers: class, body size, and the property list of the basic class.

Layout (0-9-1 specification, 2.3.5.2): class id (2), weight (2), body size (8), flags (2), then the properties whose
flag is set, in order. The highest flag belongs to the first property; the lowest would continue the flags in another
word and is refused, the next one belongs to none of the fourteen properties and is ignored, as RabbitMQ does.

A broker passes properties through as bytes. `summarize` runs for each publish: it validates the list in one pass and
keeps only what routing and limits need. Bounded caches avoid most passes. One has summaries by the exact bytes of the
list. A unique message id defeats that one, so another has *shapes*: a validated list, and the offsets of its
correlation id, message id and timestamp. A list that differs only in those is valid too and has the same summary. Of
header tables only the last valid one is cached: validating another one costs as much as looking it up.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from broker.wire.amqp_errors import DecodeError
from broker.wire.field_tables import Table, decode_table, encode_table, skim_table

BASIC_CLASS_ID: Final = 60
REPLY_TO: Final = "amq.rabbitmq.reply-to"
"""The pseudo-queue of RabbitMQ's direct reply-to, which a client names as reply-to and consumes from."""
PERSISTENT: Final = 2
"""The delivery mode of persistent messages."""

CACHED_BYTES_MAX: Final = 1024
CACHE_ENTRIES_MAX: Final = 4096
_MISSED_MAX: Final = 8
"""Misses of a shape after which the latest list of the same length replaces it."""

HEADER_START: Final = struct.Struct(">HHQ")
"""Class id, weight (always 0), body size in bytes."""
_FLAGS: Final = struct.Struct(">H")
_TIMESTAMP: Final = struct.Struct(">Q")
_DIGITS_MAX: Final = 9
"""Expirations with more digits are not ordinary: the general path parses them."""


class BasicProperties(NamedTuple):
    """The properties of a message, None for those not set. timestamp is in seconds since the epoch."""

    content_type: str | None = None
    content_encoding: str | None = None
    headers: Table | None = None
    delivery_mode: int | None = None
    priority: int | None = None
    correlation_id: str | None = None
    reply_to: str | None = None
    expiration: str | None = None
    message_id: str | None = None
    timestamp: int | None = None
    type: str | None = None
    user_id: str | None = None
    app_id: str | None = None
    cluster_id: str | None = None


class PropertySummary:
    """The part of a property list that the broker itself uses. The rest stays bytes.

    `headers`: the validated header table with its length prefix. `milliseconds`: the expiration, if it is a plain
    decimal number. `ordinary`: no property needs the general path of publishing (delivery modes other than 1 and 2,
    unusual expirations, user-id, CC, BCC, x-death, direct reply-to).
    """

    __slots__ = (
        "_expiration",
        "delivery_mode",
        "headers",
        "milliseconds",
        "ordinary",
        "persistent",
        "priority",
        "reply_to",
        "user_id",
    )

    def __init__(
        self,
        delivery_mode: int | None,
        priority: int | None,
        expiration: bytes | None,
        reply_to: str | None,
        user_id: str | None,
        headers: bytes | None,
        *,
        obeyed: bool,
    ) -> None:
        """`obeyed`: the headers have CC, BCC or x-death, which the broker acts on."""
        self.persistent = delivery_mode == PERSISTENT
        self.delivery_mode = delivery_mode
        self.priority = priority
        self._expiration = expiration
        self.milliseconds = None if expiration is None else _plain_number(expiration)
        self.reply_to = reply_to
        self.user_id = user_id
        self.headers = headers
        self.ordinary = (
            (self.persistent or delivery_mode is None or delivery_mode == 1)
            and (expiration is None or self.milliseconds is not None)
            and user_id is None
            and not obeyed
            and reply_to != REPLY_TO
        )

    def acted_on(self) -> PropertySummary:
        """Return a copy that is not ordinary: the broker changes the properties of the message."""
        found = self.delivery_mode, self.priority, self._expiration, self.reply_to, self.user_id, self.headers
        return PropertySummary(*found, obeyed=True)

    @property
    def expiration(self) -> str | None:
        """The expiration as the publisher wrote it."""
        return None if self._expiration is None else _text(self._expiration)


_HEADERS, _DELIVERY_MODE, _PRIORITY, _TIMESTAMP_INDEX = 2, 3, 4, 9
_REPLY_TO, _EXPIRATION, _USER_ID = 6, 7, 11
_FIXED_BYTES: Final = {_DELIVERY_MODE: 1, _PRIORITY: 1, _TIMESTAMP_INDEX: 8}
"""Bytes of the properties that are numbers."""
_PROPERTY_COUNT: Final = len(BasicProperties._fields)
_CONTINUED: Final = 0x0001


def body_size(header_payload: bytes) -> int:
    """Return the announced size of the body in bytes. Raises DecodeError when the header is cut short."""
    if len(header_payload) < HEADER_START.size + _FLAGS.size:
        raise DecodeError("content header cut short")
    return int(HEADER_START.unpack_from(header_payload)[2])


def decode_properties(header_payload: bytes) -> BasicProperties:
    """Return every property of a whole content header. Raises DecodeError unless all of it is valid."""
    values: list[Any] = [None] * _PROPERTY_COUNT
    last = HEADER_START.size + _FLAGS.size
    try:
        for index, start, end in property_places(header_payload):
            values[index], last = _value(header_payload, index, start, end), end
    except (IndexError, struct.error) as error:
        raise DecodeError("broken property list") from error
    if last != len(header_payload):
        raise DecodeError("wrong length of the property list")
    return BasicProperties(*values)


def property_places(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield the place of each property that is set in a content header: its index in BasicProperties, start and end.

    Texts and tables begin with their length. Raises IndexError, struct.error or DecodeError if the list is broken.
    """
    flags, start = _FLAGS.unpack_from(data, HEADER_START.size)[0], HEADER_START.size + _FLAGS.size
    if flags & _CONTINUED:
        raise DecodeError("property flags continue in a second word")
    for index in range(_PROPERTY_COUNT):
        if flags & 0x8000 >> index:
            if index == _HEADERS:
                end = start + 4 + int.from_bytes(data[start : start + 4], "big")
            else:
                end = start + (_FIXED_BYTES.get(index) or 1 + data[start])
            yield index, start, end
            start = end


def _value(data: bytes, index: int, start: int, end: int) -> Any:
    if index == _HEADERS:
        return decode_table(data, start)[0]
    if index == _TIMESTAMP_INDEX:
        return _TIMESTAMP.unpack_from(data, start)[0]
    return data[start] if index in _FIXED_BYTES else _text(data[start + 1 : end])


def encode_header(body_size: int, properties: BasicProperties = BasicProperties()) -> bytes:  # noqa: B008 (immutable)
    """Return the whole payload of a content header frame.

    Raises struct.error or ValueError when a value is out of range or a string longer than 255 bytes.
    """
    flags, parts = 0, []
    values: tuple[Any, ...] = properties
    for index, value in enumerate(values):
        if value is None:
            continue
        flags |= 0x8000 >> index
        if index == _HEADERS:
            parts.append(encode_table(value))
        elif index in (_DELIVERY_MODE, _PRIORITY):
            parts.append(bytes((value,)))
        elif index == _TIMESTAMP_INDEX:
            parts.append(_TIMESTAMP.pack(value))
        else:
            raw = value.encode("utf-8", "surrogateescape")
            parts.append(bytes((len(raw),)) + raw)
    return HEADER_START.pack(BASIC_CLASS_ID, 0, body_size) + _FLAGS.pack(flags) + b"".join(parts)


# --- the publish path ---


class _Shape:
    """A validated property list without its correlation id, message id and timestamp.

    Three parts of a content header are compared: before the correlation id, between the two ids, and behind the
    timestamp; without these properties the parts are empty.
    """

    __slots__ = ("between", "between_end", "between_start", "end", "missed", "rest", "start", "start_end", "summary")

    def __init__(self, payload: bytes, marks: tuple[int, int, int, int], summary: PropertySummary) -> None:
        self.start_end, self.between_start, self.between_end, self.end = marks
        self.start = payload[_LIST : self.start_end]
        self.between = payload[self.between_start : self.between_end]
        self.rest = payload[self.end :]
        self.summary = summary
        self.missed = 0
        """Lists of the same length that did not fit."""

    def fits(self, payload: bytes) -> bool:
        """Return whether a header of the same length differs only in ids and timestamp."""
        return (
            payload[_LIST : self.start_end] == self.start
            and payload[self.between_start : self.between_end] == self.between
            and payload[self.end :] == self.rest
        )


_LIST: Final = HEADER_START.size

_shapes: Final[dict[int, _Shape]] = {}
"""Shapes by the length of the whole header, which bounds their number."""
_summaries: Final[dict[bytes, PropertySummary]] = {}


class _SoundTable:
    """The last valid header table, and whether the broker has to read it."""

    __slots__ = ("data", "obeyed")

    def __init__(self) -> None:
        self.data = b""
        self.obeyed = False


_sound_table: Final = _SoundTable()


def summarize(header_payload: bytes) -> PropertySummary:
    """Validate a whole content header; return the part that the broker uses.

    Raises DecodeError if any property is invalid: a message that no consumer could read must fail at its publisher.
    """
    size = len(header_payload)
    if size >= _LIST + 2 and (header_payload[_LIST] & 0x04 or header_payload[_LIST + 1] & 0xC0):  # an id or a timestamp
        return _by_shape(header_payload, size)
    return _by_bytes(header_payload, size)


def _by_shape(payload: bytes, size: int) -> PropertySummary:
    shape = _shapes.get(size)
    if shape is not None:
        if shape.fits(payload):
            return shape.summary
        shape.missed += 1
    summary, marks = _walk(payload)
    if size <= CACHED_BYTES_MAX and (shape is None or shape.missed >= _MISSED_MAX):
        _shapes[size] = _Shape(payload, marks, summary)
    return summary


def _by_bytes(payload: bytes, size: int) -> PropertySummary:
    properties = payload[_LIST:]
    summary = _summaries.get(properties)
    if summary is None:
        summary = _walk(payload)[0]
        if size <= CACHED_BYTES_MAX:
            if len(_summaries) >= CACHE_ENTRIES_MAX:
                _summaries.clear()
            _summaries[properties] = summary
    return summary


def _walk(data: bytes) -> tuple[PropertySummary, tuple[int, int, int, int]]:
    try:
        return _walk_list(data)
    except (IndexError, struct.error) as error:
        raise DecodeError("broken property list") from error


def _walk_list(data: bytes) -> tuple[PropertySummary, tuple[int, int, int, int]]:
    """Validate flags and properties of a header; return its summary, and the offsets that a `_Shape` compares.

    Unrolled instead of driven by a table of types, because it runs for each message whose properties are not cached.
    """
    flags, offset = data[_LIST] << 8 | data[_LIST + 1], _LIST + 2
    if flags & _CONTINUED:
        raise DecodeError("property flags continue in a second word")
    headers = delivery_mode = priority = expiration = reply_to = user_id = None
    obeyed = False
    if flags & 0x8000:  # content-type
        offset += data[offset] + 1
    if flags & 0x4000:  # content-encoding
        offset += data[offset] + 1
    if flags & 0x2000:
        headers, offset, obeyed = _checked_table(data, offset)
    if flags & 0x1000:
        delivery_mode = data[offset]
        offset += 1
    if flags & 0x0800:
        priority = data[offset]
        offset += 1
    start_end = between_start = offset
    if flags & 0x0400:  # correlation-id
        start_end, between_start = offset + 1, offset + 1 + data[offset]
        offset = between_start
    if flags & 0x0200:
        reply_to, offset = _string(data, offset)
    if flags & 0x0100:
        between_end = offset + 1 + data[offset]
        expiration, offset = data[offset + 1 : between_end], between_end
    between_end = offset
    if flags & 0x0080:  # message-id
        between_end, offset = offset + 1, offset + 1 + data[offset]
    if flags & 0x0040:
        offset += _TIMESTAMP.size
    marks = start_end, between_start, between_end, offset
    if flags & 0x0020:  # type
        offset += data[offset] + 1
    if flags & 0x0010:
        user_id, offset = _string(data, offset)
    if flags & 0x0008:  # app-id
        offset += data[offset] + 1
    if flags & 0x0004:  # cluster-id
        offset += data[offset] + 1
    if offset != len(data):
        raise DecodeError("wrong length of the property list")
    return PropertySummary(delivery_mode, priority, expiration, reply_to, user_id, headers, obeyed=obeyed), marks


def _checked_table(data: bytes, offset: int) -> tuple[bytes, int, bool]:
    end = offset + 4 + (data[offset] << 24 | data[offset + 1] << 16 | data[offset + 2] << 8 | data[offset + 3])
    table = data[offset:end]
    sound = _sound_table
    if table == sound.data:
        return table, end, sound.obeyed
    obeyed = skim_table(data, offset)[1]
    if len(table) <= CACHED_BYTES_MAX:
        sound.data, sound.obeyed = table, obeyed
    return table, end, obeyed


def _string(data: bytes, offset: int) -> tuple[str, int]:
    end = offset + 1 + data[offset]
    return _text(data[offset + 1 : end]), end


def _plain_number(text: bytes) -> int | None:
    """Return an expiration of 1 to 9 digits as a number; None for any other text."""
    size, value = len(text), 0
    if not 0 < size <= _DIGITS_MAX:
        return None
    for at in range(size):
        digit = text[at] - 48
        if not 0 <= digit <= 9:
            return None
        value = value * 10 + digit
    return value


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")
