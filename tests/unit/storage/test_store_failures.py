"""The message store when a start, a disk or a record is not as it should be."""

from __future__ import annotations

import gc
import os
import random
import resource
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import lmdb
import pytest

from harness.brokers.full_disk import no_file_larger_than
from storage.batch import TRANSIENT_QUEUE, LaneState, SealedBatch
from storage.batch_removals import additions, removals
from storage.commit_failures import FailureClassifier
from storage.journal.unapplied_writes import merged
from storage.messages import lmdb_environment
from storage.messages.backup import backup
from storage.messages.keys import (
    BODY,
    DELETION,
    IDENTITY,
    LANE,
    REFERENCES,
    SEGMENT,
    SETTLED,
    SWEEP,
    number_key,
    place_key,
)
from storage.messages.message_store import MessageStore
from storage.messages.small_records import StoreIdentity, encode_number
from storage.offline.verify_messages import verify
from storage.record_frame import frame
from storage.space import ballast
from storage.storage_errors import StoreCutShort, StoreError, StoreFailed, StoreFull, StoreIncompatible
from tests.unit.storage.writing import END, Writer, bodies, clear_away, contents

Change = Callable[[lmdb.Transaction], object]


def change(path: Path, how: Change) -> None:
    """Change records of a stopped store behind its back."""
    with lmdb_environment.open_environment(path) as environment, environment.begin(write=True) as txn:
        how(txn)


def flip(kind: bytes, at: int) -> Change:
    """Damage one byte of the first record of a kind."""

    def damage(txn: lmdb.Transaction) -> None:
        cursor = txn.cursor()
        assert cursor.set_range(kind)
        key, value = bytes(cursor.key()), bytearray(cursor.value())
        assert key.startswith(kind)
        value[at] ^= 0xFF
        txn.put(key, bytes(value))

    return damage


def filled(path: Path) -> list[int]:
    with MessageStore.open(path) as store:
        writer = Writer(store)
        positions = writer.puts(1, [b"message %d" % number for number in range(10)])
        writer.put(2, b"shared", body_id=9)
        writer.flush()
        return positions


# Opening


def a_holiday(path: Path) -> None:
    path.mkdir()
    (path / "holiday.jpg").write_bytes(b"\xff\xd8")


def another_environment(path: Path) -> None:
    with lmdb.Environment(str(path)) as environment, environment.begin(write=True) as txn:
        txn.put(b"key", b"value")


def of_a_newer_release(path: Path) -> None:
    filled(path)
    change(path, lambda txn: txn.put(IDENTITY, b"\x02" + StoreIdentity(bytes(16), 1).encode()[1:]))


@pytest.mark.parametrize(
    ("make", "text"),
    [(a_holiday, "no message store"), (another_environment, "something else"), (of_a_newer_release, "version 2")],
)
def test_what_is_not_ours_is_refused(path: Path, make: Callable[[Path], object], text: str) -> None:
    """Every byte and the lock stay as they were."""
    make(path)
    before = contents(path)
    for _ in range(2):
        with pytest.raises(StoreIncompatible, match=text):
            MessageStore.open(path)
    assert contents(path) == before


def test_a_store_is_made_where_there_is_none(path: Path) -> None:
    """Leftovers of an interrupted creation do not matter; a store that ought to exist is not made."""
    with pytest.raises(StoreIncompatible, match="restore it from a backup"):
        MessageStore.open(path, create=False)
    with pytest.raises(StoreIncompatible, match="does not exist"):
        verify(path)
    assert not path.exists()
    fresh = path.with_name("messages.new")
    fresh.write_bytes(b"a file where the new store would be made")
    with pytest.raises(StoreError, match="cannot be opened"):
        MessageStore.open(path)
    fresh.unlink()
    fresh.mkdir()
    (fresh / "data.mdb").write_bytes(b"torn")
    assert len(filled(path)) == 10
    assert not fresh.exists()


# Damage


