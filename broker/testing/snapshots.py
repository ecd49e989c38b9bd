"""Snapshots: definitions and messages saved under a name, and restored while the broker runs.

A snapshot is a backup (`StoreCopies`), and any backup can be restored. A restore does what a start does, in the running
process: everything is deleted, the stores take over the records of the copy, a boot begins,
and exchanges, queues and bindings are recovered as in `recovery`.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import trio

from broker.admin.administration import Administration
from broker.admin.apply_changes import take_effect
from broker.admin.protocol import AdministrationError, invalid, not_found
from broker.server.definition_writer import DefinitionLog
from broker.server.recovery import DEFINITIONS_FILE, MESSAGES_DIRECTORY, bring_back, settings_of
from broker.testing.quiescence import Quiescence
from broker.testing.reset import BrokerReset
from storage.definitions.definition_rows import Change, Definitions, DropTombstone, Put, SetMetadata
from storage.messages.lmdb_environment import check_identity
from storage.messages.message_store import MessageStore
from storage.offline.offline_reader import definitions_of

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
DIRECTORY = "snapshots"


class Snapshots:
    """The snapshots in a directory. `begin_boot` is called with the number of the boot that a restore begins.

    With `event_log` a restore is refused: the log's records would be about other messages than the store has.
    """

    def __init__(
        self,
        directory: Path,
        administration: Administration,
        definition_log: DefinitionLog,
        messages: MessageStore,
        broker_reset: BrokerReset,
        quiescence: Quiescence,
        begin_boot: Callable[[int], None],
        *,
        event_log: bool,
    ) -> None:
        self._directory = directory
        self._administration = administration
        self._definition_log = definition_log
        self._messages = messages
        self._reset = broker_reset
        self._quiescence = quiescence
        self._begin_boot = begin_boot
        self._event_log = event_log

    def names(self) -> list[str]:
        """Return the names of the snapshots."""
        found = self._directory.iterdir() if self._directory.is_dir() else ()
        return sorted(path.name for path in found if NAME.fullmatch(path.name) and path.is_dir())

    def path(self, name: str) -> Path:
        """Return the directory of the snapshot of a name. Raises AdministrationError `invalid`."""
        if not NAME.fullmatch(name):
            raise invalid("argument name: expected up to 100 letters, digits, dots, dashes and underscores")
        return self._directory / name

    async def save(self, name: str) -> dict[str, Any]:
        """Save a snapshot, replacing one of the same name; return how long that took. Raises as a backup does."""
        began, path = time.perf_counter(), self.path(name)
        await self._administration.written()
        fresh = path.with_name(f".{name}")
        shutil.rmtree(fresh, ignore_errors=True)
        await self._administration.copy_stores(fresh)
        shutil.rmtree(path, ignore_errors=True)
        fresh.rename(path)
        return {"name": name, "directory": str(path), "milliseconds": _since(began)}

    def delete(self, name: str) -> None:
        """Delete a snapshot. Raises AdministrationError `not_found`."""
        shutil.rmtree(self._existing(self.path(name)))

    async def restore(self, path: Path) -> dict[str, Any]:
        """Restore a copy of the stores: all else is deleted, connections are closed. Return how long it took.

        If it raises AdministrationError `not_found` or `refused`, or StoreError, nothing has changed.
        """
        began = time.perf_counter()
        if self._event_log:
            text = "nothing is restored where [events] is on: its log would be about other messages than the store has"
            raise AdministrationError("refused", text)
        found = await trio.to_thread.run_sync(_definitions, self._existing(path))
        async with self._administration.turns, self._reset.without_clients():
            await self._replace(found, path / MESSAGES_DIRECTORY)
        return {"directory": str(path), "milliseconds": _since(began)}

    def _existing(self, path: Path) -> Path:
        if not (path / DEFINITIONS_FILE).is_file():
            known = ", ".join(self.names()) or "none"
            raise not_found(f"there is no snapshot or backup in {path.absolute()}; snapshots: {known}")
        return path

    async def _replace(self, found: Definitions, messages: Path) -> None:
        broker, deletions = self._administration.broker, list(self._reset.deletions())
        await self._administration.settled(self._definition_log.write(*deletions, *_changes(found)))
        for change in deletions:
            take_effect(broker, change)
        self._reset.close_connections()  # those of shovels that connected meanwhile
        await self._quiescence.settle()
        await self._quiescence.caught_up()
        # From here to the end there is no `await`: no other task sees the broker half restored.
        self._messages.take_over(messages)
        self._messages.delete_queues(found.tombstones)
        self._definition_log.lift_queue_id(max(found.queue_id_sequence, self._messages.highest_queue_id()))
        broker.begin_boot(self._messages.boot)
        self._begin_boot(self._messages.boot)
        bring_back(broker, found, self._messages.lanes())


def _changes(found: Definitions) -> Iterator[Change]:
    """Yield the changes that write the definitions of a copy into the store. Queues keep their ids and messages."""
    yield from map(DropTombstone, {queue.id for queue in found.queues} | {each.queue_id for each in found.exchanges})
    yield from settings_of(found)
    yield from map(Put, found.exchanges)
    yield from map(Put, found.queues)
    yield from map(Put, found.bindings)
    yield from map(Put, found.stream_offsets)
    yield from (SetMetadata(name, value) for name, value in found.metadata.items() if name.startswith("feature."))


def _definitions(path: Path) -> Definitions:
    """Return the definitions in a copy, after a check that its messages can be read. Raises StoreError."""
    check_identity(path / MESSAGES_DIRECTORY, None)
    return definitions_of(path / DEFINITIONS_FILE)


def _since(began: float) -> float:
    return round((time.perf_counter() - began) * 1000, 3)
