"""The exchanges, queues and bindings that an import has still to make: kept in the store until all of them are there.

JSON in the form of a definitions file, compressed: a file of 16 MiB has up to 350,000 entries.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from contextlib import aclosing

from broker.admin.definitions.definitions_file import DECLARED, DefinitionsFile, convert
from broker.admin.short_steps import in_steps

NAME = "unfinished_import"
"""The key of the store's metadata; its value is empty when no import is unfinished."""
_LEVEL = 1
_BEGINS_JSON = b"{"
"""The first byte of what releases before compression have written."""


async def packed(file: DefinitionsFile) -> bytes:
    """Return the entities of a file as they are kept, packed in short steps; empty where it has none."""
    if not any(getattr(file, kind) for kind in DECLARED):
        return b""
    packer = zlib.compressobj(_LEVEL)
    kept = bytearray()
    async with aclosing(in_steps(_pieces(file))) as pieces:
        async for piece in pieces:
            kept += packer.compress(piece)
    return bytes(kept + packer.flush())


def unpacked(kept: bytes) -> DefinitionsFile:
    """Return the entities that are still to be made. Raises AdministrationError if they are none of this version."""
    return convert(json.loads(kept if kept.startswith(_BEGINS_JSON) else zlib.decompress(kept)))


def _pieces(file: DefinitionsFile) -> Iterator[bytes]:
    yield b"{"
    for number, kind in enumerate(DECLARED):
        yield b'%b"%b":[' % (b"," if number else b"", kind.encode())
        yield from getattr(file, kind).in_json()
        yield b"]"
    yield b"}"
