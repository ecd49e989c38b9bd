"""Properties of messages that the event log records with their publishes, so that a lost message can be named.

Off by default: reading them costs time, and identifiers of orders and customers in a log are for its owner to allow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from broker.entities.messages.message import Message
from broker.wire.field_tables import fields_named
from broker.wire.properties import BasicProperties, property_places

IN_HEADERS = "headers."
"""Prefix of a name that stands for a header."""
NAMES = "correlation_id", "message_id", "type", "app_id"
"""Properties that may be recorded, all of them texts."""
_INDEXES = {name: index for index, name in enumerate(BasicProperties._fields)}
_TABLE = _INDEXES["headers"]

Value = bytes | None


class RecordedProperties(NamedTuple):
    """The chosen properties of some messages: their names once, the values one message after another."""

    names: list[bytes]
    values: list[Value]


class MessageLabels:
    """Reads chosen properties, by the names of NAMES or as `headers.NAME`; values are cut at `bytes_max` bytes."""

    def __init__(self, chosen: Sequence[str], bytes_max: int) -> None:
        self._names = [name.encode() for name in chosen]
        places = {name: at for at, name in enumerate(chosen)}
        self._headers = {
            name.removeprefix(IN_HEADERS).encode(): at for name, at in places.items() if name.startswith(IN_HEADERS)
        }
        self._texts = {_INDEXES[name]: at for name, at in places.items() if name in NAMES}
        self._last = max(self._texts, default=_TABLE)
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
        for index, start, end in property_places(header):
            if index > self._last:
                break
            if index == _TABLE:
                if self._headers:
                    self._read_table(header, start, found)
            elif (place := self._texts.get(index)) is not None:
                found[place] = header[start + 1 : min(end, start + 1 + self._bytes_max)]
        return found

    def _read_table(self, header: bytes, at: int, found: list[Value]) -> None:
        for name, field in fields_named(header, at, self._headers).items():
            value = field.value
            if isinstance(value, int | float):
                value = str(value).encode()
            if isinstance(value, bytes):
                found[self._headers[name]] = value[: self._bytes_max]
