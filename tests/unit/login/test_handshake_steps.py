"""From the protocol header to connection.open-ok, and bytes that come in any pieces."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from broker.entities.vhosts.users import User
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
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
)
from harness.brokers.broker_core import Core
from harness.clients.session_client import Conversation, Party, publish_frames
from harness.clients.shorthand import get, queue_declare
from harness.clients.wire_client import Message

START_OK = ConnectionStartOk(from_python({"capabilities": {}}), "PLAIN", b"\0guest\0guest", "en_US")
TUNE_OK = ConnectionTuneOk(2047, 131072, 0)


def silent_end(caller: Conversation, seconds: float) -> bool:
    """The connection ends without a word after this much silence."""
    ended, said = caller.connection.ended, caller.received(channel=0)
    return ended and caller.connection.linger == seconds and said == []


@pytest.fixture
def caller(party: Party) -> Conversation:
    return party.caller()


def come_to(caller: Conversation, phase: Phase) -> None:
    """Say what leads to a phase, and forget the answers."""
    steps: list[tuple[Phase, bytes]] = [
        (Phase.START, PROTOCOL_HEADER),
        (Phase.TUNE, method_frame(0, START_OK)),
        (Phase.OPENING, method_frame(0, TUNE_OK)),
        (Phase.OPEN, method_frame(0, ConnectionOpen("/"))),
    ]
    for reached, said in steps:
        if caller.connection.phase is phase:
            break
        caller.say(said)
        assert caller.connection.phase is reached
    caller.received(channel=0)


# Any pieces


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
    publish_frames(b"in frames " * 30000, key="q"),
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


class Heard(NamedTuple):
    """What a client has been told: words per channel, and the highest publish that was confirmed."""

    words: list[list[str]]
    confirmed: int


def outcome(directory: Path, pieces: list[bytes]) -> Heard:
    """What the client hears when it sends the conversation in these pieces."""
    core = Core(directory)
    try:
        caller = Party(core).caller()
        for piece in pieces:
            caller.say(piece)
        heard: list[list[Any]] = [caller.received(channel=number) for number in range(3)]
        confirmed = max(item.delivery_tag for item in heard[1] if isinstance(item, BasicAck))
        words = [[in_short(item) for item in channel if not isinstance(item, BasicAck)] for channel in heard]
        return Heard(words, confirmed)
    finally:
        core.close()


def in_short(item: Any) -> str:
    """A method by its name, a message with its place and the beginning of its body."""
    if not isinstance(item, Message):
        return str(item.NAME)
    return f"{item.method.NAME} {item.body[:12]!r} of {len(item.body)}"


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Heard:
    """What is heard when each frame comes by itself."""
    heard = outcome(tmp_path_factory.mktemp("whole") / "messages", list(CONVERSATION))
    assert heard == (
        [
            ["connection.start", "connection.tune", "connection.open-ok"],
            [
                "channel.open-ok",
                "confirm.select-ok",
                "queue.declare-ok",
                "basic.return b'nowhere' of 7",
                "basic.get-ok b'in frames in' of 300000",
            ],
            [
                "channel.open-ok",
                "basic.get-ok b'small' of 5",
                "basic.get-ok b'' of 0",
                "basic.get-ok b'in frames in' of 300000",
                "basic.get-empty",
                "channel.close",
            ],
        ],
        4,
    )
    return heard


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(cuts=st.sets(st.integers(1, sum(map(len, CONVERSATION)) - 1), max_size=30))
def test_any_cuts_say_the_same(tmp_path_factory: pytest.TempPathFactory, expected: Heard, cuts: set[int]) -> None:
    whole = b"".join(CONVERSATION)
    ends = [*sorted(cuts), len(whole)]
    pieces = [whole[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    assert outcome(tmp_path_factory.mktemp("cut") / "messages", pieces) == expected


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 9, 64])
def test_the_handshake_in_small_pieces(party: Party, size: int) -> None:
    caller = party.caller()
    caller.say(b"".join(CONVERSATION[:9]), chunk=size)
    assert [type(item) for item in caller.received(channel=0)] == [ConnectionStart, ConnectionTune, ConnectionOpenOk]
    assert len(caller.received(channel=1)) == 3


# The header


@pytest.mark.parametrize("header", [b"GET / HT", b"AMQP\x00\x01\x00\x00", b"AMQP\x03\x01\x00\x00", b"\0" * 8])
def test_another_protocol_is_told_this_one(caller: Conversation, header: bytes) -> None:
    """0-9-1 specification, 2.2.4: the server writes the header it speaks and closes the socket."""
    caller.feed(header)
    assert caller.connection.output.take() == PROTOCOL_HEADER
    assert caller.connection.ended


def test_a_header_is_awaited_in_full(caller: Conversation) -> None:
    caller.say(PROTOCOL_HEADER[:7])
    assert caller.connection.phase is Phase.HEADER
    assert not caller.connection.ended
    caller.say(PROTOCOL_HEADER[7:])
    assert isinstance(caller.expect_one(channel=0), ConnectionStart)


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
def test_a_method_too_soon_or_too_late(caller: Conversation, phase: Phase, said: Method, seconds: float) -> None:
    """RabbitMQ closes the socket without connection.close, during the login after three seconds of silence."""
    come_to(caller, phase)
    caller.send(said, channel=0)
    assert silent_end(caller, seconds)


@pytest.mark.parametrize("phase", [Phase.START, Phase.TUNE, Phase.OPENING])
def test_channels_are_not_for_those_who_are_not_in(party: Party, caller: Conversation, phase: Phase) -> None:
    come_to(caller, phase)
    caller.send(ChannelOpen(), queue_declare("q"))
    assert caller.connection.ended
    assert caller.received() == []
    assert "q" not in party.core.vhost.queues


def test_nothing_is_heard_after_the_end(party: Party, caller: Conversation) -> None:
    come_to(caller, Phase.START)
    frames = (TUNE_OK, START_OK, TUNE_OK, ConnectionOpen("/"))
    caller.say(b"".join(method_frame(0, method) for method in frames))
    assert silent_end(caller, SILENT_SECONDS)
    assert party.registry.connections == {}


# Tune


@pytest.mark.parametrize(
    ("answer", "fits"),
    [
        (ConnectionTuneOk(2047, 131072, 0), True),
        (ConnectionTuneOk(1, 4096, 65535), True),
        (ConnectionTuneOk(2048, 131072, 0), False),
        (ConnectionTuneOk(2047, 131073, 0), False),
        (ConnectionTuneOk(2047, 4095, 0), False),
        (ConnectionTuneOk(0, 131072, 0), False),
        (ConnectionTuneOk(2047, 0, 0), False),
    ],
    ids=str,
)
def test_what_may_be_tuned(caller: Conversation, answer: ConnectionTuneOk, fits: bool) -> None:
    """Not above the server's proposal, and no "no limit" where the server has one (3.10.8 on the wire)."""
    come_to(caller, Phase.TUNE)
    caller.send(answer, channel=0)
    if fits:
        assert caller.connection.phase is Phase.OPENING
        assert (caller.connection.frame_max, caller.connection.heartbeat) == (answer.frame_max, answer.heartbeat)
    else:
        assert silent_end(caller, SILENT_SECONDS)


