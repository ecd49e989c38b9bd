"""EXTERNAL: logging in as whom a certificate names, without a password."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cryptography.x509.oid import NameOID

from broker.entities.node.users import User
from broker.session.connection import SILENT_SECONDS
from broker.session.login.certificate_names import Naming
from broker.session.login.passwords import SHA256
from broker.session.peer import Peer, Secured
from broker.session.session_settings import SessionSettings
from broker.wire.field_tables import from_python
from broker.wire.frames import PROTOCOL_HEADER
from broker.wire.methods import ConnectionClose, ConnectionStartOk
from harness.brokers.broker_core import Core
from harness.clients.session_client import SessionLayer
from tests.unit.login.test_certificate_names import certificate

GUEST, APP, NOBODY = (certificate((NameOID.COMMON_NAME, name)) for name in ("guest", "app", "nobody"))


@pytest.fixture
def sessions(tmp_path: Path) -> SessionLayer:
    settings = SessionSettings(naming=Naming("common_name"), mechanisms=("PLAIN", "AMQPLAIN", "EXTERNAL"))
    sessions = SessionLayer(Core(tmp_path / "messages"), settings)
    sessions.core.broker.users.by_name["app"] = User("app", "", SHA256, ())
    return sessions


def log_in(
    sessions: SessionLayer,
    shown: bytes | None,
    *,
    asked: bool = True,
    loopback: bool = False,
    capable: bool = True,
    **how: Any,
) -> tuple[Any, Any, list[Any]]:
    """The connection, what it was offered, and what it was told after connection.start-ok."""
    secured = Secured("TLSv1.3", "TLS_AES_256_GCM_SHA384", shown, asked)
    client = sessions.client(Peer("192.0.2.1", 50000, "192.0.2.99", 5671, loopback, secured))
    client.say(PROTOCOL_HEADER)
    start = client.expect_one(channel=0)
    properties = from_python({"capabilities": {"authentication_failure_close": capable}})
    answer = ConnectionStartOk(properties, how.get("mechanism", "EXTERNAL"), how.get("response", b""), "en_US")
    client.send(answer, channel=0)
    return client.connection, start.mechanisms, client.received(channel=0)


def test_a_certificate_names_the_user(sessions: SessionLayer) -> None:
    """The response does not count: RabbitMQ 3.10.8 does not look at it either. No certificate is a guess."""
    connection, _, _ = log_in(sessions, APP, response=b"guest")
    assert connection.user == "app"
    connection, _, _ = log_in(sessions, GUEST, loopback=True)
    assert connection.user == "guest"
    for _ in range(100):
        log_in(sessions, NOBODY)
    assert sessions.registry.login_throttle.users.throttled == {}


@pytest.mark.parametrize(
    ("shown", "logged"),
    [
        (GUEST, "login refused: user 'guest' - can only connect via localhost"),
        (b"\x30\x03\x02\x01\x00", "login refused: the certificate cannot be read"),
    ],
)
def test_refusals(sessions: SessionLayer, caplog: pytest.LogCaptureFixture, shown: bytes, logged: str) -> None:
    """The others, and the words for clients, are in tests/unit/net/test_tls_broker.py."""
    _, _, told = log_in(sessions, shown)
    assert isinstance(told[0], ConnectionClose)
    assert logged in caplog.text
    connection, _, told = log_in(sessions, shown, capable=False)
    assert told == []
    assert (connection.ended, connection.linger) == (True, SILENT_SECONDS)


@pytest.mark.parametrize("chosen", [True, False])
def test_where_it_is_not_chosen_or_no_certificates_are_asked_for_it_is_not_offered(
    sessions: SessionLayer, caplog: pytest.LogCaptureFixture, chosen: bool
) -> None:
    if not chosen:
        sessions.registry.settings = SessionSettings()
    connection, offered, told = log_in(sessions, None if chosen else APP, asked=not chosen)
    assert offered == b"PLAIN AMQPLAIN"
    assert told == []
    assert (connection.ended, connection.linger) == (True, SILENT_SECONDS)
    assert "unknown authentication mechanism 'EXTERNAL'" in caplog.text
