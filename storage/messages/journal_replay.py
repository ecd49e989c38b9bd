"""What a start does with the journal of the boot before: it gives LMDB what that lacks, in one commit."""

from __future__ import annotations

import logging
import shutil
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import lmdb

from storage.commit_failures import FailureClassifier
from storage.journal.journal import Journal
from storage.journal.journal_file import NAME
from storage.journal.journal_reader import read_journal
from storage.journal.journal_records import decode_batch
from storage.journal.unapplied_writes import UnappliedWrites
from storage.messages.keys import APPLIED, POSITION_END
from storage.messages.lmdb_writer import LmdbWriter
from storage.messages.records import Identity, NumberInBoot
from storage.space.store_space import StoreSpace
from storage.storage_errors import StoreCorrupt, StoreError

log = logging.getLogger("leveret.journal")


class Left(NamedTuple):
    """What a journal has that LMDB lacks. `problems` are sentences for an operator."""

    writes: UnappliedWrites
    number: int
    """Of the last record."""
    problems: list[str]


def left_in_journal(directory: Path, environment: lmdb.Environment, identity: Identity) -> Left:
    """Read what is to be given to LMDB, and write nothing. A damaged record is passed over. Raises StoreError."""
    with environment.begin() as txn:
        after = _applied(txn, identity.boot)
    try:
        contents = read_journal(directory, identity.uuid, identity.boot, after)
    except OSError as error:
        raise StoreError(f"{directory / NAME} cannot be read ({error}): see that this user may") from error
    left = Left(UnappliedWrites(), contents.records[-1].number if contents.records else after or 0, [])
    if contents.damaged:
        left.problems.append(f"{directory / NAME} is damaged: the batches that were in that place are lost")
    for record in contents.records:
        try:
            left.writes.add(decode_batch(record.payload, record.number))
        except StoreCorrupt as error:
            left.problems.append(str(error))
    return left


def replay(directory: Path, environment: lmdb.Environment, classifier: FailureClassifier, identity: Identity) -> bool:
    """Have LMDB catch up with what a boot has left. True if some of it was damaged: lanes have to be counted again.

    A damaged journal is kept beside the other, for inspection. Raises as `LmdbWriter.write` does, and StoreError.
    """
    left = left_in_journal(directory, environment, identity)
    for problem in left.problems:
        log.error("%s", problem)
    if left.problems:
        shutil.copyfile(directory / NAME, directory / f"{NAME}.damaged")
    if left.writes.batches:
        with closing(StoreSpace(directory, environment, Journal(None))) as space:
            writer = LmdbWriter(environment, classifier, space, identity.boot, POSITION_END)
            with closing(writer):
                writer.write(left.writes.sealed(), left.number)
    return bool(left.problems)


def _applied(txn: lmdb.Transaction[bytes], boot: int) -> int | None:
    """The number of the boot's last record that LMDB has, None where that cannot be read."""
    record = txn.get(APPLIED)
    try:
        applied = (
            NumberInBoot(0, 0)
            if record is None
            else NumberInBoot.decode(record, "the mark of what the journal has given to LMDB")
        )
    except StoreCorrupt:
        return None
    return applied.number if applied.boot == boot else 0
