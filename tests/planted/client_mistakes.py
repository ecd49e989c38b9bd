"""Mistakes that let one client have what belongs to all: turns without end, memory and connections without bound.

One lets a page of another site in, one cuts off clients which are there. Some take what a client says for something
else: a record of the store, a line of the log, a sample of a metric.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from broker import logs
from broker.config import Config
from broker.management.host_names import HostNames
from broker.management.prometheus import metric_groups
from broker.server.http.http_connection import HttpConnection
from broker.server.net import heartbeats
from broker.server.start import configured_sessions
from broker.session.connection import Connection
from broker.session.session_settings import SessionSettings
from storage.journal.first_format import read_first_format
from storage.journal.journal_mark import JournalMark
from storage.journal.journal_payload import decode_batch
from storage.messages.small_records import StoreIdentity
from storage.messages.start import journal_replay
from storage.messages.start.journal_replay import UnappliedBatches
from tests.planted.mistake import Patch, Process, Simulation, mistake

LIMITS = Process("tests/security/hostile/test_hostile_limits.py")

ROUNDS = Process("tests/security/contents/test_hostile_contents.py")
FOR_EVER_SECONDS = 1e9


@mistake("I8", LIMITS)
def turns_without_end(patch: Patch) -> None:
    """Handle everything that has come in one piece before anybody else has a turn."""
    settings = configured_sessions.session_settings

    def without_budget(config: Config) -> SessionSettings:
        return settings(config)._replace(turn_seconds=FOR_EVER_SECONDS, turn_copies_max=1 << 60)

    patch(configured_sessions, "session_settings", without_budget)


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

    def is_silent(hearer: Any, interval: float, now: float, late: float) -> bool:
        return bool(now - hearer.last_received > 2 * interval)

    patch(heartbeats, "is_silent", is_silent)


@mistake(
    "what a client publishes is no record of the journal", Process("tests/security/contents/test_forged_journal.py")
)
def forged_records_taken(patch: Patch) -> None:
    """Take a record of this store and boot over from every page on which a whole one begins, whoever has written it."""
    behind_mark = journal_replay._behind_mark

    def all_that_is_found(directory: Path, identity: StoreIdentity, mark: JournalMark) -> UnappliedBatches:
        left = behind_mark(directory, identity, mark)
        found = read_first_format(directory, identity.uuid, identity.boot, left.mark.position.number)
        return left._replace(batches=left.batches + [decode_batch(each.payload, each.number) for each in found.records])

    patch(journal_replay, "_behind_mark", all_that_is_found)


@mistake("what a client says stays on its line of the log", ROUNDS)
def log_lines_with_control_characters(patch: Patch) -> None:
    """Write into the log what was said as it was said."""
    patch(logs.TextFormatter, "formatMessage", logging.Formatter.formatMessage)


@mistake("a name is one label of a metric, whatever is in it", ROUNDS)
def labels_not_escaped(patch: Patch) -> None:
    """Write names into the labels of metrics as they are."""
    patch(metric_groups, "_escaped", lambda value: value)
