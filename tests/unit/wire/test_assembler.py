"""Commands out of frames. Bodies in any pieces are put together in tests/security/fuzz/targets/wire_input.py.

Answers to frames out of order are asserted on the wire, in tests/conformance/connection/test_broken_frames.py and
tests/conformance/connection/test_connection.py.
"""

from __future__ import annotations

import pytest

from broker.wire.amqp_errors import ConnectionException
from broker.wire.assembler import Assembler
from broker.wire.constants import ReplyCode
from broker.wire.methods import BasicPublish
from broker.wire.properties import encode_header

ARGS = b"\x00\x00\x00\x01q\x00"
PUBLISH = BasicPublish("", "q", False, False)


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


def test_a_body_is_held_to_its_announcement() -> None:
    """RabbitMQ 4.2.9 and later; 3.10.8 goes on waiting."""
    assembler = Assembler(body_bytes_max=10)
    assembler.method(PUBLISH, ARGS)
    with pytest.raises(ConnectionException, match="content body size 11 exceeds maximum allowed size 10"):
        assembler.header(encode_header(11))
    assembler.header(encode_header(3))
    with pytest.raises(ConnectionException, match="content body frame exceeds remaining content size") as caught:
        assembler.body(b"four")
    assert caught.value.code is ReplyCode.FRAME_ERROR
