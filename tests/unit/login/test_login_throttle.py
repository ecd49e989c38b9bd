"""Trying passwords is slow, and costs nobody but the one who tries."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.entities.vhosts.users import User
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
from harness.clients.session_client import PEER, Party

LIMITS = ThrottleLimits(free=3, window=3600, wait_max=60)
ELSEWHERE, BEYOND = (Peer(host, 50000, "192.0.2.99", 5672, loopback=False) for host in ("192.0.2.1", "198.51.100.1"))
POLITE = from_python({"capabilities": {"authentication_failure_close": True}})


@pytest.fixture
def party(tmp_path: Path) -> Party:
    party = Party(Core(tmp_path / "messages"), SessionSettings(throttle=LIMITS, loopback_users=frozenset()))
    party.core.broker.users.by_name["other"] = User("other", hash_password(b"other"), SHA256, ())
    return party


def log_in(party: Party, password: bytes, peer: Peer = ELSEWHERE, user: bytes = b"guest") -> Connection:
    """Try a password; the connection as it is then."""
    caller = party.caller(peer)
    caller.say(PROTOCOL_HEADER)
    caller.send(ConnectionStartOk(POLITE, "PLAIN", b"\0" + user + b"\0" + password, "en_US"), channel=0)
    answers = caller.received(channel=0)[1:]
    assert caller.connection.ended or isinstance(answers[0], ConnectionClose) or caller.connection.phase is Phase.TUNE
    return caller.connection


def is_in(connection: Connection) -> bool:
    return connection.phase is Phase.TUNE and not connection.ended


def guess(party: Party, count: int, peer: Peer = ELSEWHERE, user: bytes = b"guest") -> None:
    for number in range(count):
        assert not is_in(log_in(party, b"guess %d" % number, peer, user))


def test_a_few_mistakes_are_free(party: Party) -> None:
    guess(party, LIMITS.free)
    assert is_in(log_in(party, b"guest"))


def test_beyond_them_even_the_right_password_has_to_wait(party: Party, caplog: pytest.LogCaptureFixture) -> None:
    guess(party, LIMITS.free + 1)
    assert not is_in(log_in(party, b"guest"))
    assert "too many wrong passwords from 192.0.2.1, the next one counts in 1 s" in caplog.text
    party.core.advance(1000)
    assert is_in(log_in(party, b"guest"))


def test_what_waits_is_not_looked_at(party: Party, monkeypatch: pytest.MonkeyPatch) -> None:
    guess(party, LIMITS.free + 1)
    monkeypatch.setitem(ALGORITHMS, SHA256, lambda data: pytest.fail("a password was looked at"))
    assert not is_in(log_in(party, b"guest"))


def test_the_wait_doubles_up_to_its_longest(party: Party) -> None:
    guess(party, LIMITS.free)
    throttle, waits = party.registry.login_throttle, []
    for number in range(9):
        log_in(party, b"further guess %d" % number)
        waits.append(throttle.wait(ELSEWHERE.host, Login("guest", b"x"), party.core.clock.now()))
        party.core.advance(int(waits[-1] * 1000))
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60, 60]


def test_coming_too_early_makes_it_no_longer(party: Party) -> None:
    """A client that tries again and again gets in when the time has passed."""
    guess(party, LIMITS.free + 1)
    for _ in range(9):
        party.core.advance(100)
        assert not is_in(log_in(party, b"guest"))
    party.core.advance(100)
    assert is_in(log_in(party, b"guest"))


def test_an_old_password_again_and_again_is_one_guess(party: Party) -> None:
    """A program that was forgotten when the password changed must not keep the others at its address out."""
    for _ in range(1000):
        assert not is_in(log_in(party, b"the old one"))
    assert is_in(log_in(party, b"guest"))


def test_the_right_password_forgets_the_mistakes(party: Party) -> None:
    guess(party, LIMITS.free)
    assert is_in(log_in(party, b"guest"))
    guess(party, LIMITS.free)
    assert is_in(log_in(party, b"guest"))


def test_an_account_of_one_s_own_forgets_no_guesses_for_others(party: Party) -> None:
    for number in range(20):
        log_in(party, b"guess %d" % number)
        log_in(party, b"other", user=b"other")
    assert not is_in(log_in(party, b"guest"))
    assert is_in(log_in(party, b"other", user=b"other"))


def test_nobody_is_kept_out_by_guesses_from_elsewhere(party: Party) -> None:
    guess(party, 50, BEYOND)
    assert not is_in(log_in(party, b"guest", BEYOND))
    assert is_in(log_in(party, b"guest"))


def test_guesses_for_many_users_are_guesses_of_an_address(party: Party) -> None:
    for number in range(10 * LIMITS.free + 1):
        log_in(party, b"password1", user=b"user %d" % number)
    assert not is_in(log_in(party, b"guest"))
    assert is_in(log_in(party, b"guest", BEYOND))


def test_guesses_from_many_addresses_are_refused_slowly(party: Party) -> None:
    """And without a word, which says when a guess was wrong; while the right password is taken at once."""
    lingers = []
    for number in range(LIMITS.free + 4):
        peer = ELSEWHERE._replace(host=f"192.0.2.{number}")
        lingers.append(log_in(party, b"guess %d" % number, peer).linger)
    assert lingers == [0, 0, 0, *(SILENT_SECONDS + longer for longer in (1, 2, 4, 8))]
    assert is_in(log_in(party, b"guest", BEYOND))


def test_this_machine_is_not_watched(party: Party) -> None:
    guess(party, 50, PEER)
    assert is_in(log_in(party, b"guest", PEER))


def test_what_is_long_past_is_forgotten(party: Party) -> None:
    guess(party, LIMITS.free)
    party.core.advance(3_600_000)
    guess(party, LIMITS.free)
    assert is_in(log_in(party, b"guest"))


def test_without_a_limit_nobody_waits(tmp_path: Path) -> None:
    party = Party(
        Core(tmp_path / "messages"), SessionSettings(throttle=ThrottleLimits(free=0), loopback_users=frozenset())
    )
    guess(party, 100)
    assert is_in(log_in(party, b"guest"))
    assert party.registry.login_throttle.pairs.throttled == {}


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
