"""Trying passwords is slow, and costs nobody but the one who tries."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.entities.node.users import User
from broker.session.connection import SILENT_SECONDS, Connection
from broker.session.login.login_throttle import KEPT_BEYOND_LIMIT, WATCHED_MAX, LoginThrottle, ThrottleLimits, site
from broker.session.login.passwords import ALGORITHMS, SHA256, hash_password
from broker.session.login.phase import Phase
from broker.session.login.sasl import Login
from broker.session.peer import Peer
from broker.session.session_settings import SessionSettings
from broker.wire.field_tables import from_python
from broker.wire.frames import PROTOCOL_HEADER
from broker.wire.methods import ConnectionClose, ConnectionStartOk
from harness.brokers.broker_core import Core
from harness.clients.session_client import PEER, SessionLayer

LIMITS = ThrottleLimits(free=3, window=3600, wait_max=60)
ELSEWHERE, BEYOND = (Peer(host, 50000, "192.0.2.99", 5672, loopback=False) for host in ("192.0.2.1", "198.51.100.1"))
POLITE = from_python({"capabilities": {"authentication_failure_close": True}})


@pytest.fixture
def sessions(tmp_path: Path) -> SessionLayer:
    sessions = SessionLayer(Core(tmp_path / "messages"), SessionSettings(throttle=LIMITS, loopback_users=frozenset()))
    sessions.core.broker.users.by_name["other"] = User("other", hash_password(b"other"), SHA256, ())
    return sessions


def log_in(sessions: SessionLayer, password: bytes, peer: Peer = ELSEWHERE, user: bytes = b"guest") -> Connection:
    """Try a password; the connection as it is then."""
    client = sessions.client(peer)
    client.say(PROTOCOL_HEADER)
    client.send(ConnectionStartOk(POLITE, "PLAIN", b"\0" + user + b"\0" + password, "en_US"), channel=0)
    answers = client.received(channel=0)[1:]
    assert client.connection.ended or isinstance(answers[0], ConnectionClose) or client.connection.phase is Phase.TUNE
    return client.connection


def is_in(connection: Connection) -> bool:
    return connection.phase is Phase.TUNE and not connection.ended


def guess(sessions: SessionLayer, count: int, peer: Peer = ELSEWHERE, user: bytes = b"guest") -> None:
    for number in range(count):
        assert not is_in(log_in(sessions, b"guess %d" % number, peer, user))


@pytest.mark.parametrize(
    ("guesses", "guesser", "peer", "may"),
    [
        (LIMITS.free, ELSEWHERE, ELSEWHERE, True),
        (LIMITS.free + 1, ELSEWHERE, ELSEWHERE, False),
        (50, BEYOND, BEYOND, False),
        (50, BEYOND, ELSEWHERE, True),
        (50, PEER, PEER, True),
    ],
    ids=["a few mistakes are free", "even the right password has to wait", "far beyond", "elsewhere", "this machine"],
)
def test_who_has_guessed(sessions: SessionLayer, guesses: int, guesser: Peer, peer: Peer, may: bool) -> None:
    """Guesses keep nobody out but who makes them; this machine is not watched."""
    guess(sessions, guesses, guesser)
    assert is_in(log_in(sessions, b"guest", peer)) is may


def test_what_waits_is_not_looked_at(
    sessions: SessionLayer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    guess(sessions, LIMITS.free + 1)
    with monkeypatch.context() as patched:
        patched.setitem(ALGORITHMS, SHA256, lambda data: pytest.fail("a password was looked at"))
        assert not is_in(log_in(sessions, b"guest"))
    assert "too many wrong passwords from 192.0.2.1, the next one counts in 1 s" in caplog.text
    sessions.core.advance(1000)
    assert is_in(log_in(sessions, b"guest"))


def test_the_wait_doubles_up_to_its_longest(sessions: SessionLayer) -> None:
    """Coming too early makes it no longer: a client that tries again and again gets in when the time has passed."""
    guess(sessions, LIMITS.free)
    throttle, waits = sessions.registry.login_throttle, []
    for number in range(9):
        log_in(sessions, b"further guess %d" % number)
        waits.append(throttle.wait(ELSEWHERE.host, Login("guest", b"x"), sessions.core.clock.now()))
        sessions.core.advance(int(waits[-1] * 1000))
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    guess(sessions, LIMITS.free + 1, BEYOND)
    for _ in range(9):
        sessions.core.advance(100)
        assert not is_in(log_in(sessions, b"guest", BEYOND))
    sessions.core.advance(100)
    assert is_in(log_in(sessions, b"guest", BEYOND))


def test_which_guesses_count(sessions: SessionLayer) -> None:
    """The same wrong password is one guess: a program that was forgotten must not keep others at its address out.

    The right password and a long time forget the mistakes.
    """
    for _ in range(2 * (10 * LIMITS.free + 1)):
        assert not is_in(log_in(sessions, b"the old one"))
    assert is_in(log_in(sessions, b"guest"))
    for forget in (lambda: log_in(sessions, b"guest"), lambda: sessions.core.advance(3_600_000)):
        guess(sessions, LIMITS.free)
        forget()
    guess(sessions, LIMITS.free)
    assert is_in(log_in(sessions, b"guest"))


def test_guesses_for_many_users_are_guesses_of_an_address(sessions: SessionLayer) -> None:
    """An account of one's own forgets no guesses for others."""
    for number in range(20):
        log_in(sessions, b"guess %d" % number)
        log_in(sessions, b"other", user=b"other")
    assert not is_in(log_in(sessions, b"guest"))
    assert is_in(log_in(sessions, b"other", user=b"other"))
    for number in range(10 * LIMITS.free + 1):
        log_in(sessions, b"password1", BEYOND, user=b"user %d" % number)
    assert not is_in(log_in(sessions, b"guest", BEYOND))
    assert is_in(log_in(sessions, b"guest", BEYOND._replace(host="203.0.113.1")))


