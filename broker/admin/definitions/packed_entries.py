"""Entries of a definitions file, kept in their JSON: as Python objects, a file of 16 MiB takes up to 200 MiB."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

import msgspec

from broker.admin.kinds.definition_entry import DefinitionEntry

Entry = TypeVar("Entry", bound=DefinitionEntry)

TOGETHER = 16
"""Entries that are packed, and decoded, at once: 2 ms where each has as many values as it may."""


class PackedEntries(Generic[Entry]):
    """The entries of one list of a file, of the type `kind`. Each iteration decodes them again."""

    def __init__(self, kind: type[Entry], entries: Iterable[Entry] = ()) -> None:
        self._kind = kind
        self._decoder = msgspec.json.Decoder(list[kind])  # type: ignore[valid-type]
        self._parts: list[bytes | str] = []
        self._last: list[Entry] = []
        for entry in entries:
            self.append(entry)

    def append(self, entry: Entry) -> None:
        """Add an entry at the end."""
        self._last.append(entry)
        if len(self._last) == TOGETHER:
            self._parts.append(_packed(self._last))
            self._last = []

    def __bool__(self) -> bool:
        return bool(self._parts or self._last)

    def __iter__(self) -> Iterator[Entry]:
        for part in self._parts:
            yield from self._unpacked(part)
        yield from self._last

    def in_json(self) -> Iterator[bytes]:
        """Yield the entries in JSON, some at a time, with commas between them."""
        parts = (*self._parts, _packed(self._last)) if self._last else self._parts
        for number, part in enumerate(parts):
            inside = part[1:-1] if isinstance(part, bytes) else part[1:-1].encode("ascii")
            yield b"," * bool(number) + inside

    def _unpacked(self, part: bytes | str) -> list[Entry]:
        if isinstance(part, bytes):
            return self._decoder.decode(part)
        return msgspec.convert(json.loads(part), list[self._kind])  # type: ignore[name-defined]


def _packed(entries: list[Entry]) -> bytes | str:
    """Return entries as a JSON array; a text of ASCII characters where a name is not UTF-8."""
    try:
        return msgspec.json.encode(entries)
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(entries))
