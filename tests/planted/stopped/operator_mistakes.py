"""Mistakes in what a start, or a command on a stopped directory, makes of what it finds."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

from broker.server import recovery
from broker.server.offline import offline_check, offline_commands
from broker.server.server import Server
from storage.definitions import definition_store
from storage.definitions.definition_store import DefinitionStore
from storage.journal.journal import Journal
from storage.journal.journal_file import NAME, release_reserve
from storage.journal.journal_mark import CLOSED, JournalMark
from storage.messages import lmdb_environment, message_store
from storage.messages.small_records import StoreIdentity
from storage.messages.start import journal_replay, store_opening
from storage.messages.start.store_opening import Opening
from storage.storage_errors import StoreFull
from tests.planted.mistake import Operators, Patch, mistake


@mistake("I1", Operators(637, ("leveret list",), "has lost|known to have left"))
def commands_overlook_the_journal(patch: Patch) -> None:
    """Have a command on a stopped directory begin a boot, and take nothing over from the one before."""
    replay = journal_replay.replay
    patch(journal_replay, "replay", lambda *given, **how: replay(*given, **how) if "serve" in sys.argv else None)


@mistake("I1", Operators(9, ("a full disk without ballast", "leveret list"), "has lost|known to have left"))
def journal_forgotten_on_a_full_disk(patch: Patch) -> None:
    """Begin a boot although there was no room to take over what the one before has left in the journal."""
    replay = journal_replay.replay

    def replay_if_there_is_room(*given: Any, **how: Any) -> Any:
        try:
            return replay(*given, **how)
        except StoreFull:
            return None

    patch(journal_replay, "replay", replay_if_there_is_room)
    patch(definition_store, "LOG_BYTES", 0)  # a start gets room where that is deleted, and replays all the same


@mistake("I1", Operators(105, ("a start with another setting",), "does not say why .*journal is cut short"))
def journal_cut_before_it_is_read(patch: Patch) -> None:
    """Give the journal its new size, and then look for what is in it."""
    opened = store_opening.open_directory

    def open_with_journal_of_new_size(directory: Path, opening: Opening) -> Any:
        if (directory / NAME).exists():
            os.truncate(directory / NAME, opening.journal_bytes)
        return opened(directory, opening)

    patch(message_store, "open_directory", open_with_journal_of_new_size)


@mistake("I1", Operators(9, ("a full disk without ballast", "leveret list"), "does not say why .*journal is cut short"))
def reserve_cut_to_another_size(patch: Patch) -> None:
    """Give a full disk what is behind a ring of the size that is set now, and then look for what is in the journal."""
    opened = store_opening.open_directory

    def open_with_room(directory: Path, opening: Opening) -> Any:
        try:
            return opened(directory, opening)
        except StoreFull:
            release_reserve(directory, opening.journal_bytes)
            return opened(directory, opening)

    patch(store_opening, "_with_room", lambda directory, ring_bytes, write: write())
    patch(message_store, "open_directory", open_with_room)
    patch(definition_store, "LOG_BYTES", 0)


@mistake("I1", Operators(162, ("move",), "does not say why .*data.mdb is of an earlier moment"))
def journal_marked_as_not_needed(patch: Patch) -> None:
    """Have LMDB note with a batch that it took at once that it has everything, although the journal goes on."""
    mark = Journal._mark

    def mark_as_closed(journal: Journal, *, direct: bool) -> JournalMark | None:
        found = mark(journal, direct=direct)
        return found._replace(state=CLOSED) if found and direct else found

    patch(Journal, "_mark", mark_as_closed)


@mistake("I1", Operators(637, ("messages/data.mdb missing",), "has lost|are lost"))
def missing_messages_made_again(patch: Patch) -> None:
    """Make an empty message store where the file of the old one is missing."""
    open_stores = recovery.open_stores

    def open_or_make(directory: Path, *given: Any, **how: Any) -> recovery.Stores:
        messages = directory / recovery.MESSAGES_DIRECTORY
        if messages.exists() and not (messages / "data.mdb").exists():
            shutil.rmtree(messages)
        return open_stores(directory, *given, **how)

    opened = store_opening.open_directory
    patch(recovery, "open_stores", open_or_make)
    patch(message_store, "open_directory", lambda path, opening: opened(path, opening._replace(create=True)))


@mistake(
    "I1",
    Operators(
        602,
        tuple(f"messages/{name} another's" for name in ("data.mdb", "journal", "journal.end")),
        "belongs to other definitions",
    ),
)
def identity_not_compared(patch: Patch) -> None:
    """Open whatever message store is there, whoever's it is."""
    check = lmdb_environment.check_identity

    def check_nothing(directory: Path, uuid: bytes | None) -> StoreIdentity:
        return check(directory, None)

    patch(lmdb_environment, "check_identity", check_nothing)


@mistake("I1", Operators(880, ("a copy in place",), "has lost"))
def backup_without_the_journal(patch: Patch) -> None:
    """Copy LMDB as it is, without what is in the journal alone."""

    async def copy_at_once(server: Server, directory: Path) -> None:
        await server.copies.make(directory)

    patch(Server, "_copy_stores", copy_at_once)


@mistake("I1", Operators(1192, ("leveret check",), "does not say why .*journal is missing"))
def verification_that_tidies_up(patch: Patch) -> None:
    """Have `leveret check` remove the journal that it has found sound."""
    check = offline_check.check

    def check_and_remove(directory: Path) -> dict[str, Any]:
        report = check(directory)
        (directory / "messages" / NAME).unlink(missing_ok=True)
        return report

    patch(offline_commands, "check", check_and_remove)


@mistake("I5", Operators(602, ("a start with another setting",), "does not say why .*changes are lost"))
def log_of_definitions_removed(patch: Patch) -> None:
    """Remove SQLite's log at each start, as if a crash had left nothing in it."""
    opened = DefinitionStore.open

    def open_without_log(path: Path, **how: bool) -> DefinitionStore:
        path.with_name(f"{path.name}-wal").unlink(missing_ok=True)
        return opened(path, **how)

    patch(DefinitionStore, "open", open_without_log)