def test_guesses_from_many_addresses_are_refused_slowly(sessions: SessionLayer) -> None:
    """Without a word, too, which would tell that a guess was wrong; while the right password is taken at once."""
    lingers = []
    for number in range(LIMITS.free + 4):
        peer = ELSEWHERE._replace(host=f"192.0.2.{number}")
        lingers.append(log_in(sessions, b"guess %d" % number, peer).linger)
    assert lingers == [0, 0, 0, *(SILENT_SECONDS + longer for longer in (1, 2, 4, 8))]
    assert is_in(log_in(sessions, b"guest", BEYOND))


def test_without_a_limit_nobody_waits(tmp_path: Path) -> None:
    sessions = SessionLayer(
        Core(tmp_path / "messages"), SessionSettings(throttle=ThrottleLimits(free=0), loopback_users=frozenset())
    )
    guess(sessions, 100)
    assert is_in(log_in(sessions, b"guest"))
    assert sessions.registry.login_throttle.pairs.throttled == {}


def test_what_is_remembered_is_bounded_and_holds_no_password() -> None:
    throttle = LoginThrottle(LIMITS)
    for number in range(3 * WATCHED_MAX):
        throttle.wrong(
            f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}", Login("u", b"secret"), number, loopback=False
        )
        throttle.wrong("192.0.2.1", Login(f"user {number}", b"secret"), number, loopback=False)
    watches = (throttle.pairs, throttle.addresses, throttle.users)
    assert [len(watch.throttled) <= WATCHED_MAX for watch in watches] == [True] * 3
    kept = [len(entry.wrong_passwords) for watch in watches for entry in watch.throttled.values()]
    assert max(kept) <= 10 * LIMITS.free + KEPT_BEYOND_LIMIT
    digests = [digest for watch in watches for entry in watch.throttled.values() for digest in entry.wrong_passwords]
    assert all(len(digest) == 16 and b"secret" not in digest for digest in digests)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("192.0.2.1", "192.0.2.1", True),
        ("192.0.2.1", "192.0.2.2", False),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("2001:db8::1", "2001:db8::2:3:4:5", True),
        ("2001:db8:0:1::1", "2001:db8:0:2::1", False),
        ("fe80::1%eth0", "fe80::2%eth0", True),
        ("", "", True),
    ],
)
def test_who_is_the_same(one: str, other: str, same: bool) -> None:
    """An IPv6 site can change its last 64 bits at will."""
    assert (site(one) == site(other)) is same
