"""Mistakes that let one client have what belongs to all: turns without end, memory and connections without bound."""

from __future__ import annotations

from broker.config import Config
from broker.server import serve
from broker.server.http.http_server import HttpConnection
from broker.session.connection import Connection
from broker.session.session_settings import SessionSettings
from tests.planted.mistake import Mistake, Patch, Process

FOR_EVER_SECONDS = 1e9


def turns_without_end(patch: Patch) -> None:
    """Handle everything that has come in one piece before anybody else has a turn."""
    settings = serve.session_settings

    def without_budget(config: Config) -> SessionSettings:
        return settings(config)._replace(turn_seconds=FOR_EVER_SECONDS, turn_copies_max=1 << 60)

    patch(serve, "session_settings", without_budget)


def unread_output_not_bounded(patch: Patch) -> None:
    """Go on reading from a client that does not read."""
    patch(Connection, "write_blocked", property(lambda connection: False))


def half_bodies_not_counted(patch: Patch) -> None:
    """Keep whatever comes of messages that are not whole."""

    def ignore(connection: Connection, size: int) -> None:
        """Do nothing."""

    patch(Connection, "count_incomplete", ignore)


def slow_readers_stay(patch: Patch) -> None:
    """Wait for whoever takes nothing, with a file and a connection held open."""

    async def send_all(connection: HttpConnection, data: bytes) -> None:
        await connection._stream.send_all(data)

    patch(HttpConnection, "_send_all", send_all)


LIMITS = Process("tests/security/hostile/test_hostile_limits.py")

MISTAKES = {
    "turns without end": Mistake("I8", turns_without_end, (LIMITS,)),
    "unread output not bounded": Mistake("I8", unread_output_not_bounded, (LIMITS,)),
    "half bodies not counted": Mistake("I8", half_bodies_not_counted, (LIMITS,)),
    "slow readers stay": Mistake("I8", slow_readers_stay, (Process("tests/security/hostile/test_hostile_http.py"),)),
}
