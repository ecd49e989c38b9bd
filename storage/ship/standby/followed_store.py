"""The stores of a standby: the newest base at a place, and every change behind it, as it is shipped.

What is on disk is always a state that the followed broker's own disk had, and a backup that was never opened: changes
are committed in their order, and whenever their kind changes. So a kill at any moment costs nothing but the reading
of some pieces again, and a promotion has nothing to prepare.

A new base is taken when the chain is damaged, when changes were not shipped, or when a later start of the broker has
begun a chain of its own. It is put together beside the old files, and exchanged for them when it is whole.
"""

from __future__ import annotations

import shutil
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import final

import lmdb
from msgspec.structs import replace

from storage import restored_files
from storage.ship.announced_chains import AnnouncedChains
from storage.ship.base_files import rebuild
from storage.ship.rebuilt_store import RebuiltStore
from storage.ship.sealed_piece import OpenedPiece, PieceKind
from storage.ship.shipped_chains import ShippedBase, bases_of, chains_of_store, read_pieces
from storage.ship.shipped_records import RecordKind, ShippedRecord, unpack
from storage.ship.standby.follow_note import FollowNote, read_note, write_note
from storage.ship.standby.piece_tail import PieceTail
from storage.ship.targets.ship_target import ShipTarget
from storage.storage_errors import StoreCorrupt, StoreError

NOTE_SECONDS = 5.0
"""Time after which the note is written once more: as much is read again after a kill."""


