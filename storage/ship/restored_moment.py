"""Restores the stores of one moment from a target into new files.

The newest base before the moment is read, then the records behind it, piece by piece. A piece that is damaged or
missing ends the restore with the last whole record before it; if it is part of the base, an older base is taken.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

import lmdb

from storage.ship.base_files import RECORDS_FILE, rebuild
from storage.ship.rebuilt_store import RebuiltStore
from storage.ship.sealed_piece import OpenedPiece, PieceKind, parse_piece_name, piece_name, unseal
from storage.ship.shipped_chains import ShippedBase, chains_of_store, is_there, read_bases, read_pieces
from storage.ship.shipped_records import ShippedRecord, unpack
from storage.ship.shown_moment import moment
from storage.ship.targets.ship_target import ShipTarget
from storage.storage_errors import StoreCorrupt, StoreError

Progress = Callable[[int], AbstractContextManager[Callable[[int], None]]]
"""Gives, for a number of pieces to be read, what is called with the number of those read so far."""


class Moment(NamedTuple):
    """The moment to restore: the last record that is neither later nor behind this position of its boot."""

    time: int | None = None
    boot: int | None = None
    position: int | None = None

    def reaches(self, base: ShippedBase) -> bool:
        """Return whether a base can be used for it."""
        if self.position is not None:
            return base.store.boot == self.boot and base.contents.position <= self.position + 1
        return self.time is None or base.time <= self.time

    def excludes(self, record: ShippedRecord) -> bool:
        """Return whether a record comes after the moment."""
        if self.position is not None:
            return record.position > self.position
        return self.time is not None and record.time > self.time


class RestoredMoment(NamedTuple):
    """The moment that was restored. `problems`: why it is not the one that was asked for, or not by the newest base."""

    boot: int
    position: int
    time: int
    records: int
    problems: list[str]


def restore_moment(
    target: ShipTarget, wanted: Moment, messages: Path, definitions: Path, progress: Progress
) -> RestoredMoment:
    """Restore a moment into two paths, where nothing is. Raises StoreError if there is no base for it, and OSError."""
    bases = read_bases(target)
    usable = [base for base in bases.found if wanted.reaches(base)]
    problems = list(bases.damaged)
    for base in reversed(usable):
        try:
            restored = _from_base(target, base, wanted, messages, definitions, progress)
            lost = _lost_chains(target, base.chain, wanted)
            return restored._replace(problems=[*problems, *restored.problems, *lost])
        except (StoreError, lmdb.Error) as error:
            problems.append(f"the base of {moment(base.time)} cannot be used: {error}")
            _remove(messages, definitions)
    oldest = f"the oldest is of {moment(bases.found[0].time)}" if bases.found else "there is no whole base at all"
    raise StoreError("; ".join([f"{target} has no base for this moment: {oldest}", *problems]))


def _lost_chains(target: ShipTarget, chain: str, wanted: Moment) -> Iterator[str]:
    """Yield sentences about later chains that cannot be used because pieces are missing: one may have ended a base.

    A chain whose first base was not complete has no gap.
    """
    later = [name for name in chains_of_store(target) if name > chain] if wanted.position is None else []
    for name in later:
        found = dict(filter(None, map(parse_piece_name, target.names(name))))
        unlisted = (number for number in range(1, max(found, default=0)) if number not in found)
        missing = next((number for number in unlisted if not is_there(target, name, number)), 0)
        if missing and _began_before(target, name, min(found.items()), wanted):
            yield f"piece {missing} of {name} is missing: nothing of this boot can be used"


def _began_before(target: ShipTarget, chain: str, first: tuple[int, PieceKind], wanted: Moment) -> bool:
    """Return whether the moment is behind the first piece that there is of a chain."""
    if wanted.time is None:
        return True
    name = piece_name(*first)
    return unseal(target.get(chain, name), f"{chain}/{name}").piece.time <= wanted.time


def _from_base(
    target: ShipTarget, base: ShippedBase, wanted: Moment, messages: Path, definitions: Path, progress: Progress
) -> RestoredMoment:
    listed = filter(None, map(parse_piece_name, target.names(base.chain)))
    with progress(sum(number >= base.first for number, _kind in listed)) as tell:
        pieces = _counted(read_pieces(target, base), tell)
        store, _digest = rebuild(pieces, base, messages, definitions)
        with store:
            reached = _apply_records(store, pieces, base, wanted)
            store.finish()
    return reached


def _counted(pieces: Iterator[OpenedPiece], tell: Callable[[int], None]) -> Iterator[OpenedPiece]:
    for number, piece in enumerate(pieces, 1):
        tell(number)
        yield piece


def _apply_records(
    store: RebuiltStore, pieces: Iterator[OpenedPiece], base: ShippedBase, wanted: Moment
) -> RestoredMoment:
    """Apply the records behind a base up to the moment, or to the last whole one before damage."""
    position, time, count, problems = base.contents.position - 1, base.time, 0, []
    try:
        for record in _records(pieces):
            if record.position != position + 1:
                raise StoreCorrupt(
                    f"records {position + 1} to {record.position - 1} were not shipped: the target was too far behind"
                )
            if wanted.excludes(record):
                break
            store.apply(record)
            position, time, count = record.position, record.time, count + 1
    except StoreCorrupt as error:
        problems.append(f"{error}: restored up to the last whole record before")
    if wanted.position is not None and position < wanted.position and not problems:
        problems.append(f"nothing of boot {base.store.boot} behind position {position} was shipped")
    return RestoredMoment(base.store.boot, position, time, count, problems)


def _records(pieces: Iterator[OpenedPiece]) -> Iterator[ShippedRecord]:
    for piece, payload, _digest in pieces:
        if piece.kind is PieceKind.RECORDS:
            yield from unpack(payload)


def _remove(messages: Path, definitions: Path) -> None:
    shutil.rmtree(messages, ignore_errors=True)
    for name in (definitions.name, f"{definitions.name}-wal", RECORDS_FILE):
        definitions.with_name(name).unlink(missing_ok=True)
