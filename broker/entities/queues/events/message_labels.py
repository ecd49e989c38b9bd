"""Properties of messages that the event log records with their publishes, so that a lost message can be named.

Off by default: reading them costs time, and identifiers of orders and customers in a log are for its owner to allow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from broker.entities.messages.message import Message
from broker.wire.field_tables import fields_named

IN_HEADERS = "headers."
"""Prefix of a name that stands for a header."""
_FLAGS_AT, _LIST_AT = 12, 14
"""Offsets in a content header: of the flags of its properties, and of the first one."""
_TABLE = 2
_FIXED_BYTES = {3: 1, 4: 1, 9: 8}
"""Bytes of the properties that are no texts: delivery mode, priority, timestamp."""
_TEXTS = {5: "correlation_id", 8: "message_id", 10: "type", 12: "app_id"}
"""Texts that may be recorded, by their places in the list."""
NAMES = tuple(_TEXTS.values())

Value = bytes | None


class RecordedProperties(NamedTuple):
    """The chosen properties of some messages: their names once, the values one message after another."""

    names: list[bytes]
    values: list[Value]


class MessageLabels:
    """Reads chosen properties, by the names of NAMES or as `headers.NAME`; values are cut at `bytes_max` bytes."""

    def __init__(self, chosen: Sequence[str], bytes_max: int) -> None:
        self._names = [name.encode() for name in chosen]
        self._places = {name: at for at, name in enumerate(chosen)}
        self._headers = {
            name.removeprefix(IN_HEADERS).encode(): at
            for name, at in self._places.items()
            if name.startswith(IN_HEADERS)
        }
        self._end = max((1 + index for index, name in _TEXTS.items() if name in self._places), default=_TABLE + 1)
        self._bytes_max = bytes_max
        self._latest = b""
        self._found: list[Value] = []

    def of(self, messages: Sequence[Message]) -> RecordedProperties:
        """Return the properties of messages; None for those that are not set."""
        values: list[Value] = []
        for message in messages:
            if message.header != self._latest:
                self._found, self._latest = self._read(message.header), message.header
            values += self._found
        return RecordedProperties(self._names, values)

    def _read(self, header: bytes) -> list[Value]:
        """Read a content header, which was validated at its publish."""
        found: list[Value] = [None] * len(self._names)
        flags, at = header[_FLAGS_AT] << 8 | header[_FLAGS_AT + 1], _LIST_AT
        for index in range(self._end):
            if not flags & 0x8000 >> index:
                continue
            if index == _TABLE:
                if self._headers:
                    self._read_table(header, at, found)
                at += 4 + int.from_bytes(header[at : at + 4], "big")
            elif index in _FIXED_BYTES:
                at += _FIXED_BYTES[index]
            else:
                end = at + 1 + header[at]
                place = self._places.get(_TEXTS.get(index, ""))
                if place is not None:
                    found[place] = header[at + 1 : min(end, at + 1 + self._bytes_max)]
                at = end
        return found

    def _read_table(self, header: bytes, at: int, found: list[Value]) -> None:
        for name, field in fields_named(header, at, self._headers).items():
            value = field.value
            if isinstance(value, int | float):
                value = str(value).encode()
            if isinstance(value, bytes):
                found[self._headers[name]] = value[: self._bytes_max]
