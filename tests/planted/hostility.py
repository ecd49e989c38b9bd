"""Mistakes that let one client have what belongs to all: turns without end, memory without bound."""

from __future__ import annotations

from broker.config import Config
from broker.server import serve
from broker.session.connection import Connection
from broker.session.session_settings import SessionSettings
from tests.planted.mistake import Mistake

FOR_EVER_SECONDS = 1e9


def turns_without_end() -> None:
    """Handle everything that has come in one piece before anybody else has a turn."""
    settings = serve.session_settings

    def without_budget(config: Config) -> SessionSettings:
        return settings(config)._replace(turn_seconds=FOR_EVER_SECONDS, turn_copies_max=1 << 60)

    serve.session_settings = without_budget


def unread_output_not_bounded() -> None:
    """Go on reading from a client that does not read."""
    Connection.write_blocked = property(lambda connection: False)  # type: ignore[method-assign, assignment]


def half_bodies_not_counted() -> None:
    """Keep whatever comes of messages that are not whole."""

    def ignore(connection: Connection, size: int) -> None:
        """Do nothing."""

    Connection.count_incomplete = ignore  # type: ignore[method-assign]


MISTAKES = {
    "turns without end": Mistake("I8", turns_without_end),
    "unread output not bounded": Mistake("I8", unread_output_not_bounded),
    "half bodies not counted": Mistake("I8", half_bodies_not_counted),
}
