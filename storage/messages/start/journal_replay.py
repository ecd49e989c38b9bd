"""Replay of the journal at a start: the batches that LMDB lacks are applied to it in one commit."""

from __future__ import annotations

import logging
import struct
import time
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import lmdb

from storage.batch import SealedBatch
from storage.commit_failures import FailureClassifier
from storage.high_water import HighWaterMark, read_high_water
from storage.journal.first_format import read_first_format
from storage.journal.journal import HIGH_WATER, Journal
from storage.journal.journal_file import NAME, PAGE_BYTES
from storage.journal.journal_mark import CLOSED, NO_BATCH_YET, OPEN, JournalMark, JournalPosition
from storage.journal.journal_payload import decode_batch
from storage.journal.journal_reader import JournalContents, LostBatches, read_head, read_journal
from storage.journal.unapplied_writes import UnappliedWrites
from storage.messages.keys import FIRST_FORMAT_APPLIED, JOURNAL_MARK, POSITION_END
from storage.messages.lmdb_writer import LmdbWriter
from storage.messages.small_records import NumberInBoot, StoreIdentity
from storage.messages.store_origin import read_origin
from storage.space.store_space import StoreSpace
from storage.storage_errors import StoreCorrupt, StoreError, StoreIncomplete

log = logging.getLogger("leveret.journal")

_UNFIT = (struct.error, OverflowError, ValueError, TypeError, LookupError)
"""Errors of applying a batch that no broker has written."""


class UnappliedBatches(NamedTuple):
    """The batches of a journal that LMDB lacks, in order, and the mark that LMDB gets with them.

    `lost` are batches that cannot be read; `batches` then has those before and behind them. `ring_bytes`: size of the
    journal's ring, None if it is not known.
    """

    batches: list[SealedBatch]
    mark: JournalMark
    lost: LostBatches | None
    ring_bytes: int | None

    @property
    def writes(self) -> UnappliedWrites:
        """All batches, merged."""
        writes = UnappliedWrites()
        for batch in self.batches:
            writes.add(batch)
        return writes


def unapplied_in_journal(directory: Path, environment: lmdb.Environment, identity: StoreIdentity) -> UnappliedBatches:
    """Read the batches of the journal that LMDB lacks, and write nothing. Raises StoreError."""
    try:
        with environment.begin() as txn:
            record, applied, origin = txn.get(JOURNAL_MARK), txn.get(FIRST_FORMAT_APPLIED), read_origin(txn)
        if origin.pending:
            return NOTHING_UNAPPLIED
        if (lost := _lost_to_earlier_boot(directory, identity)) is not None:
            return NOTHING_UNAPPLIED._replace(lost=lost)
        if record is None:
            return _in_first_format(directory, identity, applied)
        try:
            mark = JournalMark.decode(record)
        except StoreCorrupt as error:
            return _without_mark(directory, identity, str(error))
        return _behind_mark(directory, identity, mark)
    except OSError as error:
        raise StoreError(f"{directory / NAME} cannot be read ({error}): check that this user may read it") from error


NOTHING_UNAPPLIED = UnappliedBatches([], NO_BATCH_YET, None, None)


def known_boot(directory: Path) -> int:
    """Highest boot that the files beside data.mdb name; 0 for none."""
    reached, head = read_high_water(directory / HIGH_WATER), read_head(directory)
    return max(0 if reached is None else reached.boot, 0 if head is None else head.number)


def _lost_to_earlier_boot(directory: Path, identity: StoreIdentity) -> LostBatches | None:
    known = known_boot(directory)
    if known <= identity.boot:
        return None
    data = directory / "data.mdb"
    reason = f"{data} is of an earlier moment, boot {identity.boot}, than the journal beside it, boot {known}"
    return LostBatches(1, 0, reason)


def _behind_mark(directory: Path, identity: StoreIdentity, mark: JournalMark) -> UnappliedBatches:
    """Read the batches behind LMDB's mark. Behind a mark that needs no journal there must be none."""
    reached = read_high_water(directory / HIGH_WATER)
    if mark.needs_journal:
        contents = read_journal(directory, mark, reached)
        return _decoded(contents, mark._replace(position=contents.position), mark.size)
    lost = _older_than(directory, identity, mark, reached)
    return UnappliedBatches([], mark, lost, mark.size)


def _older_than(
    directory: Path, identity: StoreIdentity, mark: JournalMark, reached: HighWaterMark | None
) -> LostBatches | None:
    """Batches that the high-water mark counts and LMDB lacks, although its mark says that it has everything."""
    if reached is None or reached.boot != identity.boot:
        return None
    same = mark.state != CLOSED or reached.owner == mark.salt
    if same and reached.number <= mark.position.number:
        return None
    reason = f"{directory / 'data.mdb'} is of an earlier moment than {directory / HIGH_WATER}"
    return LostBatches(mark.position.number + 1, reached.number, reason)


def _decoded(contents: JournalContents, mark: JournalMark, ring_bytes: int | None) -> UnappliedBatches:
    batches, lost = [], contents.lost
    for record in contents.records:
        try:
            batches.append(decode_batch(record.payload, record.number))
        except StoreCorrupt as error:
            lost = lost or LostBatches(record.number, record.number, str(error))
    return UnappliedBatches(batches, mark, lost, ring_bytes)


