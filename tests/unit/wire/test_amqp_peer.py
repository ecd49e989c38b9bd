"""The peer that every test client is made of: what it puts together, and what it takes from no broker."""

from __future__ import annotations

import pytest

from broker.wire.constants import FRAME_BODY, FRAME_HEADER, FRAME_METHOD
from broker.wire.frames import HEARTBEAT, PROTOCOL_HEADER, frame, method_frame
from broker.wire.methods import (
    BasicDeliver,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionClose,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionTune,
    ConnectionTuneOk,
)
from broker.wire.properties import BasicProperties, encode_header
from harness.clients.amqp_peer import AmqpPeer, Login, Message, UnexpectedFrame, message_frames, method_frames

DELIVER = BasicDeliver("c", 1, False, "", "q")
HEADER = encode_header(6, BasicProperties(delivery_mode=2))
RESERVED_BIT_SET = DELIVER.encode().replace(b"\x01\0\0", b"\x01\x02\0")
START, TUNE = ConnectionStart(0, 9, {}, b"PLAIN", b"en_US"), ConnectionTune(2047, 8192, 60)


@pytest.mark.parametrize("size", [1, 7, 4096])
def test_what_arrives_in_any_pieces_waits_by_channel(size: int) -> None:
    peer = AmqpPeer()
    data = message_frames(1, DELIVER, HEADER, b"abcdef", 10) + HEARTBEAT + method_frame(2, ChannelOpenOk())
    for at in range(0, len(data), size):
        peer.receive(data[at : at + size])
    assert peer.everything() == [Message(DELIVER, HEADER, b"abcdef"), ChannelOpenOk()]
    assert (peer.take(2), peer.take(2), peer.heartbeats) == (ChannelOpenOk(), None, 1)


def test_a_handshake_step_by_step() -> None:
    peer, login = AmqpPeer(), Login(vhost="v", heartbeat=7)
    peer.begin(login, (3,))
    steps = [
        (PROTOCOL_HEADER, method_frame(0, START)),
        (method_frame(0, login.start_ok()), method_frame(0, TUNE)),
        (method_frames(0, ConnectionTuneOk(2047, 8192, 7), ConnectionOpen("v")), method_frame(0, ConnectionOpenOk())),
        (method_frame(3, ChannelOpen()), method_frame(3, ChannelOpenOk())),
    ]
    for sent, answer in steps:
        assert peer.handshaking
        assert peer.take_output() == sent
        assert peer.decode(answer) == []
    assert not peer.handshaking
    assert (peer.server_start, peer.server_tune, peer.frame_max) == (START, TUNE, 8192)


def test_another_answer_ends_a_handshake_with_words() -> None:
    peer = AmqpPeer()
    peer.begin(Login())
    with pytest.raises(UnexpectedFrame, match=r"expected connection\.start, got ConnectionClose\(reply_code=403"):
        peer.receive(method_frame(0, ConnectionClose(403, "", 0, 0)))


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
