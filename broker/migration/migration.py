"""A migration: definitions first, then the messages of queue after queue, then a report.

It can be killed at any moment and run again: existing definitions stay unchanged, and a message is acknowledged at its
source when the target has confirmed it. Messages between the two, at most a window, come twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import trio

from broker.admin.protocol import AdministrationError
from broker.client.client_state import ClientError
from broker.migration.definitions_transfer import KINDS, NotMigrated, import_definitions, narrowed, without_meaning_here
from broker.migration.migrating_brokers import Definitions, LocalBroker, MigratedQueue, MigratingBroker
from broker.migration.queue_transfer import EXCHANGE, STREAM, clean, counted, is_empty, move

Progress = Callable[[int], None]


class Outcome(NamedTuple):
    """Report of a migration: what was moved, seconds, and what was not moved."""

    definitions: dict[str, int]
    queues: int
    messages: int
    seconds: float
    left: list[NotMigrated]

    def in_json(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return {**self._asdict(), "left": [each._asdict() for each in self.left]}


class Migration:
    """Migrates all or some virtual hosts from one broker to another."""

    def __init__(self, source: MigratingBroker, target: MigratingBroker, vhosts: tuple[str, ...], window: int) -> None:
        self._source = source
        self._target = target
        self._vhosts = vhosts
        self._window = window
        self._left: list[NotMigrated] = []

    def definitions(self) -> dict[str, int]:
        """Migrate the definitions; returns the number of each kind. Raises AdministrationError."""
        found = self._source.definitions()
        names = self._vhosts or tuple(vhost["name"] for vhost in found.get("vhosts", []))
        chosen = narrowed(_ours_left_out(found), names)
        self._vhosts = names
        if isinstance(self._target, LocalBroker):
            self._left += without_meaning_here(chosen)
        refused = list(import_definitions(chosen, self._target))
        self._left += refused
        counts = {kind: len(chosen[kind]) for kind in KINDS}
        for each in refused:
            counts[each.kind] -= 1
        return counts

    def waiting(self) -> list[MigratedQueue]:
        """List the queues with messages to move; others are reported. Raises AdministrationError."""
        rows = [row for row in self._source.queues() if row.vhost in self._vhosts]
        for row in rows:
            self._left += _held_back(row)
        movable = [row for row in rows if not row.exclusive]
        return [row for vhost in self._vhosts for row in self._of(vhost, movable) if row.ready]

    def _of(self, vhost: str, rows: list[MigratedQueue]) -> list[MigratedQueue]:
        """Count those of a virtual host exactly; drops streams that have messages at the target already."""
        of_vhost = [row for row in rows if row.vhost == vhost]
        if not of_vhost:
            return []
        with _failing(f"virtual host '{vhost}'"):
            found = trio.run(counted, of_vhost, self._source)
            streams = [row for row in found if row.type == STREAM and row.ready]
            there = trio.run(counted, streams, self._target) if streams else []
            full = {row.name: row.ready for row in there if row.ready or not trio.run(is_empty, row, self._target)}
        for row in streams:
            if row.name in full and full[row.name] != row.ready:
                why = f"the stream there has {full[row.name]} already; delete it there to have it copied"
                self._left.append(NotMigrated("messages", vhost, row.name, f"{row.ready} messages: {why}"))
        return [row for row in found if row.type != STREAM or row.name not in full]

    def messages(self, rows: list[MigratedQueue], progress: Progress) -> int:
        """Move the messages of these queues; returns their number. Raises AdministrationError."""
        done = 0
        for vhost in self._vhosts:
            with _failing(f"virtual host '{vhost}'"):
                trio.run(clean, vhost, self._target)
        for row in rows:
            with _failing(f"queue '{row.name}' of virtual host '{row.vhost}'"):
                done += trio.run(move, row, self._source, self._target, self._window, _after(done, progress))
        return done

    def outcome(self, definitions: dict[str, int], queues: int, messages: int, began: float) -> Outcome:
        """Return the report."""
        return Outcome(definitions, queues, messages, round(time.monotonic() - began, 3), self._left)


@contextmanager
def _failing(place: str) -> Iterator[None]:
    """Convert errors of AMQP to AdministrationError with their place."""
    try:
        yield
    except ClientError as error:
        raise AdministrationError("failed", f"{place}: {error}{_hint(error)}") from error


def _after(before: int, progress: Progress) -> Progress:
    return lambda now: progress(before + now)


def _ours_left_out(definitions: Definitions) -> Definitions:
    """Leave out the exchanges and bindings that a killed migration has left at the source."""
    exchanges = [each for each in definitions.get("exchanges", []) if each["name"] != EXCHANGE]
    bindings = [each for each in definitions.get("bindings", []) if each["source"] != EXCHANGE]
    return {**definitions, "exchanges": exchanges, "bindings": bindings}


def _held_back(row: MigratedQueue) -> Iterator[NotMigrated]:
    if row.exclusive:
        why = "the queue is exclusive to a connection"
        yield NotMigrated("messages", row.vhost, row.name, f"{row.ready} messages: {why}")
    elif row.unacknowledged and row.type != STREAM:
        why = "its consumers have them, and those that come back are moved by a further run"
        yield NotMigrated("messages", row.vhost, row.name, f"{row.unacknowledged} messages: {why}")


def _hint(error: ClientError) -> str:
    if "user_id property" in str(error):
        return "; give the user that publishes there the tag impersonator"
    return ""
