"""Mistakes in what a start makes of files that are missing, damaged, or of another moment."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from broker.server import recovery
from broker.server.offline import accept_loss
from storage.definitions.change_count import ChangeCount
from storage.high_water import HighWaterFile
from storage.journal import journal_reader
from storage.journal.journal_reader import JournalContents
from storage.messages.start import journal_replay, store_opening
from storage.storage_errors import StoreIncomplete
from tests.planted.mistake import Operators, Patch, mistake

LOST = "has lost|known to have left"
NO_REASON = "does not say why"


def forgive(patch: Patch, reason: str) -> None:
    """Have a start go on with what it can read of a journal that is lost for a reason."""
    read = journal_reader.read_journal

    def read_and_forgive(*given: Any) -> JournalContents:
        contents = read(*given)
        forgiven = contents.lost is not None and reason in contents.lost.reason
        return contents._replace(lost=None) if forgiven else contents

    patch(journal_replay, "read_journal", read_and_forgive)


@mistake("I1", Operators(162, ("messages/journal missing",), LOST))
def missing_journal_taken_for_an_empty_one(patch: Patch) -> None:
    """Go on where there is no journal."""
    forgive(patch, "is missing")


@mistake("I1", Operators(162, ("messages/journal empty",), LOST))
def empty_journal_taken_for_a_new_one(patch: Patch) -> None:
    """Go on where the journal's file has nothing in it."""
    forgive(patch, "is empty")


@mistake("I1", Operators(107, ("messages/journal cut",), LOST))
def cut_journal_taken_as_it_is(patch: Patch) -> None:
    """Go on with what is left of a journal that is shorter than it was."""
    forgive(patch, "is cut short")


@mistake("I1", Operators(105, ("messages/journal a page zeroed",), LOST))
def damaged_record_taken_for_the_last(patch: Patch) -> None:
    """Take a record that fails its checksum for one that a crash has cut short, whatever lies behind it."""
    forgive(patch, "is damaged at")


@mistake("I1", Operators(1192, ("messages/journal another's",), LOST))
def journal_of_another_taken_for_an_empty_one(patch: Patch) -> None:
    """Go on where the journal has another salt."""
    forgive(patch, "do not belong together")


@mistake("I1", Operators(779, ("messages/journal older",), LOST))
def high_water_mark_not_read(patch: Patch) -> None:
    """Rely on what is in the journal alone."""
    patch(journal_replay, "read_high_water", lambda path: None)


@mistake("I10", Operators(162, ("move",), NO_REASON))
def high_water_mark_ahead(patch: Patch) -> None:
    """Note the number of the batch that comes next, which is not on disk yet."""
    note = HighWaterFile.note
    patch(HighWaterFile, "note", lambda mark, owner, boot, number: note(mark, owner, boot, number + 1))


@mistake("I1", Operators(314, ("a life", "messages/data.mdb older"), LOST))
def older_messages_accepted(patch: Patch) -> None:
    """Open messages of an earlier moment: what is of a later boot is overlooked."""
    patch(journal_replay, "_lost_to_earlier_boot", lambda directory, identity: None)


@mistake("I5", Operators(162, ("definitions.sqlite-wal missing",), "is of an earlier moment"))
def older_definitions_accepted(patch: Patch) -> None:
    """Open definitions of an earlier moment: that changes are missing is not noticed."""
    patch(ChangeCount, "missing", lambda count, metadata: "")


@mistake("I1", Operators(4, ("a life", "messages/data.mdb older"), "refused again"))
def refused_start_that_sets_aside(patch: Patch) -> None:
    """Set the journal aside although the start is refused."""
    look = store_opening._unapplied_of_last_boot

    def look_and_set_aside(directory: Path, *given: Any, **how: Any) -> Any:
        try:
            return look(directory, *given, **how)
        except StoreIncomplete:
            journal_replay.set_aside(directory, "damaged")
            raise

    patch(store_opening, "_unapplied_of_last_boot", look_and_set_aside)


@mistake("I1", Operators(637, ("messages/journal missing",), LOST))
def loss_accepted_by_default(patch: Patch) -> None:
    """Have every start go on without what is missing."""
    _accepting(patch)


def _accepting(patch: Patch) -> None:
    opened: Callable[..., recovery.Stores] = recovery.open_stores

    def open_anyway(*given: Any, **how: Any) -> recovery.Stores:
        return opened(*given, **{**how, "accept_loss": True})

    patch(recovery, "open_stores", open_anyway)


@mistake("I1", Operators(1192, ("messages/journal missing", "leveret recover"), LOST))
def loss_accepted_without_being_asked(patch: Patch) -> None:
    """Have `leveret recover` go on without what is missing, also where it is only asked what that is."""

    def accept(config: Any) -> list[str]:
        return list(filter(None, [accept_loss.accept_loss(config)]))

    patch(accept_loss, "missing", accept)