@final
class FollowedStore:
    """The stores in a data directory whose lock the caller has. One thread at a time uses it.

    `names`: of the files in it that a new base replaces, among them those of both stores and the note.
    """

    def __init__(
        self, target: ShipTarget, place: str, directory: Path, messages: str, definitions: str, names: Sequence[str]
    ) -> None:
        """`place`: how the target is named by whoever follows it; `messages`, `definitions`: names of the stores."""
        self._target = target
        self._announced = AnnouncedChains(target)
        self._place = place
        self._directory = directory
        self._files = messages, definitions
        self._names = names
        self.store: RebuiltStore | None = None
        """None until there is a base."""
        self.note: FollowNote | None = None
        """Progress of the reading; on disk it may be behind."""
        self._noted: FollowNote | None = None
        """The note on disk."""
        self.sealed = 0
        """Time at which the last piece was sealed that was read since `open`, in milliseconds; 0 for none."""
        self._tail: PieceTail | None = None
        self._kind: RecordKind | None = None
        """Kind of the records that are not committed yet."""
        self._noted_at = 0.0
        self._older: set[str] = set()
        """Chains that were looked at, and do not follow the present one."""

    def open(self) -> None:
        """Go on from what is in the directory, if it is of this place. Raises StoreError and OSError.

        Also StoreError if there is another broker's data.
        """
        self._remove_leftovers()
        note = read_note(self._directory)
        if note is not None and note.place == self._place and not note.promoted:
            self._open(note)
        elif note is None and any((self._directory / name).exists() for name in self._names):
            raise StoreError(f"{self._directory} holds a broker's data: follow into a directory of its own")

    def close(self) -> None:
        """Commit, and close the files. Raises StoreError and OSError; the files are closed then, too."""
        if self.store is None:
            return
        store, self._tail = self.store, None
        try:
            self.commit()
            self._save()
        finally:
            self.store = None
            with _told_apart():
                store.close()

    def newer_base(self) -> ShippedBase | None:
        """Return the newest base that a later start of the broker has shipped, or the newest of all for the first.

        Raises StoreIncompatible and OSError.
        """
        present = set() if self.note is None else {self.note.chain}
        after = -1 if self.note is None else self.note.base_time
        return self._newest(self._chains() - self._older - present, after)

    def later_base(self) -> ShippedBase | None:
        """Return the newest base behind what was read, in the present chain too: for one that cannot be read on.

        It lists every chain. Raises StoreIncompatible and OSError.
        """
        return self._newest(self._chains(), -1 if self.note is None else self.note.time)

    def _chains(self) -> set[str]:
        return set(chains_of_store(self._target, announced=self._announced))

    def _newest(self, chains: Iterable[str], after: int) -> ShippedBase | None:
        """Return the newest base of these chains, if it is later than `after`; chains that are older are noted."""
        newest: ShippedBase | None = None
        for chain in sorted(chains):
            found = max(bases_of(self._target, chain).found, key=_time, default=None)
            if found is not None and self.note is not None and found.time <= self.note.base_time:
                self._older.add(chain)
            if found is not None and found.time > max(after, -1 if newest is None else newest.time):
                newest = found
        return newest

    def prepare(self, base: ShippedBase, progress: Callable[[], None]) -> FollowNote:
        """Put a base together beside the present stores, to be taken. It reads all of it; `progress`: at each piece.

        Raises StoreError and OSError.
        """
        fresh = self._directory / restored_files.PREPARING
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(mode=0o700)
        messages, definitions = (fresh / name for name in self._files)
        pieces = _told(read_pieces(self._target, base), progress)
        with _told_apart():
            store, digest = rebuild(pieces, base, messages, definitions)
            with store:
                store.finish()
        boot, position = base.store.boot, base.contents.position - 1
        note = FollowNote(self._place, base.chain, base.end, digest.hex(), boot, position, base.time, base.time)
        write_note(fresh, note)
        for leftover in set(fresh.iterdir()) - {fresh / name for name in self._names}:
            leftover.unlink()  # locks
        return note

    def take(self, prepared: FollowNote) -> None:
        """Exchange the stores for a base that was prepared, and follow from there. Nobody reads them meanwhile.

        Raises StoreError and OSError; `open` then continues.
        """
        if self.store is not None:
            self.store.close()
            self.store = self._tail = None
        replaced = restored_files.exchange(self._directory, self._names)
        if replaced is not None:
            shutil.rmtree(replaced)
        self._older.clear()
        self._open(prepared)

    def advance(self, seconds: float) -> bool:
        """Apply the pieces that are there, for about `seconds`. False if there is none more at present.

        Raises StoreCorrupt if the chain cannot be read on, StoreError and OSError; what was applied is committed by
        `commit`, or by `close`.
        """
        assert self._tail is not None, "a base comes first"
        until = time.monotonic() + seconds
        while (piece := self._tail.next()) is not None:
            with _told_apart():
                self._apply(piece)
            if time.monotonic() >= until:
                return True
        return False

    def commit(self) -> None:
        """Put on disk what was applied. Raises StoreError."""
        assert self.store is not None, "a base comes first"
        with _told_apart():
            self.store.commit()
        self._kind = None
        if time.monotonic() - self._noted_at > NOTE_SECONDS:
            self._save()

    def tidy(self) -> bool:
        """Remove some of what is dead, if there are stores. True while there is more. Raises StoreError."""
        with _told_apart():
            return self.store is not None and self.store.tidy()

    def refuse_hole(self) -> None:
        """Raise StoreCorrupt if the next piece is missing although there are later ones, and OSError."""
        if self._tail is not None:
            self._tail.refuse_hole()

    def promote(self) -> FollowNote:
        """Close the stores and note that they are a broker's from now on. Returns how far they were followed."""
        note = self.note
        assert note is not None, "a base comes first"
        self.close()
        promoted = self.note = replace(note, promoted=True)
        write_note(self._directory, promoted)
        return promoted

    def _open(self, note: FollowNote) -> None:
        with _told_apart():
            self.store = RebuiltStore(*(self._directory / name for name in self._files))
        self._tail = PieceTail(self._target, note.chain, note.number, bytes.fromhex(note.digest))
        self._kind, self.note, self._noted, self.sealed = None, note, note, 0
        self._noted_at = time.monotonic()

    def _save(self) -> None:
        if self.note is not None and self.note is not self._noted:
            write_note(self._directory, self.note)
            self._noted = self.note
        self._noted_at = time.monotonic()

    def _apply(self, opened: OpenedPiece) -> None:
        assert self.note is not None and self._tail is not None  # noqa: PT018
        position, moment = self.note.position, self.note.time
        if opened.piece.kind is PieceKind.RECORDS:
            for record in unpack(opened.payload):
                if record.position != position + 1:
                    raise StoreCorrupt(
                        f"records {position + 1} to {record.position - 1} were not shipped: the target was too far "
                        "behind"
                    )
                self._apply_record(record)
                position, moment = record.position, record.time
        self._tail.passed(opened)
        self.sealed = opened.piece.time
        self.note = replace(
            self.note, number=self._tail.number, digest=self._tail.digest.hex(), position=position, time=moment
        )

    def _apply_record(self, record: ShippedRecord) -> None:
        assert self.store is not None, "a base comes first"
        if record.kind is not self._kind:
            self.store.commit()
            self._kind = record.kind
        self.store.apply(record)

    def _remove_leftovers(self) -> None:
        """Finish, or remove, what a kill has left of a new base. Of replaced files only a follower's are removed."""
        restored_files.finish(self._directory, self._names)
        shutil.rmtree(self._directory / restored_files.PREPARING, ignore_errors=True)
        for replaced in self._directory.glob("replaced-*"):
            with suppress(StoreError):
                note = read_note(replaced)
                if note is not None and not note.promoted:
                    shutil.rmtree(replaced)


@contextmanager
def _told_apart() -> Iterator[None]:
    """Raise StoreError for what LMDB and SQLite could not do: not a fault of what was shipped, nor of the target."""
    try:
        yield
    except (lmdb.Error, sqlite3.Error) as error:
        raise StoreError(f"the stores of the standby: {error}") from error


def _time(base: ShippedBase) -> int:
    return base.time


def _told(pieces: Iterator[OpenedPiece], tell: Callable[[], None]) -> Iterator[OpenedPiece]:
    for piece in pieces:
        tell()
        yield piece
