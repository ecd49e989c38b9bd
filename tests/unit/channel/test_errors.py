"""After an error: what follows is ignored, and the answer to connection.close is found wherever it comes."""

from __future__ import annotations

import pytest

from broker.session.login.phase import Phase
from broker.wire.frames import method_frame
from broker.wire.method import Method
from broker.wire.methods import (
    BasicAck,
    BasicPublish,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionTuneOk,
    QueueDeclareOk,
)
from harness.clients.session_client import Conversation, Party, publish_frames
from harness.clients.shorthand import get, queue_declare


@pytest.fixture
def client(party: Party) -> Conversation:
    client = party.join()
    client.ask(queue_declare("q"))
    return client


PUBLISH = method_frame(1, BasicPublish("", "q", False, False))
IMMEDIATE = publish_frames(b"x", key="q").replace(PUBLISH, method_frame(1, BasicPublish("", "q", False, True)))
CLOSE_OK = method_frame(0, ConnectionCloseOk())


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        (publish_frames(b"x", key="q", channel=7), 504),
        (method_frame(1, ChannelOpen()), 504),
        (method_frame(1, QueueDeclareOk("q", 0, 0)), 503),
        (method_frame(0, ConnectionTuneOk(0, 0, 0)), 504),
        (b"\x01\x00\x01\x00\x00\x00\x05\x00\x3c\x00\x28\x01\xce", 501),
        (b"\x03\x00\x01\x00\x00\x00\x01x\xce", 505),
        (IMMEDIATE, 540),
    ],
    ids=["not open", "open again", "for servers", "handshake again", "cut arguments", "body alone", "immediate"],
)
@pytest.mark.parametrize("chunk", [1, 50, 1 << 20])
def test_the_answer_to_a_close_is_found_behind_much_else(
    party: Party, client: Conversation, wrong: bytes, code: int, chunk: int
) -> None:
    """A client goes on sending until it reads of the error; nothing of that counts any more."""
    client.say(wrong + publish_frames(b"ignored" * 50, key="q") * 20, chunk=chunk)
    (close,) = (item for item in client.received(channel=0) if isinstance(item, ConnectionClose))
    assert close.reply_code == code
    assert (client.connection.phase, client.connection.ended) == (Phase.CLOSING, False)
    client.say(publish_frames(b"ignored", key="q", channel=2) + CLOSE_OK, chunk=chunk)
    assert client.connection.ended
    assert len(party.core.queue_named("q").ready_messages) == 0


@pytest.mark.parametrize("error", [get("not there"), queue_declare("q", durable=True), BasicAck(5, False)])
@pytest.mark.parametrize("chunk", [1, 50, 1 << 20])
def test_a_channel_that_has_failed_is_deaf_until_its_close_is_answered(
    party: Party, client: Conversation, error: Method, chunk: int
) -> None:
    sent = method_frame(1, error) + publish_frames(b"ignored", key="q") * 20 + method_frame(1, queue_declare("other"))
    client.say(sent, chunk=chunk)
    close = client.expect_one()
    assert isinstance(close, ChannelClose)
    assert (close.class_id, close.method_id) == (error.CLASS_ID, error.METHOD_ID)
    assert "other" not in party.core.vhost.queues
    client.say(method_frame(1, ChannelCloseOk()) + method_frame(1, ChannelOpen()), chunk=chunk)
    assert isinstance(client.expect_one(), ChannelOpenOk)
    assert client.ask(queue_declare("q")) == QueueDeclareOk("q", 0, 0)


def test_two_closes_that_cross_answer_each_other(client: Conversation) -> None:
    """The client closes a channel that has just failed: both sides say close-ok (0-9-1, channel.close)."""
    client.send(get("not there"), ChannelClose(200, "", 0, 0))
    close, answer = client.received()
    assert isinstance(close, ChannelClose)
    assert isinstance(answer, ChannelCloseOk)


def test_a_connection_that_fails_and_is_closed_meanwhile_ends(client: Conversation) -> None:
    client.say(method_frame(1, ChannelOpen()) + method_frame(0, ConnectionClose(200, "", 0, 0)))
    close, answer = client.received(channel=0)
    assert isinstance(close, ConnectionClose)
    assert isinstance(answer, ConnectionCloseOk)
    assert client.connection.ended
