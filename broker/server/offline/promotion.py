"""`leveret promote` on a directory on which nothing runs: its broker becomes the owner of the second place."""

from __future__ import annotations

from pathlib import Path

from broker.admin.protocol import AdministrationError
from broker.config import Config
from broker.server import directory_lock
from broker.server.shipping.second_place import opened_place
from storage.ship.place_epochs import Epoch
from storage.ship.place_owner import PlaceOwner, forget, read_note
from storage.storage_errors import StoreCorrupt


def promote(config: Config) -> Epoch | None:
    """Take the place of the settings over. Returns the epoch that is fenced now; None if there was none.

    Without a place, only the note that the directory's broker is fenced is removed. Raises AdministrationError if there
    is nothing to do, StoreError, and OSError if the target does not answer.
    """
    directory = config.server.directory
    with directory_lock.for_command(directory):
        if config.ship.to:
            with opened_place(config.ship) as target:
                return PlaceOwner(target, config.ship.to, directory).take_over()
        if not _is_fenced(directory):
            raise AdministrationError(
                "failed", f"{directory} has no second place (ship.to): its broker may serve as it is"
            )
        forget(directory)
        return None


def _is_fenced(directory: Path) -> bool:
    try:
        note = read_note(directory)
    except StoreCorrupt:
        return True
    return note is not None and bool(note.fenced)
