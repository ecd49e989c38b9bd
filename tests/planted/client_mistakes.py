"""Mistakes that let one client have what belongs to all: turns without end, memory and connections without bound.

One lets a page of another site in, and one cuts off clients which are there.
"""

from __future__ import annotations

from typing import Any

from broker.config import Config
from broker.management.host_names import HostNames
from broker.server import server
from broker.server.http.http_connection import HttpConnection
from broker.server.net import heartbeats
from broker.session.connection import Connection
from broker.session.session_settings import SessionSettings
from tests.planted.mistake import Patch, Process, Simulation, mistake

LIMITS = Process("tests/security/hostile/test_hostile_limits.py")

FOR_EVER_SECONDS = 1e9


@mistake("I8", LIMITS)
def turns_without_end(patch: Patch) -> None:
    """Handle everything that has come in one piece before anybody else has a turn."""
    settings = server.session_settings

    def without_budget(config: Config) -> SessionSettings:
        return settings(config)._replace(turn_seconds=FOR_EVER_SECONDS, turn_copies_max=1 << 60)

    patch(server, "session_settings", without_budget)


@mistake("I8", LIMITS)
def unread_output_not_bounded(patch: Patch) -> None:
    """Go on reading from a client that does not read."""
    patch(Connection, "write_blocked", property(lambda connection: False))


@mistake("I8", LIMITS)
def half_bodies_not_counted(patch: Patch) -> None:
    """Keep whatever comes of messages that are not whole."""
    patch(Connection, "count_incomplete", lambda connection, size: None)


@mistake("I8", Process("tests/security/hostile/test_hostile_http.py"))
def slow_readers_stay(patch: Patch) -> None:
    """Wait for whoever takes nothing, with a file and a connection held open."""

    async def send_all(connection: HttpConnection, data: bytes) -> None:
        await connection._stream.send_all(data)

    patch(HttpConnection, "send_all", send_all)


@mistake("a page of another site gets nothing by its own name", Process("tests/unit/http/test_other_sites.py"))
def any_name_answered(patch: Patch) -> None:
    """Answer on loopback to whatever name a browser was led by."""

    async def known(names: HostNames, name: str) -> bool:
        return True

    patch(HostNames, "known", known)


@mistake("a client whose bytes lie unread stays", Process("tests/durability/faults/test_pauses.py"), Simulation(3))
def pause_taken_for_silence(patch: Patch) -> None:
    """Count the time in which the process was paused as silence of its clients, and look at no socket."""

    def is_silent(hearer: Any, interval: float, now: float, late: float, unread: object) -> bool:
        return bool(now - hearer.last_received > 2 * interval)

    patch(heartbeats, "is_silent", is_silent)
