"""From the protocol header to connection.open-ok, and bytes that come in any pieces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from broker.entities.node.users import User
from broker.session.connection import SILENT_SECONDS
from broker.session.login.passwords import SHA256, hash_password
from broker.session.login.phase import Phase
from broker.session.session_settings import SessionSettings
from broker.wire.field_tables import from_python
from broker.wire.frames import HEARTBEAT, PROTOCOL_HEADER, method_frame
from broker.wire.method import Method
from broker.wire.methods import (
    BasicAck,
    ChannelCloseOk,
    ChannelOpen,
    ConfirmSelect,
    ConnectionOpen,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
)
from harness.brokers.broker_core import Core
from harness.clients.amqp_peer import Message, publish_frames
from harness.clients.session_client import SessionClient, SessionLayer
from harness.clients.shorthand import get, queue_declare

START_OK = ConnectionStartOk(from_python({"capabilities": {}}), "PLAIN", b"\0guest\0guest", "en_US")
TUNE_OK = ConnectionTuneOk(2047, 131072, 0)


def silent_end(client: SessionClient, seconds: float) -> bool:
    """The connection ends without a word after this much silence."""
    ended, said = client.connection.ended, client.received(channel=0)
    return ended and client.connection.linger == seconds and said == []


@pytest.fixture
def client(sessions: SessionLayer) -> SessionClient:
    return sessions.client()


def come_to(client: SessionClient, phase: Phase) -> None:
    """Say what leads to a phase, and forget the answers."""
    steps: list[tuple[Phase, bytes]] = [
        (Phase.START, PROTOCOL_HEADER),
        (Phase.TUNE, method_frame(0, START_OK)),
        (Phase.OPENING, method_frame(0, TUNE_OK)),
        (Phase.OPEN, method_frame(0, ConnectionOpen("/"))),
    ]
    for reached, said in steps:
        if client.connection.phase is phase:
            break
        client.say(said)
        assert client.connection.phase is reached
    client.received(channel=0)


# Any pieces


LARGE = publish_frames(b"in frames " * 15000, key="q")
CONVERSATION = (
    PROTOCOL_HEADER,
    method_frame(0, START_OK),
    method_frame(0, TUNE_OK),
    method_frame(0, ConnectionOpen("/")),
    HEARTBEAT,
    method_frame(1, ChannelOpen()),
    method_frame(2, ChannelOpen()),
    method_frame(1, ConfirmSelect(False)),
    method_frame(1, queue_declare("q")),
    publish_frames(b"small", key="q"),
    publish_frames(b"", key="q"),
    LARGE,
    method_frame(2, get("q")),
    method_frame(2, get("q")),
    method_frame(2, BasicAck(2, True)),
    publish_frames(b"nowhere", key="nobody", mandatory=True),
    method_frame(2, get("q")),
    method_frame(2, get("q")),
    publish_frames(b"fails", exchange="not there", channel=2),
    publish_frames(b"ignored", key="q", channel=2),
    method_frame(2, ChannelCloseOk()),
    method_frame(1, get("q")),
)


def in_short(item: Any) -> str:
    """A method by its name, a message with its place and the beginning of its body."""
    if not isinstance(item, Message):
        return str(item.NAME)
    return f"{item.method.NAME} {item.body[:12]!r} of {len(item.body)}"


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 9, 64, 4099, 1 << 20])
def test_any_pieces_say_the_same(sessions: SessionLayer, size: int) -> None:
    """Each frame is cut by itself; the large body into a bounded number of pieces."""
    at = CONVERSATION.index(LARGE)
    before, behind = b"".join(CONVERSATION[:at]), b"".join(CONVERSATION[at + 1 :])
    steps = [(before, size), (LARGE, max(size, 1009)), (behind, size)]
    words = []
    for said in ([(frame, len(frame)) for frame in CONVERSATION], steps):
        client = sessions.client()
        for data, chunk in said:
            client.say(data, chunk=chunk)
        heard: list[list[Any]] = [client.received(channel=number) for number in range(3)]
        words.append([[in_short(item) for item in channel if not isinstance(item, BasicAck)] for channel in heard])
        assert max(item.delivery_tag for item in heard[1] if isinstance(item, BasicAck)) == 4
    assert words[0] == words[1]
    assert [len(channel) for channel in words[0]] == [3, 5, 6]


# The header


def test_a_header_is_awaited_in_full_and_nothing_heard_after_the_end(
    sessions: SessionLayer, client: SessionClient
) -> None:
    client.say(PROTOCOL_HEADER[:7])
    assert client.connection.phase is Phase.HEADER
    assert not client.connection.ended
    client.say(PROTOCOL_HEADER[7:])
    assert isinstance(client.expect_one(channel=0), ConnectionStart)
    frames = (TUNE_OK, START_OK, TUNE_OK, ConnectionOpen("/"))
    client.say(b"".join(method_frame(0, method) for method in frames))
    assert silent_end(client, SILENT_SECONDS)
    assert sessions.registry.connections == {}


# Out of order


@pytest.mark.parametrize(
    ("phase", "said", "seconds"),
    [
        (Phase.START, TUNE_OK, SILENT_SECONDS),
        (Phase.START, ConnectionOpen("/"), SILENT_SECONDS),
        (Phase.TUNE, START_OK, SILENT_SECONDS),
        (Phase.TUNE, ConnectionOpen("/"), SILENT_SECONDS),
        (Phase.OPENING, START_OK, 0.0),
    ],
)
def test_a_method_too_soon_or_too_late(client: SessionClient, phase: Phase, said: Method, seconds: float) -> None:
    """RabbitMQ closes the socket without connection.close, during the login after three seconds of silence."""
    come_to(client, phase)
    client.send(said, channel=0)
    assert silent_end(client, seconds)


# Tune


def test_without_limits_of_its_own_the_broker_takes_any(tmp_path: Path) -> None:
    core = Core(tmp_path / "messages")
    client = SessionLayer(core, SessionSettings(channel_max=0, frame_max=0)).client()
    come_to(client, Phase.TUNE)
    client.send(ConnectionTuneOk(0, 0, 0), channel=0)
    assert client.connection.phase is Phase.OPENING
    assert (client.connection.channel_max, client.connection.frame_max) == (65535, 1 << 32)
    core.close()


# Who may in


@pytest.mark.parametrize(
    ("mechanism", "response", "may"),
    [
        ("PLAIN", b"somebody\0guest\0guest", True),
        ("PLAIN", b"guest guest", False),
        ("PLAIN", b"\0guest\0guest\0", False),
        ("AMQPLAIN", b"\x05LOGINS\0\0\0\x05guest", False),
        ("AMQPLAIN", b"\x05LOGINS\0\0\0\xff", False),
        ("AMQPLAIN", b"\x05LOGINI\0\0\0\x05\x08PASSWORDS\0\0\0\x05guest", False),
        ("EXTERNAL", b"", False),
        ("plain", b"\0guest\0guest", False),
    ],
)
def test_logins(client: SessionClient, mechanism: str, response: bytes, may: bool) -> None:
    """Others are in tests/conformance/connection/test_handshake.py."""
    come_to(client, Phase.START)
    client.send(ConnectionStartOk({}, mechanism, response, "en_US"), channel=0)
    if may:
        assert isinstance(client.expect_one(channel=0), ConnectionTune)
    else:
        assert silent_end(client, SILENT_SECONDS)


def test_a_password_of_any_bytes(sessions: SessionLayer, client: SessionClient) -> None:
    """RFC 4616 forbids NUL alone; names that are not UTF-8 keep their bytes."""
    name = b"caf\xe9"
    text = name.decode("utf-8", "surrogateescape")
    sessions.core.broker.users.by_name[text] = User(text, hash_password(b"\xff \xfe"), SHA256, ())
    come_to(client, Phase.START)
    client.send(ConnectionStartOk({}, "PLAIN", b"\0" + name + b"\0\xff \xfe", "en_US"), channel=0)
    assert isinstance(client.expect_one(channel=0), ConnectionTune)


def test_no_more_connections_than_the_settings_allow(tmp_path: Path) -> None:
    core = Core(tmp_path / "messages")
    sessions = SessionLayer(core, SessionSettings(connections_max=2))
    first, _ = sessions.connect(), sessions.connect()
    client = sessions.client()
    come_to(client, Phase.OPENING)
    client.send(ConnectionOpen("/"), channel=0)
    close = client.expect_one(channel=0)
    assert (close.reply_code, close.reply_text) == (
        530,
        "NOT_ALLOWED - connection refused: node connection limit (2) is reached",
    )
    client.drop()
    first.drop()
    sessions.connect()
    core.close()
