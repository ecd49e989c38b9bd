"""Target `wire`: whatever the decoders are given, they say DecodeError or give a value that can be written again."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from broker.wire.amqp_errors import ConnectionException, DecodeError
from broker.wire.assembler import Assembler
from broker.wire.constants import FRAME_METHOD
from broker.wire.field_tables import SoundTable, Table, decode_table, encode_table, skim_table, to_python
from broker.wire.frames import content_frames, frame
from broker.wire.methods import DECODERS, BasicPublish
from broker.wire.properties import HEADER_START, decode_properties, encode_header, summarize
from harness.clients.amqp_peer import Frame, FrameReader
from tests.security.fuzz.choices import Choices, once_in, pick
from tests.security.fuzz.grammar import ALL_METHODS, HEADERS, method_of, properties, table

_KEYS = tuple(DECODERS)


def tables(choices: Choices) -> None:
    """A table is read and skimmed to the same place, or refused by both; asked field by field it is the same.

    A table read can be written again.
    """
    wire = _bent(choices, encode_table(table(choices, HEADERS))) if choices.number(0, 1) else choices.data(600)
    _check_table(wire)
    _check_table(struct.pack(">I", len(wire)) + wire)


def _check_table(wire: bytes) -> None:
    decoded, skimmed = _outcome(decode_table, wire), _outcome(skim_table, wire)
    assert (decoded is None) == (skimmed is None), f"reading and skimming differ over {wire!r}"
    if decoded is not None and skimmed is not None:
        read, end = decoded
        assert end == skimmed[0] <= len(wire)
        assert skimmed[1] >= bool(read.keys() & {"CC", "BCC", "x-death"}), f"a name in {wire!r} is not told of"
        to_python(read)
        asked = {name: SoundTable(wire[:end]).get(name) for name in read}
        assert repr(asked) == repr(read), f"{wire!r} is another table when its fields are asked for"
        assert SoundTable(wire[:end]).get("no such field" * 30) is None
        assert _same_again(read), f"{wire!r} comes back as another table"


def _same_again(read: Table) -> bool:
    written = encode_table(read)
    again, end = decode_table(written)
    return end == len(written) and encode_table(again) == written


def headers(choices: Choices) -> None:
    """A content header is sound to the summary exactly if every property of it can be read."""
    payload = encode_header(choices.number(0, 99), properties(choices))
    if choices.number(0, 1):
        payload = _bent(choices, payload)
    elif once_in(choices, 2):
        payload = payload[: HEADER_START.size] + choices.data(300)
    if len(payload) < HEADER_START.size + 2:
        return  # the assembler has refused it
    summary, read = _outcome(summarize, payload), _outcome(decode_properties, payload)
    assert (summary is None) == (read is None), f"summary and properties differ over {payload!r}"
    if summary is None or read is None:
        return
    assert (summary.persistent, summary.priority) == (read.delivery_mode == 2, read.priority)
    assert (summary.expiration, summary.reply_to) == (read.expiration, read.reply_to)
    assert (summary.user_id, summary.delivery_mode) == (read.user_id, read.delivery_mode)
    assert (summary.headers is None) == (read.headers is None)
    written = encode_header(5, read)
    assert encode_header(5, decode_properties(written)) == written


def methods(choices: Choices) -> None:
    """A method is decoded to what can be encoded again, or refused."""
    if choices.number(0, 1):
        payload = _bent(choices, method_of(choices, pick(choices, ALL_METHODS)).encode())
    else:
        payload = pick(choices, _KEYS).to_bytes(4, "big") + choices.data(400)
    decode = DECODERS.get(int.from_bytes(payload[:4], "big"))
    method = None if decode is None else _outcome(decode, payload)
    if method is not None:
        repr(method)
        written = method.encode()
        assert len(written) <= len(payload) or method.KEY == BasicPublish.KEY
        assert DECODERS[method.KEY](written).encode() == written


def frames(choices: Choices) -> None:
    """Frames cut anywhere are put together again; what they hold is a command, or a breach that has a name."""
    wire = b"".join(_frames_of(choices) for _ in range(choices.number(1, 6)))
    reader, cut = FrameReader(), choices.number(1, 64)
    found = [each for at in range(0, len(wire), cut) for each in reader.feed(wire[at : at + cut])]
    assert found == FrameReader().feed(wire)
    assembler = Assembler(1 << 20)
    for each in found:
        try:
            _assemble(assembler, each)
        except (ConnectionException, DecodeError):
            return


def _frames_of(choices: Choices) -> bytes:
    if choices.number(0, 1):
        return frame(choices.number(0, 9), choices.number(0, 2), choices.data(80))
    body = choices.data(200)
    header = encode_header(len(body) + pick(choices, (0, 0, 1, -1)) % (len(body) + 2), properties(choices))
    start = frame(FRAME_METHOD, 1, BasicPublish("", "q", False, False).encode())
    return start + content_frames(1, header, body, choices.number(9, 300))


def _assemble(assembler: Assembler, each: Frame) -> None:
    if each.kind == 1:
        decode = DECODERS.get(int.from_bytes(each.payload[:4], "big"))
        command = None if decode is None else assembler.method(decode(each.payload), each.payload[4:])
    elif each.kind == 2:
        command = assembler.header(each.payload)
    else:
        command = assembler.body(each.payload)
    if command is not None and command.header_payload is not None:
        assert HEADER_START.unpack_from(command.header_payload)[2] == len(command.body)


def _bent(choices: Choices, wire: bytes) -> bytes:
    """The same bytes, or some of them others, or some missing, or some too many."""
    bent = bytearray(wire)
    for _ in range(choices.number(0, 3)):
        at = choices.number(0, max(0, len(bent) - 1))
        how = choices.number(0, 3)
        if how == 0 and bent:
            bent[at] = choices.number(0, 255)
        elif how == 1:
            del bent[at:]
        elif how == 2:
            bent[at:at] = choices.data(20)
        elif len(bent) >= at + 4:
            bent[at : at + 4] = pick(choices, (b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x00\x00\x00\x00"))
    return bytes(bent)


def _outcome(read: Callable[[bytes], Any], wire: bytes) -> Any:
    try:
        return read(wire)
    except DecodeError:
        return None


@contextmanager
def opened() -> Iterator[Callable[[Choices], None]]:
    """The target, ready for inputs."""
    kinds = (tables, headers, methods, frames)
    yield lambda choices: pick(choices, kinds)(choices)
