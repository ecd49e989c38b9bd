"""An open connection: closing, heartbeats, secrets, and what ends it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from broker.wire.constants import FRAME_BODY, FRAME_HEADER, FRAME_HEARTBEAT, FRAME_METHOD
from broker.wire.frames import HEARTBEAT, frame, method_frame
from broker.wire.method import Method
from broker.wire.methods import (
    BasicPublish,
    ChannelClose,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionStartOk,
    ConnectionTuneOk,
    ConnectionUpdateSecret,
    ConnectionUpdateSecretOk,
    QueueDeclare,
)
from broker.wire.properties import encode_header
from harness.clients.shorthand import queue_declare
from harness.clients.wire_client import Client

NO_HEADER = "expected content header for class 60, got non content header frame instead"
PUBLISH = method_frame(1, BasicPublish("", "q", False, False))


def test_closing(client: Client) -> None:
    """RabbitMQ 3.10.8 on the wire: close-ok, and the socket ends when the client's side does."""
    client.send(ConnectionClose(200, "done", 0, 0), channel=0)
    client.expect(ConnectionCloseOk, channel=0)
    client.finish()
    assert client.expect_gone() == []


def test_what_follows_a_close_is_ignored(client: Client, name: Callable[..., str]) -> None:
    """RabbitMQ 3.10.8 on the wire; 0-9-1 specification, connection.close."""
    queue = queue_declare(name(), exclusive=True)
    client.send_raw(method_frame(0, ConnectionClose(200, "done", 0, 0)) + method_frame(1, queue))
    client.expect(ConnectionCloseOk, channel=0)
    client.finish()
    assert client.expect_gone() == []


@pytest.mark.slow
def test_heartbeats_come_when_nothing_else_does(connect: Callable[..., Client]) -> None:
    """0-9-1 specification, 4.2.7."""
    client = connect(tune=ConnectionTuneOk(2047, 131072, 1))
    client.send_raw(HEARTBEAT)
    client.await_heartbeats(2)


@pytest.mark.slow
def test_a_silent_client_is_dropped_without_a_word(connect: Callable[..., Client]) -> None:
    """RabbitMQ 3.10.8 on the wire: no connection.close, the socket ends."""
    client = connect(tune=ConnectionTuneOk(2047, 131072, 1))
    assert client.expect_gone() == []
    assert client.peer.heartbeats > 0


def test_a_new_secret_is_taken(client: Client) -> None:
    """RabbitMQ 3.10.8 on the wire: the internal users accept any."""
    client.send(ConnectionUpdateSecret(b"guest", "renewal"), channel=0)
    client.expect(ConnectionUpdateSecretOk, channel=0)


@pytest.mark.parametrize(
    ("wire", "text"),
    [
        (b"\x01\x00\x01\x00\x00\x00\x04\x00\x14\x00\x0a\x00",
         "501 FRAME_ERROR - type 1, all octets = <<0,20,0,10>>: {invalid_frame_end_marker,0}"),
        (frame(9, 0, b"a"), '501 FRAME_ERROR - type 9, all octets = <<"a">>: unknown_frame'),
        (frame(9, 1, b"abcdefghijklmnopq"),
         '501 FRAME_ERROR - type 9, first 16 octets = <<"abcdefghijklmnop">>: unknown_frame'),
        (b"\x03\x00\x01\x00\x10\x00\x00",
         "501 FRAME_ERROR - type 3, all octets = <<>>: {frame_too_large,1048576,131064}"),
        (frame(FRAME_HEARTBEAT, 1, b""), "505 UNEXPECTED_FRAME - type 8, all octets = <<>>"),
        (frame(FRAME_BODY, 1, b"x"),
         "505 UNEXPECTED_FRAME - expected method frame, got non method frame instead"),
        (frame(FRAME_HEADER, 1, encode_header(1)),
         "505 UNEXPECTED_FRAME - expected method frame, got non method frame instead"),
    ],
    ids=["frame end", "type 9", "type 9, long", "too large", "heartbeat on 1", "body alone", "header alone"],
)  # fmt: skip
def test_broken_frames(client: Client, wire: bytes, text: str) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    client.send_raw(wire)
    assert client.closing() == f"connection {text}"


