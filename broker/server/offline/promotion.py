"""`leveret promote` on a directory on which nothing runs: its broker becomes the owner of the second place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from broker.admin.protocol import AdministrationError
from broker.config import Config
from broker.server import directory_lock
from broker.server.offline.offline_commands import directory_with_stores
from broker.server.shipping.second_place import opened_place
from storage.ship.place_owner import PlaceOwner, forget, read_note
from storage.ship.standby import follow_note
from storage.storage_errors import StoreCorrupt


def promote(config: Config, *, without_place: bool = False) -> dict[str, Any]:
    """Take the place of the settings over, or, with a standby's directory, the one that it follows.

    Returns the epoch that is fenced now, and of a standby how far it followed, as `Promotion.shown` has it. Without a
    place, only the note that the directory's broker is fenced is removed. Raises AdministrationError if there is
    nothing to do, or nothing to serve, StoreError, and OSError if the target does not answer.
    """
    directory = directory_with_stores(config)  # a directory named by mistake would fence the broker that serves
    with directory_lock.for_command(directory):
        following = follow_note.read_note(directory)
        if following is not None and not following.promoted:
            return _promote_standby(config, following.place, without_place=without_place)
        if config.ship.to:
            with opened_place(config.ship) as target:
                fenced = PlaceOwner(target, config.ship.to, directory).take_over()
            return {**_NOTHING, "fenced": "" if fenced is None else str(fenced)}
        if not _is_fenced(directory):
            raise AdministrationError(
                "failed", f"{directory} has no second place (ship.to): its broker may serve as it is"
            )
        forget(directory)
        return _NOTHING


_NOTHING: dict[str, Any] = {"fenced": "", "moment": "", "position": "", "problems": []}


def _promote_standby(config: Config, place: str, *, without_place: bool) -> dict[str, Any]:
    # Imported here: other directories do without it.
    from broker.server.standby.follow_thread import FollowThread

    directory = config.server.directory
    with opened_place(config.ship, place) as target:
        thread = FollowThread(target, place, directory)
        thread.start()
        try:
            return thread.promote(without_place=without_place).shown()
        finally:
            thread.stop()


def _is_fenced(directory: Path) -> bool:
    try:
        note = read_note(directory)
    except StoreCorrupt:
        return True
    return note is not None and bool(note.fenced)
