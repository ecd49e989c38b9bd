"""Frames and the words for broken ones. The reply texts were recorded from RabbitMQ 3.10.8 on the wire."""

from __future__ import annotations

import pytest

from broker.wire.amqp_errors import reply_text
from broker.wire.frames import HEARTBEAT, cannot_decode, method_frame, render_octets
from broker.wire.methods import BasicAck


def test_known_bytes() -> None:
    """0-9-1 specification, 2.3.5."""
    assert HEARTBEAT == b"\x08\x00\x00\x00\x00\x00\x00\xce"
    assert method_frame(258, BasicAck(1, False)) == (
        b"\x01\x01\x02\x00\x00\x00\x0d\x00\x3c\x00\x50\x00\x00\x00\x00\x00\x00\x00\x01\x00\xce"
    )


def test_of_arguments_as_long_as_a_frame_no_more_is_written_than_anybody_reads() -> None:
    error = cannot_decode(b"\x00\x32\x00\x0a" + bytes(131_000))
    assert len(error.text) < 1000
    assert reply_text(error.code, error.text) == f"FRAME_ERROR - cannot decode <<{'0,' * 111}..."


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (b"", b"<<>>"),
        (b"abc", b'<<"abc">>'),
        (b"a\x00", b"<<97,0>>"),
        (b"a\x7f", b"<<97,127>>"),
        (b'ab"\\\n\r\t\x1b\x08\x0c\x0b\xe9', b'<<"ab\\"\\\\\\n\\r\\t\\e\\b\\f\\v\xe9">>'),
        (b"a\xa0\xff", b'<<"a\xa0\xff">>'),
    ],
)
def test_octets_look_as_erlang_prints_them(raw: bytes, shown: bytes) -> None:
    """io_lib:format("~p") of Erlang/OTP, asked with these very bytes."""
    assert render_octets(raw).encode("utf-8", "surrogateescape") == shown