@pytest.mark.parametrize(
    ("wire", "text"),
    [
        (method_frame(1, queue_declare("q")), NO_HEADER),
        (frame(FRAME_BODY, 1, b"x"), NO_HEADER),
        (
            frame(FRAME_HEADER, 1, b"\x00\x32" + encode_header(1)[2:]),
            "expected content header for class 60, got one for class 50 instead",
        ),
        (
            frame(FRAME_HEADER, 1, encode_header(3)) + method_frame(1, queue_declare("q")),
            "expected content body, got non content body frame instead",
        ),
    ],
    ids=["method", "body", "other class", "method for a body"],
)  # fmt: skip
def test_content_may_not_be_interrupted(client: Client, wire: bytes, text: str) -> None:
    """RabbitMQ 3.10.8 on the wire; 0-9-1 specification, 4.2.6."""
    client.send_raw(PUBLISH + wire)
    assert client.closing(BasicPublish) == f"connection 505 UNEXPECTED_FRAME - {text}"


def test_arguments_that_cannot_be_decoded(client: Client) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    client.send_raw(frame(FRAME_METHOD, 1, b"\x00\x32\x00\x0a\x00\x00"))
    assert client.closing(QueueDeclare) == "connection 501 FRAME_ERROR - cannot decode <<0,0>>"


def test_arguments_with_bytes_behind_them(client: Client) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    client.send_raw(frame(FRAME_METHOD, 1, b"\x00\x5a\x00\x0a\x07"))
    item = client.expect(ConnectionClose, channel=0)
    assert (item.reply_code, item.reply_text) == (501, "FRAME_ERROR - cannot decode <<7>>")


@pytest.mark.parametrize("payload", [b"\x00\x63\x00\x0a", b"\x00\x32\x00\x63", b"\x00"])
def test_an_unknown_method_ends_the_connection(client: Client, payload: bytes) -> None:
    """RabbitMQ 3.10.8 on the wire drops the socket; the specification has a code for it. Either way it ends."""
    client.send_raw(frame(FRAME_METHOD, 1, payload))
    before = client.expect_gone()
    assert all(isinstance(item, ConnectionClose) and item.reply_code in (501, 503, 540) for item in before)


@pytest.mark.parametrize(
    ("method", "channel", "text"),
    [
        (queue_declare("q"), 0, "504 CHANNEL_ERROR - unexpected method in connection state running"),
        (ConnectionClose(200, "", 0, 0), 1, "503 COMMAND_INVALID - unimplemented method"),
    ],
)
def test_methods_on_the_wrong_side_of_channel_0(client: Client, method: Method, channel: int, text: str) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    assert client.refusal(method, channel=channel) == f"connection {text}"


@pytest.mark.parametrize(
    "method",
    [ConnectionOpen("/"), ConnectionTuneOk(10, 4096, 0), ConnectionStartOk({}, "PLAIN", b"\0guest\0guest", "en_US")],
)
def test_the_handshake_cannot_be_repeated(client: Client, method: Method) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    assert client.refusal(method, channel=0) == (
        "connection 504 CHANNEL_ERROR - unexpected method in connection state running"
    )


def test_a_method_only_servers_send(client: Client) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    assert client.refusal(ConnectionBlocked("no"), channel=0) == (
        "connection 504 CHANNEL_ERROR - unexpected method in connection state running"
    )


def test_one_connection_ending_leaves_the_others(connect: Callable[..., Client], name: Callable[..., str]) -> None:
    """0-9-1 specification, 2.2.2."""
    broken, whole = connect(), connect()
    broken.send_raw(frame(9, 0, b""))
    broken.expect_gone()
    whole.ask(queue_declare(name(), exclusive=True))
    assert not any(isinstance(item, ChannelClose) for item in whole.arrived())
