"""Content headers: class, body size, and the property list of the basic class.

Layout (0-9-1 specification, 2.3.5.2): class id (2), weight (2), body size (8), flags (2), then the properties whose
flag is set, in order. The highest flag belongs to the first property; the lowest would continue the flags in another
word and is refused, the next one belongs to none of the fourteen properties and is ignored, as RabbitMQ does.

A broker passes properties through as bytes. `summarize` is what it runs for each publish: it walks the list once,
checks all of it, and keeps only what routing and limits ask for. Bounded caches stand before it. One goes by the exact
bytes of the list. Since a unique message id defeats that one, there is another of *shapes*: a list that was walked, and
where in it the correlation id, the message id and the timestamp lie. Another list that differs from it in nothing else
is as sound as it is, and says the same to a broker. Of header tables only the last that was found sound is remembered:
walking another one costs as much as looking it up.
"""

from __future__ import annotations

import struct
from typing import Any, Final, NamedTuple

from broker.wire.amqp_errors import DecodeError
from broker.wire.field_tables import Table, decode_table, encode_table, skim_table

BASIC_CLASS_ID: Final = 60
REPLY_TO: Final = "amq.rabbitmq.reply-to"
"""RabbitMQ's extension: the name a client gives as reply-to and consumes from, without there being such a queue."""
PERSISTENT: Final = 2
"""The delivery mode that asks for a message to outlive the broker."""

CACHED_BYTES_MAX: Final = 1024
CACHE_ENTRIES_MAX: Final = 4096
_MISSED_MAX: Final = 8
"""After so many lists of a length that were others, the last of them is the one to expect."""

HEADER_START: Final = struct.Struct(">HHQ")
"""Class id, weight (always 0), body size in bytes."""
_FLAGS: Final = struct.Struct(">H")
_TIMESTAMP: Final = struct.Struct(">Q")
_DIGITS_MAX: Final = 9
"""Expirations with more digits are looked at more closely."""


class BasicProperties(NamedTuple):
    """The properties of a message; None where the publisher set none. timestamp is in seconds since the epoch."""

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
    """What the broker itself needs to know of a property list. The rest stays bytes.

    `headers` are the header table with its length prefix, its structure sound. `milliseconds` is the expiration, if it
    is a number as publishers write it. `ordinary`: the message goes where its key leads, and what it says of its
    expiration is plain; there is nothing else to look at.
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
        """`obeyed`: the broker has to read the headers."""
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

    @property
    def expiration(self) -> str | None:
        """The expiration as it is written."""
        return None if self._expiration is None else _text(self._expiration)


_HEADERS, _DELIVERY_MODE, _PRIORITY, _TIMESTAMP_INDEX = 2, 3, 4, 9
_REPLY_TO, _EXPIRATION, _USER_ID = 6, 7, 11
_PROPERTY_COUNT: Final = len(BasicProperties._fields)
_CONTINUED: Final = 0x0001


def body_size(header_payload: bytes) -> int:
    """Return the announced size of the body in bytes. Raises DecodeError when the header is cut short."""
    if len(header_payload) < HEADER_START.size + _FLAGS.size:
        raise DecodeError("content header cut short")
    return int(HEADER_START.unpack_from(header_payload)[2])


def decode_properties(header_payload: bytes) -> BasicProperties:
    """Read every property of a whole content header. Raises DecodeError unless the list is sound to its last byte."""
    try:
        values, offset = _read_properties(header_payload)
    except (IndexError, struct.error) as error:
        raise DecodeError("broken property list") from error
    if offset != len(header_payload):
        raise DecodeError("wrong length of the property list")
    return BasicProperties(*values)


def _read_properties(data: bytes) -> tuple[list[Any], int]:
    flags, offset = _FLAGS.unpack_from(data, HEADER_START.size)[0], HEADER_START.size + _FLAGS.size
    if flags & _CONTINUED:
        raise DecodeError("property flags continue in a second word")
    values: list[Any] = []
    for index in range(_PROPERTY_COUNT):
        if not flags & 0x8000 >> index:
            values.append(None)
        elif index == _HEADERS:
            table, offset = decode_table(data, offset)
            values.append(table)
        elif index in (_DELIVERY_MODE, _PRIORITY):
            values.append(data[offset])
            offset += 1
        elif index == _TIMESTAMP_INDEX:
            values.append(_TIMESTAMP.unpack_from(data, offset)[0])
            offset += _TIMESTAMP.size
        else:
            end = offset + 1 + data[offset]
            values.append(data[offset + 1 : end].decode("utf-8", "surrogateescape"))
            offset = end
    return values, offset


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
    """A property list that was walked, without what changes from message to message.

    Four parts of a content header are compared: what lies before the correlation id, between the two ids, and behind
    the timestamp; empty where there is none of these.
    """

    __slots__ = ("between", "between_end", "between_start", "end", "missed", "rest", "start", "start_end", "summary")

    def __init__(self, payload: bytes, marks: tuple[int, int, int, int], summary: PropertySummary) -> None:
        self.start_end, self.between_start, self.between_end, self.end = marks
        self.start = payload[_LIST : self.start_end]
        self.between = payload[self.between_start : self.between_end]
        self.rest = payload[self.end :]
        self.summary = summary
        self.missed = 0
        """How many lists were as long, and others."""

    def fits(self, payload: bytes) -> bool:
        """A header of the same length differs in nothing but ids and timestamp."""
        return (
            payload[_LIST : self.start_end] == self.start
            and payload[self.between_start : self.between_end] == self.between
            and payload[self.end :] == self.rest
        )


_LIST: Final = HEADER_START.size

_shapes: Final[dict[int, _Shape]] = {}
"""By the length of the whole header: as many as there are lengths to remember."""
_summaries: Final[dict[bytes, PropertySummary]] = {}


class _SoundTable:
    """The header table that was found sound last, and whether the broker has to read it."""

    __slots__ = ("data", "obeyed")

    def __init__(self) -> None:
        self.data = b""
        self.obeyed = False


_sound_table: Final = _SoundTable()


def summarize(header_payload: bytes) -> PropertySummary:
    """Check a whole content header and return what the broker needs of it.

    Raises DecodeError when any property is broken: a message that no consumer could read must fail its publisher.
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
    """Walk flags and properties of a header, string by string; and where the ids and the timestamp lie.

    Straight on rather than by a table of kinds: this runs for each message whose properties are new.
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
    """The number that an expiration nearly always is; None for text that has to be looked at more closely."""
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
