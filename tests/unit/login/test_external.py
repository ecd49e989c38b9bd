"""EXTERNAL: logging in as whom a certificate names, without a password."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cryptography.x509.oid import NameOID

from broker.entities.vhosts.users import User
from broker.session.connection import SILENT_SECONDS
from broker.session.login.certificate_names import Naming
from broker.session.login.passwords import SHA256
from broker.session.peer import Peer, Secured
from broker.session.session_settings import SessionSettings
from broker.wire.field_tables import from_python
from broker.wire.frames import PROTOCOL_HEADER
from broker.wire.methods import ConnectionClose, ConnectionStartOk, ConnectionTune
from harness.brokers.broker_core import Core
from harness.clients.session_client import Party
from tests.unit.login.test_certificate_names import certificate

GUEST, APP, NOBODY = (certificate((NameOID.COMMON_NAME, name)) for name in ("guest", "app", "nobody"))


@pytest.fixture
def party(tmp_path: Path) -> Party:
    party = Party(Core(tmp_path / "messages"), SessionSettings(naming=Naming("common_name")))
    party.core.broker.users.by_name["app"] = User("app", "", SHA256, ())
    return party


def log_in(
    party: Party, shown: bytes | None, *, asked: bool = True, loopback: bool = False, capable: bool = True, **how: Any
) -> tuple[Any, Any, list[Any]]:
    """The connection, what it was offered, and what it was told after connection.start-ok."""
    secured = Secured("TLSv1.3", "TLS_AES_256_GCM_SHA384", shown, asked)
    caller = party.caller(Peer("192.0.2.1", 50000, "192.0.2.99", 5671, loopback, secured))
    caller.say(PROTOCOL_HEADER)
    start = caller.expect_one(channel=0)
    properties = from_python({"capabilities": {"authentication_failure_close": capable}})
    answer = ConnectionStartOk(properties, how.get("mechanism", "EXTERNAL"), how.get("response", b""), "en_US")
    caller.send(answer, channel=0)
    return caller.connection, start.mechanisms, caller.received(channel=0)


def test_a_user_without_a_password_gets_in(party: Party) -> None:
    connection, offered, told = log_in(party, APP)
    assert offered == b"PLAIN AMQPLAIN EXTERNAL"
    assert isinstance(told[0], ConnectionTune)
    assert connection.user == "app"


def test_what_the_client_says_its_name_is_does_not_matter(party: Party) -> None:
    """RabbitMQ 3.10.8 does not look at the response either."""
    connection, _, _ = log_in(party, APP, response=b"guest")
    assert connection.user == "app"


@pytest.mark.parametrize(
    ("shown", "logged"),
    [
        (NOBODY, "login refused: user 'nobody' - invalid credentials"),
        (GUEST, "login refused: user 'guest' - can only connect via localhost"),
        (certificate((NameOID.ORGANIZATION_NAME, "x")), "login refused: no name found"),
        (None, "login refused: connection peer presented no TLS (x.509) certificate"),
        (b"\x30\x03\x02\x01\x00", "login refused: the certificate cannot be read"),
    ],
)
def test_refusals_are_rabbitmqs(
    party: Party, caplog: pytest.LogCaptureFixture, shown: bytes | None, logged: str
) -> None:
    _, _, told = log_in(party, shown)
    assert isinstance(told[0], ConnectionClose)
    assert (told[0].reply_code, told[0].reply_text) == (
        403,
        (
            "ACCESS_REFUSED - Login was refused using authentication mechanism EXTERNAL. "
            "For details see the broker logfile."
        ),
    )
    assert logged in caplog.text
    connection, _, told = log_in(party, shown, capable=False)
    assert told == []
    assert (connection.ended, connection.linger) == (True, SILENT_SECONDS)


def test_guest_may_come_from_this_machine(party: Party) -> None:
    connection, _, _ = log_in(party, GUEST, loopback=True)
    assert connection.user == "guest"


def test_where_no_certificates_are_asked_for_it_is_not_offered(party: Party, caplog: pytest.LogCaptureFixture) -> None:
    connection, offered, told = log_in(party, None, asked=False)
    assert offered == b"PLAIN AMQPLAIN"
    assert told == []
    assert (connection.ended, connection.linger) == (True, SILENT_SECONDS)
    assert "unknown authentication mechanism 'EXTERNAL'" in caplog.text


def test_certificates_are_not_guesses(party: Party) -> None:
    for _ in range(100):
        log_in(party, NOBODY)
    assert party.registry.login_throttle.users.throttled == {}
