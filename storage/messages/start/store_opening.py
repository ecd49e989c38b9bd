"""Opening a store: the last boot's journal is applied, and a boot begins.

Nothing is written before everything was read, and the journal is not cut or overwritten before LMDB has its batches. So
a start that is refused, or interrupted, can be repeated.
"""

from __future__ import annotations

import logging
import time
import uuid as uuids
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

import lmdb

from storage.batch import COUNTER_BITS, TRANSIENT_QUEUE
from storage.commit_failures import FailureClassifier, retry_once
from storage.journal.journal import Journal
from storage.journal.journal_file import release_reserve
from storage.journal.journal_mark import NO_BATCH_YET
from storage.journal.journal_reader import LostBatches
from storage.messages import lmdb_environment, stepwise_deletion
from storage.messages.key_lookup import records
from storage.messages.keys import (
    ACCEPTED_LOSS,
    DELETION,
    FIRST_FORMAT_APPLIED,
    IDENTITY,
    JOURNAL_MARK,
    LANE,
    LAST_EVENT,
    ORIGIN,
    SEGMENT,
    number_key,
    number_of,
)
from storage.messages.small_records import AcceptedLoss, StoreIdentity, decode_counters
from storage.messages.start import journal_replay
from storage.messages.start.journal_replay import UnappliedBatches
from storage.messages.start.start_repair import repair
from storage.messages.store_origin import StoreOrigin, first_boot, next_offset, read_origin
from storage.space import ballast
from storage.space.store_space import StoreSpace
from storage.storage_errors import StoreCorrupt, StoreFull, StoreIncompatible, StoreIncomplete

log = logging.getLogger("leveret.journal")

Result = TypeVar("Result")


class Opening(NamedTuple):
    """The options of `MessageStore.open`."""

    uuid: bytes | None
    compact: bool
    create: bool
    journal_bytes: int
    recorded: bool
    accept_loss: bool
    known_boot: int
    queue_ids: int


class Opened(NamedTuple):
    """The parts of an open store."""

    environment: lmdb.Environment
    identity: StoreIdentity
    origin: StoreOrigin
    journal: Journal
    classifier: FailureClassifier
    space: StoreSpace
    lost: LostBatches | None
    accepted: dict[int, AcceptedLoss]


def open_directory(directory: Path, opening: Opening) -> Opened:
    """Open a store whose lock is held. Raises as `MessageStore.open` does, and OSError and lmdb.Error."""
    if not lmdb_environment.exists(directory):
        if not opening.create:
            raise StoreIncompatible(f"{directory} does not exist, although it should: restore it from a backup")
        lmdb_environment.create(directory, opening.uuid or uuids.uuid4().bytes)
    identity = lmdb_environment.check_identity(directory, opening.uuid)
    unapplied = _unapplied_of_last_boot(directory, identity, accept_loss=opening.accept_loss)
    lmdb_environment.cut_back(directory)
    if opening.compact:
        lmdb_environment.compact_if_worth_it(directory)
    with_room = partial(_with_room, directory, unapplied.ring_bytes)
    with ExitStack() as undo:
        open_environment = partial(lmdb_environment.open_environment, directory)
        environment = undo.enter_context(with_room(open_environment))
        classifier = undo.enter_context(closing(FailureClassifier(directory)))
        replay = partial(journal_replay.replay, accept_loss=opening.accept_loss)
        lost = with_room(partial(replay, directory, environment, classifier, identity, unapplied))
        begin = partial(_begin_boot, directory, environment, classifier, identity, opening, lost)
        begun, origin = with_room(begin)
        _set_aside(directory, lost, is_new_timeline=origin.timeline == begun.boot)
        journal = undo.enter_context(closing(Journal.open(directory, begun.boot, opening.journal_bytes)))
        space = undo.enter_context(closing(StoreSpace(directory, environment, journal)))
        space.restore_ballast()
        undo.pop_all()
        return Opened(environment, begun, origin, journal, classifier, space, lost, _accepted(environment))


def _unapplied_of_last_boot(directory: Path, identity: StoreIdentity, *, accept_loss: bool) -> UnappliedBatches:
    """Read the journal. Raises StoreIncomplete if batches are lost and `accept_loss` is off."""
    with lmdb_environment.open_environment(directory, readonly=True) as environment:
        unapplied = journal_replay.unapplied_in_journal(directory, environment, identity)
    if unapplied.lost is not None and not accept_loss:
        raise StoreIncomplete(journal_replay.refusal(unapplied.lost))
    return unapplied