def test_without_limits_of_its_own_the_broker_takes_any(tmp_path: Path) -> None:
    core = Core(tmp_path / "messages")
    caller = Party(core, SessionSettings(channel_max=0, frame_max=0)).caller()
    come_to(caller, Phase.TUNE)
    caller.send(ConnectionTuneOk(0, 0, 0), channel=0)
    assert caller.connection.phase is Phase.OPENING
    assert (caller.connection.channel_max, caller.connection.frame_max) == (65535, 1 << 32)
    core.close()


# Who may in


@pytest.mark.parametrize(
    ("mechanism", "response", "may"),
    [
        ("PLAIN", b"\0guest\0guest", True),
        ("PLAIN", b"somebody\0guest\0guest", True),
        ("PLAIN", b"\0guest\0wrong", False),
        ("PLAIN", b"\0nobody\0guest", False),
        ("PLAIN", b"\0guest\0", False),
        ("PLAIN", b"guest guest", False),
        ("PLAIN", b"\0guest\0guest\0", False),
        ("AMQPLAIN", b"\x05LOGINS\0\0\0\x05guest\x08PASSWORDS\0\0\0\x05guest", True),
        ("AMQPLAIN", b"\x05LOGINS\0\0\0\x05guest\x08PASSWORDS\0\0\0\x05wrong", False),
        ("AMQPLAIN", b"\x05LOGINS\0\0\0\x05guest", False),
        ("AMQPLAIN", b"\x05LOGINS\0\0\0\xff", False),
        ("AMQPLAIN", b"\x05LOGINI\0\0\0\x05\x08PASSWORDS\0\0\0\x05guest", False),
        ("EXTERNAL", b"", False),
        ("plain", b"\0guest\0guest", False),
    ],
)
def test_logins(caller: Conversation, mechanism: str, response: bytes, may: bool) -> None:
    come_to(caller, Phase.START)
    caller.send(ConnectionStartOk({}, mechanism, response, "en_US"), channel=0)
    if may:
        assert isinstance(caller.expect_one(channel=0), ConnectionTune)
    else:
        assert silent_end(caller, SILENT_SECONDS)


