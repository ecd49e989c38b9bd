"""Ownership of the place that a data directory is shipped to: at most one broker has it.

The data directory notes the epoch that its broker took, before it is taken: a start after a crash knows it as its own.
A broker whose epoch is not the newest one is fenced: it notes so, and no broker starts on the directory again until
`leveret promote` takes the place back.
"""

from __future__ import annotations

from pathlib import Path
from threading import Lock
from typing import final

import msgspec

from storage import synced_files
from storage.ship.announced_chains import announce, announcement
from storage.ship.place_epochs import Epoch, new_epoch, newest_epoch, read_epoch, take_epoch
from storage.ship.targets.ship_target import PieceExists, ShipTarget, TargetError
from storage.storage_errors import StoreCorrupt, StoreError

NAME = "shipping.epoch"
"""The note in the data directory, in JSON."""


class Fenced(StoreError):
    """The place is owned by another broker: this one may not serve."""


class EpochNote(msgspec.Struct, frozen=True):
    """A data directory's epoch: the place, the number, its token and that of the epoch before. `fenced`: by whom."""

    place: str
    number: int
    token: str
    before: str = ""
    fenced: str = ""


def read_note(directory: Path) -> EpochNote | None:
    """Read the note of a data directory; None without one. Raises StoreCorrupt, OSError."""
    try:
        return msgspec.json.decode((directory / NAME).read_bytes(), type=EpochNote)
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError as error:
        raise StoreCorrupt(f"{directory / NAME} cannot be read ({error}): `leveret promote` writes it again") from error


def refuse_fenced(directory: Path) -> None:
    """Raise Fenced if the broker of a data directory has found itself fenced, and StoreCorrupt, OSError."""
    note = read_note(directory)
    if note is not None and note.fenced:
        raise Fenced(_sentence(directory, note.place, note.fenced))


def forget(directory: Path) -> None:
    """Forget the epoch of a data directory, and that it was fenced. Raises OSError."""
    (directory / NAME).unlink(missing_ok=True)
    synced_files.sync_directory(directory)


@final
class PlaceOwner:
    """The ownership of one place by the broker of one data directory. Any thread may call it; one at a time."""

    def __init__(self, target: ShipTarget, place: str, directory: Path) -> None:
        """`place`: how the settings name the target. The caller has locked the directory."""
        self.target = target
        self._place = place
        self._directory = directory
        self._lock = Lock()
        self._announcement = b""
        self.epoch = 0
        """The number that was taken; 0 before."""

    def claim(self) -> None:
        """Take the next epoch, unless the newest is another's; nothing if this is done. Raises Fenced, OSError."""
        with self._lock:
            if not self.epoch:
                self._take(over_others=False)

    def take_over(self) -> Epoch | None:
        """Take the next epoch, and so fence whoever has the newest. Returns that one. Raises StoreError, OSError."""
        with self._lock:
            return self._take(over_others=True)

    def announce(self, chain: str) -> None:
        """Announce the chain of this epoch, which is to be begun: no listing has to show it. Raises OSError."""
        if not self._announcement:  # the same once more: it is never written over
            self._announcement = announcement(self.target, self.epoch, chain)
        announce(self.target, self.epoch, self._announcement)

    def check(self) -> None:
        """Return if nobody has taken a later epoch. Raises Fenced, OSError."""
        try:
            later = read_epoch(self.target, self.epoch + 1)
        except StoreCorrupt as error:
            raise self._fence(read_note(self._directory), str(error)) from error
        if later is not None:
            raise self._fence(read_note(self._directory), str(later))

    def _take(self, *, over_others: bool) -> Epoch | None:
        note, newest = None if over_others else read_note(self._directory), newest_epoch(self.target)
        known = note is not None and note.place == self._place
        own = newest is None or (note is not None and newest.token in (note.token, note.before))
        if not (own or over_others):
            raise self._fence(note if known else None, str(newest))
        number = 1 if newest is None else newest.number + 1  # without a gap, whatever became of a try before
        tried = note.token if note is not None and known and note.number == number else ""
        epoch = new_epoch(number, self._directory, tried)
        before = newest.token if newest is not None else ""
        self._write(EpochNote(self._place, epoch.number, epoch.token, before if own else ""))
        try:
            take_epoch(self.target, epoch)
        except PieceExists:
            raise self._taken_before(epoch) from None
        self.epoch = epoch.number
        return newest

    def _taken_before(self, epoch: Epoch) -> Exception:
        """Return the error for a number that is taken: by a try before, which has arrived meanwhile, or by another."""
        found = read_epoch(self.target, epoch.number)
        if found is not None and found.token == epoch.token:
            return TargetError(f"epoch {epoch.number} was taken by a try before: it is to be tried once more")
        return self._fence(read_note(self._directory), "another broker, at the same moment")

    def _fence(self, note: EpochNote | None, owner: str) -> Fenced:
        """Return the error; noted, if the directory's broker has owned the place."""
        if note is not None:
            self._write(msgspec.structs.replace(note, fenced=owner))
        return Fenced(_sentence(self._directory, self._place, owner))

    def _write(self, note: EpochNote) -> None:
        synced_files.replace(self._directory / NAME, msgspec.json.encode(note))


def _sentence(directory: Path, place: str, owner: str) -> str:
    taken = f"{place} is owned by another ({owner})"
    remedy = "`leveret promote` on this directory takes it back and fences that one"
    return f"no broker may serve on {directory}: {taken}; {remedy}"