def _in_first_format(directory: Path, identity: StoreIdentity, applied: bytes | None) -> UnappliedBatches:
    """Read the batches in the first format of the journal, as the release that wrote them would."""
    after = _applied(applied, identity.boot)
    contents = read_first_format(directory, identity.uuid, identity.boot, after)
    last = contents.records[-1].number if contents.records else after or 0
    lost = None
    if contents.damaged is not None:
        lost = LostBatches(contents.damaged, contents.damaged, f"{directory / NAME} is damaged")
    found = JournalContents(contents.records, JournalPosition(last, 0, 0), lost)
    # With the commit of these batches nothing in this file counts any more.
    return _decoded(found, NO_BATCH_YET._replace(state=CLOSED), contents.end or None)


def _without_mark(directory: Path, identity: StoreIdentity, damage: str) -> UnappliedBatches:
    """Read the unbroken run of records that ends this boot's journal, because LMDB's mark is damaged.

    Applying a batch again changes nothing as long as all later ones are applied again too.
    """
    head = read_head(directory)
    reason = f"{directory / 'data.mdb'}: {damage}"
    if head is None or head.number != identity.boot:
        return UnappliedBatches([], NO_BATCH_YET._replace(state=CLOSED), LostBatches(1, 0, reason), None)
    mark = JournalMark(OPEN, head.salt, head.size * PAGE_BYTES, JournalPosition(0, 0, head.previous), 0)
    contents = read_journal(directory, mark, None)
    records = contents.records
    last = records[-1].number if records else 0
    run = [record for at, record in enumerate(records, 1 - len(records)) if record.number == last + at]
    found = JournalContents(run, contents.position, LostBatches(last + 1, last, reason))
    return _decoded(found, mark._replace(position=contents.position), mark.size)


def _applied(record: bytes | None, boot: int) -> int | None:
    """Number of the boot's last record that LMDB has applied; None if that cannot be read."""
    if record is None:
        return 0
    try:
        applied = NumberInBoot.decode(record, "the mark of what the journal has given to LMDB")
    except StoreCorrupt:
        return None
    return applied.number if applied.boot == boot else 0


def replay(
    directory: Path,
    environment: lmdb.Environment,
    classifier: FailureClassifier,
    identity: StoreIdentity,
    unapplied: UnappliedBatches,
    *,
    accept_loss: bool,
) -> LostBatches | None:
    """Apply to LMDB what the last boot left in its journal. Returns the accepted loss, after which lanes are recounted.

    Raises as `LmdbWriter.write` does, and StoreIncomplete, with nothing changed, if a batch cannot be applied and
    `accept_loss` is off. What cannot be read of the journal has been refused or accepted before.
    """
    if not unapplied.batches:
        return unapplied.lost
    assert all(low.number < high.number for low, high in pairwise(unapplied.batches)), "batches ascend in number"
    with closing(StoreSpace(directory, environment, Journal(None))) as space:
        with closing(LmdbWriter(environment, classifier, space, identity.boot, POSITION_END)) as writer:
            try:
                writer.write(unapplied.writes.sealed(), unapplied.mark)
                return unapplied.lost
            except _UNFIT as error:
                numbers = [batch.number for batch in unapplied.batches]
                unfit = LostBatches(numbers[0], numbers[-1], f"a batch of the journal cannot be applied ({error})")
                if not accept_loss:
                    raise StoreIncomplete(refusal(unfit)) from error
            return _apply_one_by_one(writer, unapplied)


def _apply_one_by_one(writer: LmdbWriter, unapplied: UnappliedBatches) -> LostBatches | None:
    """Apply each batch that LMDB takes, on its own: applied together, one bad batch has failed all."""
    lost = unapplied.lost
    for batch in unapplied.batches:
        writes = UnappliedWrites()
        writes.add(batch)
        try:
            writer.write(writes.sealed(), None)
        except _UNFIT as error:
            reason = f"a batch of the journal cannot be applied ({error})"
            lost = lost or LostBatches(batch.number, batch.number, reason)
    return lost


def refusal(lost: LostBatches) -> str:
    """Text of the error with which a start refuses a loss."""
    return (
        f"{lost.sentence}: bring the file back as the last broker left it, or do without what is lost by "
        "`leveret recover --accept-loss` or store.accept_loss = true, which set it aside"
    )


def set_aside(directory: Path, kind: str) -> list[Path]:
    """Rename the journal and its high-water mark, so that they do not count as this store's. Returns the new paths."""
    moment, kept = time.strftime("%Y%m%dT%H%M%S", time.gmtime()), []
    for name in (NAME, HIGH_WATER):
        path = directory / name
        if path.exists():
            kept.append(path.rename(_free_name(directory / f"{name}.{kind}-{moment}")))
    return kept


def _free_name(path: Path) -> Path:
    """Return the path, or the first of PATH-2, PATH-3, ... that is free."""
    candidates = (path.with_name(f"{path.name}-{number}") for number in range(2, 1 << 30))
    return path if not path.exists() else next(found for found in candidates if not found.exists())