def _with_room(directory: Path, ring_bytes: int | None, write: Callable[[], Result]) -> Result:
    """Call `write`; on a full disk again after freeing reserve and ballast: only a running broker can free more."""
    releases = [partial(ballast.release, directory)]
    if ring_bytes is not None:
        releases.insert(0, partial(release_reserve, directory, ring_bytes))
    for release in releases:
        try:
            return retry_once(write)
        except StoreFull:
            release()
    return retry_once(write)


def _begin_boot(
    directory: Path,
    environment: lmdb.Environment,
    classifier: FailureClassifier,
    identity: StoreIdentity,
    opening: Opening,
    lost: LostBatches | None,
) -> tuple[StoreIdentity, StoreOrigin]:
    """Count the boot in one commit. Behind it nothing in the journal is needed any more."""
    try:
        with environment.begin(write=True, buffers=True) as txn:
            begun, origin = _next_boot(directory, txn, identity, opening)
            assert begun.boot > identity.boot, f"boot {begun.boot} does not come after boot {identity.boot}"
            txn.put(IDENTITY, begun.encode())
            txn.put(JOURNAL_MARK, NO_BATCH_YET.encode())
            txn.delete(FIRST_FORMAT_APPLIED)
            if not opening.recorded:
                # The record of an earlier boot would say that nothing happened in this one.
                txn.delete(LAST_EVENT)
            if lost is not None:
                loss = AcceptedLoss(lost.first, max(lost.last, lost.first), time.time_ns() // 1_000_000)
                txn.put(number_key(ACCEPTED_LOSS, begun.boot), loss.encode())
            repair(txn, begun.boot, recount=lost is not None)
            stepwise_deletion.begin_boot(txn, begun.boot)
    except lmdb.Error as error:
        raise classifier.classify(error) from error
    return begun, origin


def _next_boot(
    directory: Path, txn: lmdb.Transaction[memoryview], identity: StoreIdentity, opening: Opening
) -> tuple[StoreIdentity, StoreOrigin]:
    """Return the identity of the boot that begins, and the store's origin, which is stored if it changes."""
    origin = read_origin(txn)
    known = max(opening.known_boot, journal_replay.known_boot(directory))
    if known <= identity.boot and not origin.pending:
        return identity._replace(boot=identity.boot + 1), origin
    boot = first_boot(identity.boot, known)
    offset = next_offset(max(origin.offset, _highest_offset(txn)), boot)
    origin = StoreOrigin(False, origin.backup, boot, max(highest_queue_id(txn), opening.queue_ids), offset)
    txn.put(ORIGIN, origin.encode())
    return identity._replace(boot=boot), origin


def _set_aside(directory: Path, lost: LostBatches | None, *, is_new_timeline: bool) -> None:
    """Keep a journal that is damaged or not this store's under another name, and log that name.

    It is called once LMDB needs nothing of the journal. If the process ends before, the journal is not kept.
    """
    if lost is not None:
        log.error("%s; the loss is accepted", lost.sentence)
    if is_new_timeline:
        log.warning("%s was restored, or is of an earlier moment: numbers continue above all known ones", directory)
    if lost is not None or is_new_timeline:
        for path in journal_replay.set_aside(directory, "set-aside" if lost is None else "damaged"):
            log.warning("%s is kept for inspection; delete it when it is not needed", path)


def _accepted(environment: lmdb.Environment) -> dict[int, AcceptedLoss]:
    """Read the accepted losses, by the boot that began without the batches."""
    found = {}
    with environment.begin(buffers=True) as txn:
        for key, value in records(txn, ACCEPTED_LOSS):
            with suppress(StoreCorrupt):
                found[number_of(key)] = AcceptedLoss.decode(value)
    return found


def _highest_offset(txn: lmdb.Transaction[memoryview]) -> int:
    """Return an offset that no stream has exceeded. Positions in other queues are above all offsets, or 0."""
    highest = 0
    for _key, value in records(txn, LANE):
        with suppress(StoreCorrupt):
            end = decode_counters(value).delivered_up_to
            highest = max(highest, end if end >> COUNTER_BITS == 0 else 0)
    return highest


def highest_queue_id(txn: lmdb.Transaction[memoryview]) -> int:
    """Highest id of a durable queue with records; 0 for none."""
    return max(_highest_number(txn, kind) for kind in (LANE, SEGMENT, DELETION))


def _highest_number(txn: lmdb.Transaction[memoryview], kind: bytes) -> int:
    cursor = txn.cursor()
    found = cursor.set_range(number_key(kind, TRANSIENT_QUEUE))
    found = cursor.prev() if found else cursor.last()
    key = bytes(cursor.key()) if found else b""
    return number_of(key) if key.startswith(kind) else 0
