"""Mistakes in what a start, or a command on a stopped directory, makes of what it finds."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

from broker.server.offline import offline_commands
from broker.server.server import Server
from storage.definitions.definition_store import DefinitionStore
from storage.journal.journal_file import NAME
from storage.messages import lmdb_environment, message_store
from storage.messages.records import Identity
from storage.messages.start import journal_replay
from storage.messages.start.store_opening import Opening
from storage.storage_errors import StoreFull
from tests.planted.mistake import Operators, Patch, mistake


@mistake("I1", Operators(6, ("leveret list",), "has lost|known to have left"))
def commands_overlook_the_journal(patch: Patch) -> None:
    """Have a command on a stopped directory begin a boot, and take nothing over from the one before."""
    replay = journal_replay.replay
    patch(journal_replay, "replay", lambda *given, **how: replay(*given, **how) if "serve" in sys.argv else None)


@mistake("I1", Operators(9, ("a full disk without ballast", "leveret list"), "has lost|known to have left"))
def journal_forgotten_on_a_full_disk(patch: Patch) -> None:
    """Begin a boot although there was no room to take over what the one before has left in the journal."""
    replay = journal_replay.replay

    def replay_if_there_is_room(*given: Any, **how: bool) -> Any:
        try:
            return replay(*given, **how)
        except StoreFull:
            return None

    patch(journal_replay, "replay", replay_if_there_is_room)


@mistake("I1", Operators(27, ("a start with another setting",), "has lost|known to have left"))
def journal_cut_before_it_is_read(patch: Patch) -> None:
    """Give the journal its new size, and then look for what is in it."""
    opened = message_store.open_directory

    def open_with_journal_of_new_size(directory: Path, opening: Opening) -> Any:
        if (directory / NAME).exists():
            os.truncate(directory / NAME, opening.journal_bytes)
        return opened(directory, opening)

    patch(message_store, "open_directory", open_with_journal_of_new_size)


@mistake("I1", Operators(6, ("a file missing",), "has lost"))
def missing_messages_made_anew(patch: Patch) -> None:
    """Make an empty message store where the file of the old one is missing."""
    opened = message_store.open_directory

    def open_or_make(directory: Path, opening: Opening) -> Any:
        if directory.exists() and not (directory / "data.mdb").exists():
            shutil.rmtree(directory)
        return opened(directory, opening._replace(create=True))

    patch(message_store, "open_directory", open_or_make)


@mistake("I1", Operators(17, ("a file another's",), "has lost|belongs to other definitions"))
def identity_not_compared(patch: Patch) -> None:
    """Open whatever message store is there, whoever's it is."""
    check = lmdb_environment.check_identity

    def check_nothing(directory: Path, uuid: bytes | None) -> Identity:
        return check(directory, None)

    patch(lmdb_environment, "check_identity", check_nothing)


@mistake("I1", Operators(8, ("a copy in place",), "has lost"))
def backup_without_the_journal(patch: Patch) -> None:
    """Copy LMDB as it is, without what is in the journal alone."""

    async def copy_at_once(server: Server, directory: Path) -> None:
        await server.copies.make(directory)

    patch(Server, "_copy_stores", copy_at_once)


@mistake("I1", Operators(3, ("leveret check",), "has lost|known to have left"))
def verification_that_tidies_up(patch: Patch) -> None:
    """Have `leveret check` remove the journal that it has found sound."""
    check = offline_commands.check

    def check_and_remove(directory: Path) -> dict[str, Any]:
        report = check(directory)
        (directory / "messages" / NAME).unlink(missing_ok=True)
        return report

    patch(offline_commands, "check", check_and_remove)


@mistake("I5", Operators(1, ("a start with another setting",), "is None, not|is True, not"))
def log_of_definitions_removed(patch: Patch) -> None:
    """Remove SQLite's log at each start, as if a crash had left nothing in it."""
    opened = DefinitionStore.open

    def open_without_log(path: Path, **how: bool) -> DefinitionStore:
        path.with_name(f"{path.name}-wal").unlink(missing_ok=True)
        return opened(path, **how)

    patch(DefinitionStore, "open", open_without_log)
