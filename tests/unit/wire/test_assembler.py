"""Commands out of frames. The reply texts were recorded from RabbitMQ 3.10.8 on the wire unless noted."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.wire.amqp_errors import ConnectionException
from broker.wire.assembler import Assembler, Command
from broker.wire.constants import ReplyCode
from broker.wire.methods import BasicAck, BasicPublish
from broker.wire.properties import encode_header

ARGS = b"\x00\x00\x00\x01q\x00"
PUBLISH = BasicPublish("", "q", False, False)
ACK = BasicAck(1, False)


def test_a_method_alone_is_a_command() -> None:
    assert Assembler().method(ACK, ARGS) == Command(ACK, ARGS, None, b"")


def test_an_empty_body_ends_with_the_header() -> None:
    assembler = Assembler()
    assert assembler.method(PUBLISH, ARGS) is None
    assert not assembler.idle
    assert assembler.header(encode_header(0)) == Command(PUBLISH, ARGS, encode_header(0), b"")
    assert assembler.idle


@given(st.binary(min_size=1, max_size=50), st.lists(st.integers(0, 50)))
def test_a_body_may_come_in_any_pieces(body: bytes, cuts: list[int]) -> None:
    assembler = Assembler()
    places = [0, *sorted(min(cut, len(body)) for cut in cuts), len(body)]
    pieces = [body[start:end] for start, end in pairwise(places)]
    while pieces and not pieces[-1]:
        pieces.pop()  # nothing may follow the last octet
    for _ in range(2):  # the assembler starts afresh after each command
        assert assembler.method(PUBLISH, ARGS) is None
        assert assembler.header(encode_header(len(body))) is None
        commands = [assembler.body(piece) for piece in pieces]
        assert commands[:-1] == [None] * (len(pieces) - 1)
        assert commands[-1] == Command(PUBLISH, ARGS, encode_header(len(body)), body)
        assert assembler.idle


def test_small_pieces_grow_together_and_empty_ones_leave_nothing() -> None:
    """Half a body is counted in bytes, and takes no more memory than that however small its pieces are."""
    assembler = Assembler()
    assembler.method(PUBLISH, ARGS)
    assembler.header(encode_header(1000))
    for piece in (b"ab", b"", b"c", memoryview(b"defg"), b"", b"h"):
        assert assembler.body(piece) is None
    assert assembler.bytes == 8
    assert len(assembler._parts) == 4
    command = assembler.body(b"x" * 992)
    assert command is not None
    assert command.body == b"abcdefgh" + b"x" * 992
    assert assembler.bytes == 0


NO_METHOD = "expected method frame, got non method frame instead"
NO_HEADER = "expected content header for class 60, got non content header frame instead"
NO_BODY = "expected content body, got non content body frame instead"


@pytest.mark.parametrize(
    ("steps", "text", "ids"),
    [
        ([lambda a: a.header(encode_header(1))], NO_METHOD, (0, 0)),
        ([lambda a: a.body(b"x")], NO_METHOD, (0, 0)),
        ([lambda a: a.method(PUBLISH, ARGS), lambda a: a.method(ACK, ARGS)], NO_HEADER, (60, 40)),
        ([lambda a: a.method(PUBLISH, ARGS), lambda a: a.body(b"x")], NO_HEADER, (60, 40)),
        (
            [lambda a: a.method(PUBLISH, ARGS), lambda a: a.header(b"\x00\x32" + encode_header(1)[2:])],
            "expected content header for class 60, got one for class 50 instead",
            (60, 40),
        ),
        (
            [
                lambda a: a.method(PUBLISH, ARGS),
                lambda a: a.header(encode_header(1)),
                lambda a: a.method(ACK, ARGS),
            ],
            NO_BODY,
            (60, 40),
        ),
        (
            [
                lambda a: a.method(PUBLISH, ARGS),
                lambda a: a.header(encode_header(1)),
                lambda a: a.header(encode_header(1)),
            ],
            NO_BODY,
            (60, 40),
        ),
    ],
)
def test_frames_out_of_order(steps: list[Callable[[Assembler], object]], text: str, ids: tuple[int, int]) -> None:
    assembler = Assembler()
    for step in steps[:-1]:
        assert step(assembler) is None
    with pytest.raises(ConnectionException) as caught:
        steps[-1](assembler)
    error = caught.value
    assert (error.code, error.text) == (ReplyCode.UNEXPECTED_FRAME, text)
    assert (error.class_id, error.method_id) == ids


def test_a_body_beyond_its_announcement() -> None:
    """RabbitMQ 4.2.9 and later; 3.10.8 goes on waiting."""
    assembler = Assembler()
    assembler.method(PUBLISH, ARGS)
    assembler.header(encode_header(3))
    with pytest.raises(ConnectionException, match="content body frame exceeds remaining content size") as caught:
        assembler.body(b"four")
    assert caught.value.code is ReplyCode.FRAME_ERROR


def test_a_body_over_the_limit_is_refused_by_its_announcement() -> None:
    """The words of RabbitMQ 4.2.9 and later."""
    assembler = Assembler(body_bytes_max=10)
    assembler.method(PUBLISH, ARGS)
    with pytest.raises(ConnectionException, match="content body size 11 exceeds maximum allowed size 10"):
        assembler.header(encode_header(11))


def test_a_header_cut_short() -> None:
    assembler = Assembler()
    assembler.method(PUBLISH, ARGS)
    with pytest.raises(ConnectionException) as caught:
        assembler.header(encode_header(0)[:-1])
    assert caught.value.code is ReplyCode.INTERNAL_ERROR


def test_a_header_with_a_weight() -> None:
    """RabbitMQ 3.10.8 takes it for no header."""
    assembler = Assembler()
    assembler.method(PUBLISH, ARGS)
    with pytest.raises(ConnectionException, match="got non content header frame instead"):
        assembler.header(b"\x00\x3c\x00\x01" + encode_header(0)[4:])
