"""Frames and the words for broken ones. The reply texts were recorded from RabbitMQ 3.10.8 on the wire."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.wire.constants import FRAME_BODY, FRAME_HEADER, FRAME_METHOD, ReplyCode
from broker.wire.errors import ConnectionException
from broker.wire.frames import (
    HEARTBEAT,
    Frame,
    FrameReader,
    cannot_decode,
    content_frames,
    frame,
    method_frame,
    render_octets,
    unexpected_frame,
)
from broker.wire.methods import BasicAck, ChannelOpen
from broker.wire.properties import encode_header

STREAM = HEARTBEAT + method_frame(1, ChannelOpen()) + content_frames(7, encode_header(20), b"x" * 20, 0)
STREAM_FRAMES = [
    Frame(8, 0, b""),
    Frame(1, 1, b"\x00\x14\x00\x0a\x00"),
    Frame(2, 7, encode_header(20)),
    Frame(3, 7, b"x" * 20),
]


def test_known_bytes() -> None:
    """0-9-1 specification, 2.3.5."""
    assert HEARTBEAT == b"\x08\x00\x00\x00\x00\x00\x00\xce"
    assert method_frame(258, BasicAck(1, False)) == (
        b"\x01\x01\x02\x00\x00\x00\x0d\x00\x3c\x00\x50\x00\x00\x00\x00\x00\x00\x00\x01\x00\xce"
    )


@given(st.lists(st.integers(0, len(STREAM))))
def test_frames_do_not_depend_on_how_the_bytes_arrive(cuts: list[int]) -> None:
    reader = FrameReader(frame_max=4096)
    places = [0, *sorted(cuts), len(STREAM)]
    chunks = [STREAM[start:end] for start, end in pairwise(places)]
    assert [item for chunk in chunks for item in reader.feed(chunk)] == STREAM_FRAMES


@given(st.binary(max_size=100), st.integers(9, 60))
def test_a_body_is_split_at_the_negotiated_size(body: bytes, frame_max: int) -> None:
    header = encode_header(len(body))
    frames = FrameReader(0).feed(content_frames(3, header, body, frame_max))
    assert frames[0] == Frame(FRAME_HEADER, 3, header)
    assert all(item[:2] == (FRAME_BODY, 3) and 0 < len(item.payload) <= frame_max - 8 for item in frames[1:])
    assert b"".join(item.payload for item in frames[1:]) == body
    assert len(frames) == 1 + -(-len(body) // (frame_max - 8))


@pytest.mark.parametrize(
    ("wire", "code", "text"),
    [
        (b"\x01\x00\x01\x00\x00\x00\x04\x00\x14\x00\x0a\x00", ReplyCode.FRAME_ERROR,
         "type 1, all octets = <<0,20,0,10>>: {invalid_frame_end_marker,0}"),
        (frame(9, 0, b"a"), ReplyCode.FRAME_ERROR, 'type 9, all octets = <<"a">>: unknown_frame'),
        (b"\x03\x00\x01\x00\x10\x00\x00", ReplyCode.FRAME_ERROR,
         "type 3, all octets = <<>>: {frame_too_large,1048576,131064}"),
        (frame(9, 0, b"abcdefghijklmnopq"), ReplyCode.FRAME_ERROR,
         'type 9, first 16 octets = <<"abcdefghijklmnop">>: unknown_frame'),
    ],
)  # fmt: skip
def test_broken_frames(wire: bytes, code: ReplyCode, text: str) -> None:
    with pytest.raises(ConnectionException) as caught:
        FrameReader(131072).feed(wire)
    assert (caught.value.code, caught.value.text) == (code, text)


def test_the_largest_frame_passes_and_one_byte_more_does_not() -> None:
    reader = FrameReader(4096)
    assert len(reader.feed(frame(FRAME_BODY, 1, bytes(4096)))) == 1
    with pytest.raises(ConnectionException, match=r"\{frame_too_large,4097,4088\}"):
        reader.feed(frame(FRAME_BODY, 1, bytes(4097)))


def test_frames_in_front_of_a_broken_one_need_a_call_of_their_own() -> None:
    reader = FrameReader(4096)
    assert reader.feed(HEARTBEAT + b"\x09\x00\x00") == [Frame(8, 0, b"")]
    with pytest.raises(ConnectionException, match="unknown_frame"):
        reader.feed(b"\x00\x00\x00\x00\xce")


def test_undecodable_arguments_are_shown_as_numbers() -> None:
    error = cannot_decode(b"\x00\x32\x00\x0a\x00a")
    assert (error.code, error.text) == (ReplyCode.FRAME_ERROR, "cannot decode <<0,97>>")
    assert (error.class_id, error.method_id) == (50, 10)


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
    assert FrameReader(0).feed(method_frame(1, ChannelOpen()))[0].kind == FRAME_METHOD
