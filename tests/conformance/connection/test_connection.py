"""An open connection: closing, heartbeats, secrets, and what ends it."""

from __future__ import annotations

import pytest

from broker.wire.constants import FRAME_METHOD
from broker.wire.frames import HEARTBEAT, frame, method_frame
from broker.wire.methods import (
    ChannelOpen,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionTuneOk,
    ConnectionUpdateSecret,
    ConnectionUpdateSecretOk,
)
from harness.brokers.rabbitmq_reference import REFERENCE
from harness.clients.amqp_peer import publish_frames
from harness.clients.shorthand import queue_declare
from harness.clients.wire_client import Client
from tests.conformance import Connect, Made


def test_closing(client: Client, name: Made) -> None:
    """All frames behind the close are ignored. More than sockets hold may come: no reset. The socket ends when the
    client's side does.

    RabbitMQ 3.10.8 on the wire; 0-9-1 specification, connection.close.
    """
    queue = queue_declare(name(), exclusive=True)
    client.send_raw(method_frame(0, ConnectionClose(200, "done", 0, 0)) + method_frame(1, queue))
    client.expect(ConnectionCloseOk, channel=0)
    client.send_raw(publish_frames(b"x" * 100_000) * 100)
    client.finish()
    assert client.expect_gone() == []


def test_both_sides_closing_at_once(client: Client) -> None:
    """The client's close is answered behind an error, too."""
    client.send(ChannelOpen())
    client.send(ConnectionClose(200, "", 0, 0), channel=0)
    assert client.expect(ConnectionClose, channel=0).reply_code == 504
    client.finish()
    answers = client.expect_gone()
    assert answers == [ConnectionCloseOk()] or (REFERENCE and not answers)  # a RabbitMQ may be too late for it


@pytest.mark.slow
@pytest.mark.parametrize("silent", [False, True])
def test_heartbeats_come_when_nothing_else_does(connect: Connect, silent: bool) -> None:
    """0-9-1 specification, 4.2.7. A silent client is dropped: no connection.close, the socket ends."""
    client = connect(tune=ConnectionTuneOk(2047, 131072, 1))
    if silent:
        assert client.expect_gone() == []
        assert client.peer.heartbeats > 0
    else:
        client.send_raw(HEARTBEAT)
        client.await_heartbeats(2)


def test_a_new_secret_is_taken(client: Client) -> None:
    """The internal users accept any."""
    client.send(ConnectionUpdateSecret(b"guest", "renewal"), channel=0)
    client.expect(ConnectionUpdateSecretOk, channel=0)


@pytest.mark.parametrize("payload", [b"\x00\x63\x00\x0a", b"\x00\x32\x00\x63", b"\x00"])
def test_an_unknown_method_ends_the_connection(client: Client, payload: bytes) -> None:
    """RabbitMQ 3.10.8 on the wire drops the socket; the specification has a code for it. Either way it ends."""
    client.send_raw(frame(FRAME_METHOD, 1, payload))
    before = client.expect_gone()
    assert all(isinstance(item, ConnectionClose) and item.reply_code in (501, 503, 540) for item in before)
