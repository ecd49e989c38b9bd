"""Mistakes in restores, and in what a start makes of copies that were put in its place."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from broker.server import recovery
from broker.server.offline import restore_backup
from storage import restored_files
from storage.definitions.definition_store import DefinitionStore
from storage.messages import message_store, store_origin
from storage.messages.start import journal_replay, store_opening
from tests.planted.mistake import Operators, Patch, mistake

LOST = "has lost|known to have left"


@mistake("I11", Operators(107, ("restore", "a life"), "of the stream was"))
def timeline_not_renewed(patch: Patch) -> None:
    """Go on from a backup as if nothing had been given out since it was made."""
    patch(journal_replay, "known_boot", lambda directory: 0)
    patch(store_opening, "read_origin", lambda txn: store_origin.NEVER_RESTORED)


@mistake("I1", Operators(107, ("a copy put over", "a life"), LOST))
def journal_overlooked_after_a_restore(patch: Patch) -> None:
    """Take a store that was ever restored for a backup that was not opened yet, which has no journal."""
    unapplied = journal_replay.unapplied_in_journal

    def unapplied_unless_restored(directory: Path, environment: Any, identity: Any) -> journal_replay.UnappliedBatches:
        with environment.begin() as txn:
            restored = store_origin.read_origin(txn).timeline
        return journal_replay.NOTHING_UNAPPLIED if restored else unapplied(directory, environment, identity)

    patch(journal_replay, "unapplied_in_journal", unapplied_unless_restored)
    patch(message_store, "unapplied_in_journal", unapplied_unless_restored)


@mistake("I10", Operators(121, ("a copy put over",), "does not say why"))
def backup_beside_a_later_log(patch: Patch) -> None:
    """Leave out of a backup the empty log of its definitions: copied over later ones, their log stays beside it."""
    backup = DefinitionStore.backup

    def backup_without_log(store: DefinitionStore, path: Path, backup_id: bytes) -> None:
        backup(store, path, backup_id)
        path.with_name(f"{path.name}-wal").unlink()

    patch(DefinitionStore, "backup", backup_without_log)


@mistake("I1", Operators(183, ("messages/data.mdb older",), f"{LOST}|which is None"))
def half_of_a_backup_taken(patch: Patch) -> None:
    """Open the messages of a backup with definitions that are not of it."""
    patch(recovery, "_refuse_half_a_backup", lambda directory, found, backup: None)


@mistake("I1", Operators(515, ("restore",), f"{LOST}|is None, not"))
def old_store_gone_before_the_new_is_whole(patch: Patch) -> None:
    """Remove what is to be replaced, and then make what replaces it."""
    prepare = restore_backup._prepare

    def remove_and_prepare(
        source: str, fill: Callable[[Path], None], fresh: Path, known: int
    ) -> restore_backup.Restored:
        shutil.rmtree(fresh.parent / recovery.MESSAGES_DIRECTORY, ignore_errors=True)
        for path in fresh.parent.glob(f"{recovery.DEFINITIONS_FILE}*"):
            path.unlink()
        return prepare(source, fill, fresh, known)

    patch(restore_backup, "_prepare", remove_and_prepare)


@mistake("I1", Operators(463, ("restore",), "Directory not empty"))
def restore_left_half_done(patch: Patch) -> None:
    """Start on what a restore has left that was cut short."""
    patch(restored_files, "finish", lambda directory, names: None)