def test_a_password_of_any_bytes(party: Party, caller: Conversation) -> None:
    """RFC 4616 forbids NUL alone; names that are not UTF-8 keep their bytes."""
    name = b"caf\xe9"
    text = name.decode("utf-8", "surrogateescape")
    party.core.broker.users.by_name[text] = User(text, hash_password(b"\xff \xfe"), SHA256, ())
    come_to(caller, Phase.START)
    caller.send(ConnectionStartOk({}, "PLAIN", b"\0" + name + b"\0\xff \xfe", "en_US"), channel=0)
    assert isinstance(caller.expect_one(channel=0), ConnectionTune)


def test_a_login_that_is_refused_in_words(caller: Conversation) -> None:
    """Clients that announce `authentication_failure_close` hear 403 at once (RabbitMQ's extension)."""
    come_to(caller, Phase.START)
    properties = from_python({"capabilities": {"authentication_failure_close": True}})
    caller.send(ConnectionStartOk(properties, "PLAIN", b"\0guest\0wrong", "en_US"), channel=0)
    close = caller.expect_one(channel=0)
    assert (close.reply_code, close.class_id, close.method_id) == (403, 0, 0)
    caller.send(START_OK, channel=0)
    assert caller.received(channel=0) == [], "there is no second try"
    caller.send(ConnectionCloseOk(), channel=0)
    assert caller.connection.ended


@pytest.mark.parametrize(
    ("vhost", "text"),
    [
        ("nowhere", "NOT_ALLOWED - vhost nowhere not found"),
        ("closed", "NOT_ALLOWED - access to vhost 'closed' refused for user 'guest'"),
    ],
)
def test_virtual_hosts_that_are_closed(party: Party, caller: Conversation, vhost: str, text: str) -> None:
    party.core.broker.add_vhost("closed")
    come_to(caller, Phase.OPENING)
    caller.send(ConnectionOpen(vhost), channel=0)
    close = caller.expect_one(channel=0)
    assert (close.reply_code, close.reply_text, close.class_id, close.method_id) == (530, text, 10, 40)
    assert not caller.connection.ended
    caller.send(ConnectionCloseOk(), channel=0)
    assert caller.connection.ended


def test_no_more_connections_than_the_settings_allow(tmp_path: Path) -> None:
    core = Core(tmp_path / "messages")
    party = Party(core, SessionSettings(connections_max=2))
    first, _ = party.join(), party.join()
    caller = party.caller()
    come_to(caller, Phase.OPENING)
    caller.send(ConnectionOpen("/"), channel=0)
    close = caller.expect_one(channel=0)
    assert (close.reply_code, close.reply_text) == (
        530,
        "NOT_ALLOWED - connection refused: node connection limit (2) is reached",
    )
    caller.drop()
    first.drop()
    party.join()
    core.close()
