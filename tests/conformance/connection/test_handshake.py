"""From the protocol header to connection.open-ok."""

from __future__ import annotations

from typing import Any

import pytest

from broker.wire.constants import FRAME_METHOD
from broker.wire.field_tables import encode_table, from_python, to_python
from broker.wire.frames import FRAME_OVERHEAD, FRAME_START, PROTOCOL_HEADER, content_frames, method_frame
from broker.wire.methods import (
    BasicPublish,
    ChannelOpen,
    ConnectionClose,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionTune,
    ConnectionTuneOk,
)
from broker.wire.properties import encode_header
from harness.clients.amqp_peer import CAPABILITIES
from harness.clients.queue_steps import drain
from harness.clients.shorthand import queue_declare
from harness.clients.wire_client import Address, Client
from tests.conformance import Connect, Made

REFUSED_LOGIN = (
    "connection 403 ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. "
    "For details see the broker logfile."
)


@pytest.mark.parametrize("header", [PROTOCOL_HEADER, b"AMQP\x01\x01\x00\x09"])
def test_a_known_version_is_answered_with_start(raw: Client, header: bytes) -> None:
    """0-9-1, and the header of old 0-9 clients."""
    raw.send_raw(header)
    start = raw.expect(ConnectionStart, channel=0)
    assert (start.version_major, start.version_minor, start.locales) == (0, 9, b"en_US")
    assert set(start.mechanisms.split()) >= {b"PLAIN", b"AMQPLAIN"}


@pytest.mark.parametrize(
    "header",
    [
        b"AMQP\x00\x00\x09\x00",
        b"AMQP\x00\x00\x0a\x00",
        b"AMQP\x00\x01\x00\x00",
        b"AMQP\x03\x01\x00\x00",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01",
    ],
)
def test_any_other_version_is_told_the_right_one(raw: Client, header: bytes) -> None:
    """0-9-1 specification, 2.2.4."""
    raw.send_raw(header)
    assert raw.receive_raw(8) == b"AMQP\x00\x00\x09\x01"
    assert raw.expect_gone() == []


def test_the_server_describes_itself(client: Client) -> None:
    """Clients choose their code paths by product, version and these capabilities."""
    assert client.peer.server_start is not None
    properties = to_python(client.peer.server_start.server_properties)
    assert properties.keys() >= {"capabilities", "cluster_name", "copyright", "information", "platform"}
    assert properties["product"] == "RabbitMQ"
    assert [part.isdecimal() for part in properties["version"].split(".")] == [True, True, True]
    assert properties["capabilities"] == {
        "publisher_confirms": True,
        "exchange_exchange_bindings": True,
        "basic.nack": True,
        "consumer_cancel_notify": True,
        "connection.blocked": True,
        "consumer_priorities": True,
        "authentication_failure_close": True,
        "per_consumer_qos": True,
        "direct_reply_to": True,
    }


@pytest.mark.parametrize(("user", "password"), [("guest", "wrong"), ("nobody", "guest"), ("guest", "")])
def test_a_refused_login_is_told_to_clients_that_can_hear_it(raw: Client, user: str, password: str) -> None:
    """With the capability authentication_failure_close."""
    raw.start(user=user, password=password)
    assert raw.closing(channel=0) == REFUSED_LOGIN


@pytest.mark.slow  # the broker waits three seconds, as RabbitMQ does
def test_a_refused_login_ends_other_clients_without_a_word(raw: Client) -> None:
    """0-9-1 specification, 2.2.4."""
    raw.start(password="wrong", capabilities=CAPABILITIES | {"authentication_failure_close": False})
    assert raw.expect_gone() == []


@pytest.mark.slow
def test_an_unknown_mechanism_ends_the_connection(raw: Client) -> None:
    """No tune follows."""
    raw.start(mechanism="X-NONE")
    assert not any(isinstance(item, ConnectionTune) for item in raw.expect_gone())


def test_amqplain_login(raw: Client) -> None:
    """RabbitMQ's AMQPLAIN: the response is a field table without its length."""
    response = encode_table(from_python({"LOGIN": "guest", "PASSWORD": "guest"}))[4:]
    raw.start(mechanism="AMQPLAIN", response=response)
    raw.expect(ConnectionTune, channel=0)


def test_amqplain_with_a_wrong_password(raw: Client) -> None:
    """The text names the mechanism."""
    raw.start(mechanism="AMQPLAIN", response=encode_table(from_python({"LOGIN": "guest", "PASSWORD": "wrong"}))[4:])
    assert raw.closing(channel=0) == REFUSED_LOGIN.replace("PLAIN", "AMQPLAIN")


def test_the_proposal_of_the_server(client: Client) -> None:
    """RabbitMQ's defaults (3.10.8 on the wire)."""
    assert client.peer.server_tune == ConnectionTune(2047, 131072, 60)


@pytest.mark.slow  # the broker waits three seconds for each, as RabbitMQ does, so they wait together
def test_a_client_may_not_go_beyond_the_proposal(broker: Address) -> None:
    """RabbitMQ 3.10.8 on the wire ends the connection; 4.x says 530 before it does. No open-ok in either."""
    beyond = {(2047, 100), (2047, 1 << 20), (2047, 0), (0, 131072), (65535, 131072)}
    clients = {each: Client(broker) for each in sorted(beyond)}
    for (channel_max, frame_max), client in clients.items():
        client.start()
        client.tune(ConnectionTuneOk(channel_max, frame_max, 0))
        client.send(ConnectionOpen("/"), channel=0)
    for each, client in clients.items():
        before = client.expect_gone()
        assert not any(isinstance(item, ConnectionOpenOk) for item in before), each
        assert all(isinstance(item, ConnectionClose) and item.reply_code == 530 for item in before), each
        client.close()


def test_content_is_split_at_the_negotiated_frame_size(connect: Connect, name: Made) -> None:
    """0-9-1 specification, 4.2.3: frame-max covers the whole frame. The client refuses any larger one.

    Of clients the eight bytes around a payload are granted on top, and not named: they differ in whether they count them.
    """
    client = connect(tune=ConnectionTuneOk(2047, 4096, 0))
    queue, large, payload = name(), bytes(range(256)) * 64, bytes(4096)
    client.ask(queue_declare(queue, exclusive=True))
    client.publish(large, key=queue)
    content = content_frames(1, encode_header(len(payload)), payload, FRAME_OVERHEAD + len(payload))
    client.send_raw(method_frame(1, BasicPublish("", queue, False, False)) + content)
    assert drain(client, queue) == [large, payload]
    client.send_raw(FRAME_START.pack(FRAME_METHOD, 1, 4097))
    assert client.closing() == ("connection 501 FRAME_ERROR - type 1, all octets = <<>>: {frame_too_large,4097,4088}")


@pytest.mark.parametrize(
    ("method", "channel", "cause", "text"),
    [
        (ConnectionOpen("nope"), 0, ConnectionOpen, "530 NOT_ALLOWED - vhost nope not found"),
        (ChannelOpen(), 1, None, "505 UNEXPECTED_FRAME - type 1, all octets = <<0,20,0,10,0>>"),
    ],
    ids=["a vhost that does not exist", "a channel before the connection is open"],
)
def test_what_is_refused_before_open_ok(raw: Client, method: Any, channel: int, cause: Any, text: str) -> None:
    """Before the answer to tune RabbitMQ says nothing of a channel."""
    raw.start()
    raw.tune()
    raw.send(method, channel=channel)
    assert raw.closing(cause, channel=channel) == f"connection {text}"
