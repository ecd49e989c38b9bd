"""Floating-point numbers in header tables, which pika cuts to whole numbers when it reads and cannot write.

pika (1.4.4; its issue 599 is of 2015) turns a header of 1.5 into 1 without a word, and raises for a float that is to
be sent. Everything else of it serves us well, so the two functions through which it reads and writes a value are
wrapped, in this process, and only as long as they are wrong. docs/decisions has the comparison with another library.
"""

from __future__ import annotations

import struct
from typing import Any

from pika import data

FORMATS = {b"d": ">d", b"f": ">f"}
_read = data.decode_value
_write = data.encode_value


def _decode(encoded: bytes, offset: int) -> Any:
    layout = FORMATS.get(encoded[offset : offset + 1])
    if layout is None:
        return _read(encoded, offset)
    return struct.unpack_from(layout, encoded, offset + 1)[0], offset + 1 + struct.calcsize(layout)


def _encode(pieces: list[bytes], value: Any) -> Any:
    if not isinstance(value, float):
        return _write(pieces, value)
    pieces.append(b"d" + struct.pack(">d", value))
    return 9


def mend() -> None:
    """Make pika read and write floating-point numbers, unless this pika does."""
    if _read(b"d" + struct.pack(">d", 1.5), 0)[0] != 1.5:
        data.decode_value = _decode
        data.encode_value = _encode
