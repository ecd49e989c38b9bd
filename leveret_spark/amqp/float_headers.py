"""pika's connections with floating-point numbers in header tables, which pika cuts to whole ones and cannot send.

pika (1.4.4; its issue 599 is of 2015) turns a header of 1.5 into 1 without a word, and raises for a float that is to
be sent. Everything else of it serves us well. So our properties use a copy of pika's codec of tables in which the two
functions for values are right, and our connections decode content headers into such properties. For all others in the
process pika is as it was. docs/decisions/0024 has the comparison with another library.
"""

from __future__ import annotations

import importlib.util
import struct
from collections.abc import Callable, Sequence
from types import FunctionType, ModuleType
from typing import Any

import pika
from pika import SelectConnection, data, spec
from pika.frame import Header, decode_frame

UNLIKE = f"pika {pika.__version__} is not like those that leveret_spark knows; take pika>=1.3,<2 from PyPI"
FORMATS = {b"d": ">d", b"f": ">f"}
CONTENT_HEADER = bytes([spec.FRAME_HEADER])
FRAME_HEAD = struct.Struct(">BHL")
CONTENT_HEAD = struct.Struct(">HHQ")


def _copy_of_codec() -> ModuleType:
    """The module `pika.data` once more, whose values may be floating-point numbers."""
    found = importlib.util.find_spec(data.__name__)
    if found is None or found.loader is None:
        raise ImportError(f"{data.__name__} cannot be loaded a second time: {UNLIKE}")
    codec = importlib.util.module_from_spec(found)
    found.loader.exec_module(codec)
    read, write = codec.decode_value, codec.encode_value

    def decode_value(encoded: bytes, offset: int) -> tuple[Any, int]:
        layout = FORMATS.get(encoded[offset : offset + 1])
        if layout is None:
            return read(encoded, offset)  # type: ignore[no-any-return]
        return struct.unpack_from(layout, encoded, offset + 1)[0], offset + 1 + struct.calcsize(layout)

    def encode_value(pieces: list[bytes], value: Any) -> int:
        if not isinstance(value, float):
            return write(pieces, value)  # type: ignore[no-any-return]
        pieces.append(b"d" + struct.pack(">d", value))
        return 9

    vars(codec).update(decode_value=decode_value, encode_value=encode_value)
    return codec


CODEC = _copy_of_codec()


def _with_codec(function: Callable[..., Any]) -> Any:
    """A function of pika's module `spec` that reads and writes tables with our codec."""
    if not isinstance(function, FunctionType):
        raise ImportError(f"{spec.__name__}.BasicProperties is not written in Python: {UNLIKE}")
    return FunctionType(function.__code__, {**vars(spec), "data": CODEC}, function.__name__, function.__defaults__)


class Properties(spec.BasicProperties):  # type: ignore[misc]
    """The properties of a message, floating-point numbers in its headers included."""

    decode = _with_codec(spec.BasicProperties.decode)
    encode = _with_codec(spec.BasicProperties.encode)


class Connection(SelectConnection):  # type: ignore[misc]
    """A connection whose messages have such properties."""

    def _read_frame(self) -> Any:
        """A content header by our codec, every other frame by pika."""
        buffer = self._frame_buffer
        if buffer[:1] != CONTENT_HEADER or len(buffer) < FRAME_HEAD.size:
            return decode_frame(buffer)
        _, channel, size = FRAME_HEAD.unpack_from(buffer)
        end = FRAME_HEAD.size + size
        if len(buffer) <= end or buffer[end] != spec.FRAME_END:
            return decode_frame(buffer)
        _, _, body_size = CONTENT_HEAD.unpack_from(buffer, FRAME_HEAD.size)
        properties = Properties()
        properties.decode(buffer[FRAME_HEAD.size + CONTENT_HEAD.size : end])
        return end + 1, Header(channel, body_size, properties)


def blocking(
    parameters: pika.ConnectionParameters | Sequence[pika.ConnectionParameters],
) -> pika.BlockingConnection:
    """pika's connection for callers that wait, with such messages."""
    return pika.BlockingConnection(parameters, _impl_class=Connection)