def cut_to_zeros(kind: bytes) -> Change:
    """Zeros are the right checksum for nothing."""

    def damage(txn: lmdb.Transaction) -> None:
        cursor = txn.cursor()
        assert cursor.set_range(kind)
        txn.put(bytes(cursor.key()), frame(b""))

    return damage


DAMAGES: dict[str, tuple[Change, int, bool]] = {
    "version of counters": (flip(LANE, 0), 9, True),
    "counters": (flip(LANE, 10), 9, True),
    "counters cut to zeros": (cut_to_zeros(LANE), 9, True),
    "version of acknowledgements": (flip(SETTLED, 0), 10, True),
    "acknowledgements cut to zeros": (cut_to_zeros(SETTLED), 10, True),
    "version of a segment": (flip(SEGMENT, 0), 0, True),
    "version of references": (flip(REFERENCES, 0), 9, True),
    "references": (flip(REFERENCES, 10), 9, True),
    "version of a body": (flip(BODY, 0), 9, False),
    "a body": (flip(BODY, 7), 9, False),
    "a body that is gone": (lambda txn: txn.delete(number_key(BODY, 9)), 9, False),
}
"""Number of ten messages, one of them acknowledged, that are there then, and whether the one with a shared body is."""


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_costs_what_is_damaged_only(path: Path, name: str) -> None:
    """Counters are counted again; a body without its count of references stays.

    A damaged version is damage like any other: only the identity's says that another release wrote the store.
    """
    how, own, shared = DAMAGES[name]
    positions = filled(path)
    with MessageStore.open(path) as store:
        writer = Writer(store)
        writer.settle(1, positions[0])
        writer.put(3, b"untouched")
        writer.flush()
    change(path, how)
    with MessageStore.open(path) as store:
        assert len(bodies(store, 1)) == own
        counters = store.lanes()[1][0].snapshot()
        if own:
            assert (counters.messages, counters.bytes) == (own, own * len(b"message 0"))
        if "counters" in name:
            assert counters.delivered_up_to > positions[-1]
        assert bodies(store, 2) == ([b"shared"] if shared else [])
        writer = Writer(store)
        if shared:
            (message,) = store.read(2, 0, 0, END, 1, 1)
            writer.put(3, b"shared", body_id=9)
            writer.settle(2, message.position)
        else:
            assert [record.queue_id for record in store.corrupt] == [2]
            store.reclaim()
            assert store.statistics().set_aside == 1
        writer.settle(1, *positions)
        writer.flush()
        clear_away(store)
        assert bodies(store, 3) == ([b"untouched", b"shared"] if shared else [b"untouched"])
    verify(path)


@pytest.mark.parametrize("kind", [SWEEP, DELETION])
def test_a_damaged_sweep_or_deletion_does_not_stop_the_store(path: Path, kind: bytes) -> None:
    with MessageStore.open(path) as store:
        writer = Writer(store)
        for _ in range(40):
            writer.puts(1, [b"purged"] * 3)
            writer.puts(2, [b"deleted"] * 3)
            writer.flush()
        writer.purge(1)
        writer.delete(2)
        writer.flush()
    change(path, flip(kind, 2))
    assert any("checksum" in problem for problem in verify(path).problems)
    with MessageStore.open(path) as store:
        clear_away(store, 3)
        assert bodies(store, 2) == []
        assert bodies(store, 1) in ([], [b"purged"] * 120)
        writer = Writer(store)
        writer.put(1, b"new")
        writer.flush()
        assert bodies(store, 1)[-1] == b"new"


# verify


def test_verify_asks_no_counters_of_what_ends_with_the_process(path: Path) -> None:
    with MessageStore.open(path) as store:
        writer = Writer(store)
        writer.put(TRANSIENT_QUEUE, b"persistent message in a transient queue", persistent=True)
        sealed = writer.seal()
        uncounted = [lane._replace(counters=LaneState().snapshot()) for lane in sealed.lanes]
        store.commit(sealed._replace(lanes=tuple(uncounted)))
    report = verify(path)
    assert report.sound
    assert report.messages == 0


