"""The peer that every test client is made of: what it takes from no broker."""

from __future__ import annotations

import pytest

from broker.wire.constants import FRAME_BODY, FRAME_HEADER, FRAME_METHOD
from broker.wire.frames import frame, method_frame
from broker.wire.methods import BasicDeliver, ChannelOpenOk
from broker.wire.properties import BasicProperties, encode_header
from harness.clients.amqp_peer import AmqpPeer, UnexpectedFrame

DELIVER = BasicDeliver("c", 1, False, "", "q")
HEADER = encode_header(6, BasicProperties(delivery_mode=2))
RESERVED_BIT_SET = DELIVER.encode().replace(b"\x01\0\0", b"\x01\x02\0")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (method_frame(1, ChannelOpenOk())[:-1] + b"\0", "ends in 0x00"),
        (frame(FRAME_HEADER, 1, HEADER), "type 2 without a method on channel 1"),
        (method_frame(1, DELIVER) + method_frame(1, ChannelOpenOk()), "interrupts the content"),
        (method_frame(1, DELIVER) + frame(FRAME_BODY, 1, b"x"), "type 3 in the content"),
        (method_frame(1, DELIVER) + 2 * frame(FRAME_HEADER, 1, HEADER), "type 2 in the content"),
        (method_frame(1, DELIVER) + frame(FRAME_HEADER, 1, HEADER) + frame(FRAME_BODY, 1, bytes(7)), "1 bytes more"),
        (frame(FRAME_METHOD, 1, ChannelOpenOk().encode() + bytes(131072)), "131072 were negotiated"),
        (frame(FRAME_METHOD, 1, RESERVED_BIT_SET), "is not b'"),
    ],
)
def test_what_a_server_may_not_send(data: bytes, words: str) -> None:
    with pytest.raises(UnexpectedFrame, match=words):
        AmqpPeer().receive(data)
