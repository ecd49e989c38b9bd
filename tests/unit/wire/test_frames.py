"""Frames and the words for broken ones. The reply texts were recorded from RabbitMQ 3.10.8 on the wire."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.wire.amqp_errors import ConnectionException, reply_text
from broker.wire.constants import FRAME_BODY, FRAME_HEADER, FRAME_METHOD, ReplyCode
from broker.wire.frames import (
    HEARTBEAT,
    bad_frame_end,
    cannot_decode,
    content_frames,
    frame_too_large,
    method_frame,
    render_octets,
    unexpected_frame,
    unknown_frame,
)
from broker.wire.methods import BasicAck, ChannelOpen
from broker.wire.properties import encode_header
from harness.clients.amqp_peer import Frame, FrameReader


def test_known_bytes() -> None:
    """0-9-1 specification, 2.3.5."""
    assert HEARTBEAT == b"\x08\x00\x00\x00\x00\x00\x00\xce"
    assert method_frame(258, BasicAck(1, False)) == (
        b"\x01\x01\x02\x00\x00\x00\x0d\x00\x3c\x00\x50\x00\x00\x00\x00\x00\x00\x00\x01\x00\xce"
    )


@given(st.binary(max_size=100), st.integers(9, 60))
def test_a_body_is_split_at_the_negotiated_size(body: bytes, frame_max: int) -> None:
    header = encode_header(len(body))
    frames = FrameReader().feed(content_frames(3, header, body, frame_max))
    assert frames[0] == Frame(FRAME_HEADER, 3, header)
    assert all(item[:2] == (FRAME_BODY, 3) and 0 < len(item.payload) <= frame_max - 8 for item in frames[1:])
    assert b"".join(item.payload for item in frames[1:]) == body
    assert len(frames) == 1 + -(-len(body) // (frame_max - 8))


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (bad_frame_end(1, b"\x00\x14\x00\x0a", 0), "type 1, all octets = <<0,20,0,10>>: {invalid_frame_end_marker,0}"),
        (unknown_frame(9, b"a"), 'type 9, all octets = <<"a">>: unknown_frame'),
        (frame_too_large(3, 1048576, 131072), "type 3, all octets = <<>>: {frame_too_large,1048576,131064}"),
        (unknown_frame(9, b"abcdefghijklmnopq"), 'type 9, first 16 octets = <<"abcdefghijklmnop">>: unknown_frame'),
    ],
)
def test_broken_frames(error: ConnectionException, text: str) -> None:
    assert (error.code, error.text) == (ReplyCode.FRAME_ERROR, text)


def test_undecodable_arguments_are_shown_as_numbers() -> None:
    error = cannot_decode(b"\x00\x32\x00\x0a\x00a")
    assert (error.code, error.text) == (ReplyCode.FRAME_ERROR, "cannot decode <<0,97>>")
    assert (error.class_id, error.method_id) == (50, 10)


def test_of_arguments_as_long_as_a_frame_no_more_is_written_than_anybody_reads() -> None:
    error = cannot_decode(b"\x00\x32\x00\x0a" + bytes(131_000))
    assert len(error.text) < 1000
    assert reply_text(error.code, error.text) == f"FRAME_ERROR - cannot decode <<{'0,' * 111}..."


def test_a_frame_out_of_place() -> None:
    error = unexpected_frame(8, b"")
    assert (error.code, error.text) == (ReplyCode.UNEXPECTED_FRAME, "type 8, all octets = <<>>")


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


def test_method_frames_carry_their_type() -> None:
    assert FrameReader().feed(method_frame(1, ChannelOpen()))[0].kind == FRAME_METHOD