@pytest.mark.parametrize(
    ("how", "text"),
    [
        (flip(SEGMENT, -1), "a message fails its checksum"),
        (flip(SEGMENT, 12), "index of a segment"),
        (flip(LANE, 10), "counters fails its checksum"),
        (flip(BODY, 7), "the body fails its checksum"),
        (flip(REFERENCES, 10), "reference count fails its checksum"),
        (lambda txn: txn.delete(number_key(BODY, 9)), "not there"),
        (lambda txn: txn.put(number_key(REFERENCES, 9), encode_number(2)), "its count says 2"),
        (lambda txn: txn.put(number_key(BODY, 8), frame(b"x")), "no message refers to it"),
        (lambda txn: txn.put(place_key(SETTLED, 5, 0, 1), b""), "without its segment"),
        (lambda txn: txn.put(b"?", b""), "does not know"),
        (lambda txn: txn.delete(bytes.fromhex("4c000000000000000100")), "no counters"),
    ],
)
def test_verify_says_what_is_wrong(path: Path, how: Change, text: str) -> None:
    filled(path)
    change(path, how)
    problems = verify(path).problems
    assert any(text in problem for problem in problems), problems


# Full and broken disks


@pytest.mark.slow
def test_acks_go_on_when_the_disk_is_full_and_the_ballast_was_released(path: Path) -> None:
    """In any order, one at a time: what they need stays far below the ballast."""
    with MessageStore.open(path) as store:
        writer = Writer(store)
        positions = writer.puts(1, [bytes(1000)] * 500)
        writer.flush()
        random.Random(3).shuffle(positions)
        with no_file_larger_than((path / "data.mdb").stat().st_size + ballast.BALLAST_BYTES // 64):
            for position in positions:
                writer.settle(1, position)
                writer.flush()
        assert bodies(store, 1) == []


def test_what_did_not_fit_is_in_no_cycle(path: Path) -> None:
    """A full disk is tried again each second, and Python looks for cycles seldom: messages would stay in memory."""
    gc.collect()
    gc.disable()
    try:
        with MessageStore.open(path) as store:
            writer = Writer(store)
            writer.puts(1, [bytes(100_000)] * 20)
            with no_file_larger_than((path / "data.mdb").stat().st_size), pytest.raises(StoreFull) as raised:
                writer.flush()
            del writer, raised
        assert [thing for thing in gc.get_objects() if isinstance(thing, SealedBatch)] == []
    finally:
        gc.enable()


def test_a_start_on_a_full_disk_gives_the_ballast_for_it(path: Path) -> None:
    filled(path)
    with no_file_larger_than((path / "data.mdb").stat().st_size):
        with pytest.raises(StoreFull):  # this limit, unlike a disk, gains nothing from a file that goes
            MessageStore.open(path)
    assert not (path / "ballast").exists()
    with MessageStore.open(path) as store:
        assert len(bodies(store, 1)) == 10
        assert (path / "ballast").exists()


def test_the_ballast_is_released_once_and_taken_again(path: Path) -> None:
    with MessageStore.open(path) as store:
        file = path / "ballast"
        assert file.stat().st_blocks * 512 >= ballast.BALLAST_BYTES
        assert store.space.release_ballast()
        assert not file.exists()
        assert not store.space.release_ballast()
        with no_file_larger_than(1 << 20):
            store.space.restore_ballast()
        assert not file.exists()
        assert not store.space.has_ballast
        store.space.restore_ballast()
        assert store.space.has_ballast
        assert file.stat().st_size == ballast.BALLAST_BYTES


def test_what_a_failed_commit_means(path: Path) -> None:
    """A write that failed although there is room is tried once more; what LMDB itself refuses is a failure."""
    filled(path)
    failed_write = lmdb.DiskError("mdb_txn_commit: Input/output error")
    with closing(FailureClassifier(path)) as classifier:
        error = classifier.classify(lmdb.PanicError("mdb_txn_begin: MDB_PANIC"))
        assert type(error) is StoreFailed
        assert str(path / "data.mdb") in str(error)
        assert type(classifier.classify(failed_write)) is StoreCutShort
        with no_file_larger_than((path / "data.mdb").stat().st_size):
            assert type(classifier.classify(failed_write)) is StoreFull
    assert not (path / "probe").exists()


@pytest.mark.parametrize("remove", [Writer.purge, Writer.delete])
def test_a_message_that_has_moved_stays_until_the_other_has_come(
    path: Path, remove: Callable[[Writer, int], None]
) -> None:
    """Removals of a batch are committed first, but not those of moved messages. tests/models holds the rest."""
    with MessageStore.open(path) as store:
        writer = Writer(store)
        moved, _acknowledged = writer.puts(1, [b"moved", b"acknowledged"])
        writer.flush()
        writer.move(1, moved)
        writer.put(2, b"moved")
        batch = writer.seal()
        remove(writer, 1)
        batch = merged(batch, writer.seal())
        store.commit(removals(batch))
        clear_away(store)
        assert b"moved" in bodies(store, 1)
        assert bodies(store, 2) == []
        store.commit(additions(batch))
        clear_away(store)
        assert (bodies(store, 1), bodies(store, 2)) == ([], [b"moved"])


def test_a_queue_deleted_in_the_batch_that_filled_it_leaves_nothing_behind_its_removals(path: Path) -> None:
    """Its records would be of no queue once its tombstone is gone: the next start would take them for orphans."""
    with MessageStore.open(path) as store:
        writer = Writer(store)
        writer.put(1, b"of a queue that is deleted")
        writer.put(2, b"kept")
        writer.delete(1)
        batch = writer.seal()
        store.commit(removals(batch))
        clear_away(store)
        store.commit(additions(batch))
        assert bodies(store, 2) == [b"kept"]
        assert set(store.lanes()) == {2}


# Space and copies


def test_a_file_mostly_free_is_compacted_at_start(path: Path) -> None:
    with MessageStore.open(path) as store:
        writer = Writer(store)
        for _ in range(3):
            positions = writer.puts(1, [bytes(1 << 20)] * 25)
            writer.flush()
        last = writer.put(1, b"kept")
        writer.flush()
        writer.purge(1, [last])
        writer.flush()
        clear_away(store)
        assert store.statistics().file_bytes > lmdb_environment.COMPACT_FILE_BYTES
        assert positions
    with MessageStore.open(path, compact=False) as store:
        assert store.statistics().file_bytes > lmdb_environment.COMPACT_FILE_BYTES
    with MessageStore.open(path) as store:
        assert store.statistics().file_bytes < 1 << 20
        assert bodies(store, 1) == [b"kept"]
        assert store.boot == 3
    assert verify(path).sound


def test_a_backup_is_a_store_of_its_own(path: Path, tmp_path: Path) -> None:
    """A backup of a store in which a batch that was committed twice is there once."""
    copy = tmp_path / "backups" / "today"
    with MessageStore.open(path) as store:
        writer = Writer(store)
        writer.puts(1, [b"a", b"b"])
        writer.put(2, b"shared", body_id=3)
        sealed = writer.seal()
        store.commit(sealed)
        store.commit(sealed)
        backup(store, copy, bytes(16))
        writer.put(1, b"later")
        writer.flush()
        with pytest.raises(StoreError, match="exists already"):
            backup(store, copy, bytes(16))
        with MessageStore.open(copy) as copied:
            assert copied.uuid == store.uuid
            assert bodies(copied, 1) == [b"a", b"b"]
        assert bodies(store, 1) == [b"a", b"b", b"later"]
    for each in (path, copy):
        assert verify(each).sound


def test_messages_that_need_more_address_space_than_there_is(tmp_path: Path) -> None:
    (tmp_path / "data.mdb").touch()
    os.truncate(tmp_path / "data.mdb", 5 << 30)  # a hole
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, before[1]))
    try:
        with pytest.raises(StoreError, match=r"\(ulimit -v\), and 5368709120 bytes of messages need twice as much"):
            lmdb_environment.open_environment(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
