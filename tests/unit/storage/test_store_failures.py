"""What the message store does when a start, a disk or a record is not as it should be."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import lmdb
import pytest

from harness.brokers.full_disk import no_file_larger_than
from harness.project import ROOT
from storage import ballast
from storage.batch import TRANSIENT_QUEUE, LaneState
from storage.commit_failures import FailureClassifier
from storage.messages import lmdb_environment
from storage.messages.backup import backup
from storage.messages.keys import (
    BODY,
    DELETION,
    IDENTITY,
    LANE,
    REFERENCES,
    SEGMENT,
    SET_ASIDE,
    SETTLED,
    SWEEP,
    number_key,
    place_key,
)
from storage.messages.message_store import RECLAIM_WITH_COMMIT, MessageStore
from storage.messages.records import Identity, encode_number, frame
from storage.messages.segments import SEGMENT_BYTES
from storage.messages.verify_messages import verify
from storage.storage_errors import (
    StoreCorrupt,
    StoreCutShort,
    StoreError,
    StoreFailed,
    StoreFull,
    StoreIncompatible,
    StoreLocked,
)
from tests.unit.storage.writing import END, Writer, bodies, clear_away

Change = Callable[[lmdb.Transaction], object]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "messages"


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


def test_a_store_in_use_is_locked(path: Path) -> None:
    with MessageStore.open(path), pytest.raises(StoreLocked, match="in use"):
        MessageStore.open(path)
    MessageStore.open(path).close()


def test_a_store_in_use_is_not_verified(path: Path) -> None:
    with MessageStore.open(path), pytest.raises(StoreLocked):
        verify(path)


def contents(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def refuses(path: Path, error: type[StoreError], text: str, uuid: bytes | None = None) -> None:
    """Opening fails, and leaves every byte and the lock as they were."""
    before = contents(path)
    for _ in range(2):
        with pytest.raises(error, match=text):
            MessageStore.open(path, store_uuid=uuid)
    assert contents(path) == before


def test_a_directory_of_something_else_is_refused(path: Path) -> None:
    path.mkdir()
    (path / "holiday.jpg").write_bytes(b"\xff\xd8")
    refuses(path, StoreIncompatible, "no message store")


def test_another_lmdb_environment_is_refused(path: Path) -> None:
    with lmdb.Environment(str(path)) as environment, environment.begin(write=True) as txn:
        txn.put(b"key", b"value")
    refuses(path, StoreIncompatible, "something else")


def test_a_file_that_is_not_lmdb_is_refused(path: Path) -> None:
    path.mkdir()
    (path / "data.mdb").write_bytes(b"x" * 8192)
    refuses(path, StoreCorrupt, "cannot be read")


def test_a_store_of_a_newer_release_is_refused(path: Path) -> None:
    filled(path)
    change(path, lambda txn: txn.put(IDENTITY, b"\x02" + Identity(bytes(16), 1).encode()[1:]))
    refuses(path, StoreIncompatible, "version 2")


def test_a_store_of_other_definitions_is_refused(path: Path) -> None:
    MessageStore.open(path, store_uuid=b"a" * 16).close()
    refuses(path, StoreIncompatible, "other definitions", b"b" * 16)
    with MessageStore.open(path, store_uuid=b"a" * 16) as store:
        assert store.uuid == b"a" * 16


def test_a_store_that_ought_to_exist_is_not_made(path: Path) -> None:
    with pytest.raises(StoreIncompatible, match="restore it from a backup"):
        MessageStore.open(path, create=False)
    assert not path.exists()


def test_an_empty_directory_becomes_a_store(path: Path) -> None:
    path.mkdir()
    assert len(filled(path)) == 10


def test_a_place_that_cannot_be_written_is_said_clearly(path: Path) -> None:
    path.parent.joinpath("messages.new").write_bytes(b"a file where the new store would be made")
    with pytest.raises(StoreError, match="cannot be opened"):
        MessageStore.open(path)


def test_leftovers_of_an_interrupted_creation_do_not_matter(path: Path) -> None:
    fresh = path.with_name("messages.new")
    fresh.mkdir()
    (fresh / "data.mdb").write_bytes(b"torn")
    assert len(filled(path)) == 10
    assert not fresh.exists()


# Damage


def test_a_damaged_message_is_set_aside_and_the_others_go_on(path: Path) -> None:
    positions = filled(path)
    change(path, flip(SEGMENT, -1))  # the last byte of the last body of queue 1
    with MessageStore.open(path) as store:
        assert bodies(store, 1) == [b"message %d" % number for number in range(9)]
        (record,) = store.corrupt
        assert (record.queue_id, record.lane, record.position, record.messages) == (1, 0, positions[9], 1)
        assert (record.bytes, record.whole_segment) == (9, False)
        assert "checksum" in record.reason
        writer = Writer(store)
        writer.settle(1, positions[9])  # as the broker does with what it was told of
        writer.flush()
        assert store.statistics().set_aside == 1
        assert bodies(store, 1) == [b"message %d" % number for number in range(9)]
        assert len(store.corrupt) == 1
    with lmdb_environment.open_environment(path) as environment, environment.begin() as txn:
        kept = bytes(txn.get(place_key(SET_ASIDE, 1, 0, positions[9]), b""))
        assert b"message \xc6" in kept
    assert verify(path).set_aside == 1


def test_a_damaged_index_costs_its_segment_only(path: Path) -> None:
    filled(path)
    with MessageStore.open(path) as store:
        writer = Writer(store)
        later = writer.put(1, b"later")
        writer.flush()
    change(path, flip(SEGMENT, 12))
    with MessageStore.open(path) as store:
        assert bodies(store, 1) == [b"later"]
        assert store.fetch(1, 0, [later])[0].body == b"later"
        (record,) = store.corrupt
        assert (record.messages, record.bytes, record.whole_segment) == (10, 90, True)
        store.reclaim()
        assert bodies(store, 1) == [b"later"]
    report = verify(path)
    assert report.set_aside == 1
    assert len(report.problems) == 1
    assert "counters say 11 messages" in report.problems[0]


@pytest.mark.parametrize("kind", [SETTLED, SWEEP])
def test_what_damage_brings_back_is_counted(path: Path, kind: bytes) -> None:
    """Not counted it would be given out in the place of others, which nobody would see again."""
    with MessageStore.open(path) as store:
        writer = Writer(store)
        small = writer.puts(1, [b"small"] * 3)
        writer.puts(2, [bytes(SEGMENT_BYTES)] * 3 * RECLAIM_WITH_COMMIT)  # more than is cleared away with the purge
        writer.flush()
        writer.settle(1, *small[:2])
        writer.purge(2)
        writer.flush()
    change(path, flip(kind, 8))
    queue = 1 if kind == SETTLED else 2
    for _ in range(2):
        with MessageStore.open(path) as store:
            there = bodies(store, queue)
            assert len(there) == (3 if kind == SETTLED else 2 * RECLAIM_WITH_COMMIT)
            counters = store.lanes()[queue][0].snapshot()
            assert (counters.messages, counters.bytes) == (len(there), sum(map(len, there)))
            clear_away(store)


@pytest.mark.parametrize("kind", [LANE, SEGMENT, SETTLED, BODY, REFERENCES])
def test_a_damaged_version_is_damage_like_any_other(path: Path, kind: bytes) -> None:
    """Only the identity's version says that another release wrote the store."""
    positions = filled(path)
    with MessageStore.open(path) as store:
        writer = Writer(store)
        writer.settle(1, positions[0])
        writer.put(3, b"untouched")
        writer.flush()
    change(path, flip(kind, 0))
    with MessageStore.open(path) as store:
        assert len(bodies(store, 1)) == {SEGMENT: 0, SETTLED: 10}.get(kind, 9)
        assert bodies(store, 2) == ([] if kind == BODY else [b"shared"])
        writer = Writer(store)
        writer.settle(1, *positions)
        writer.flush()
        clear_away(store)
        assert bodies(store, 3) == [b"untouched"]
    verify(path)


def test_a_segment_cut_short_can_still_be_settled(path: Path) -> None:
    """Its index is sound and counts bytes that are gone; the bitmap's count of what is left must not fall below 0."""
    positions = filled(path)
    with lmdb_environment.open_environment(path) as environment, environment.begin(write=True) as txn:
        cursor = txn.cursor()
        assert cursor.set_range(SEGMENT)
        txn.put(bytes(cursor.key()), bytes(cursor.value())[:-200])
    with MessageStore.open(path) as store:
        writer = Writer(store)
        writer.settle(1, *positions[:9])
        writer.flush()
        assert len(bodies(store, 1)) <= 1


def test_settling_in_a_damaged_segment_reports_it(path: Path) -> None:
    positions = filled(path)
    change(path, flip(SEGMENT, 12))
    with MessageStore.open(path) as store:
        writer = Writer(store)
        writer.settle(1, positions[0])
        writer.flush()
        assert [record.whole_segment for record in store.corrupt] == [True]
        assert bodies(store, 1) == []


def test_damaged_counters_are_counted_again(path: Path) -> None:
    positions = filled(path)
    change(path, flip(LANE, 10))
    with MessageStore.open(path) as store:
        counters = store.lanes()[1][0].snapshot()
        assert (counters.messages, counters.bytes) == (10, 90)
        assert counters.delivered_up_to > positions[-1]


@pytest.mark.parametrize("kind", [LANE, SETTLED])
def test_a_record_cut_to_zeros_is_damaged(path: Path, kind: bytes) -> None:
    """Zeros are the right checksum for nothing."""
    positions = filled(path)
    with MessageStore.open(path) as store:
        writer = Writer(store)
        writer.settle(1, positions[0])
        writer.flush()
    with lmdb_environment.open_environment(path) as environment, environment.begin(write=True) as txn:
        cursor = txn.cursor()
        assert cursor.set_range(kind)
        txn.put(bytes(cursor.key()), frame(b""))
    with MessageStore.open(path) as store:
        assert store.lanes()[1][0].messages == len(bodies(store, 1)) == (9 if kind == LANE else 10)


def test_a_damaged_bitmap_delivers_again_rather_than_not(path: Path) -> None:
    positions = filled(path)
    with MessageStore.open(path) as store:
        writer = Writer(store)
        writer.settle(1, positions[0])
        writer.flush()
        assert len(bodies(store, 1)) == 9
    change(path, flip(SETTLED, 8))
    with MessageStore.open(path) as store:
        assert len(bodies(store, 1)) == 10


@pytest.mark.parametrize("how", [flip(BODY, 7), lambda txn: txn.delete(number_key(BODY, 9))])
def test_a_damaged_shared_body_sets_its_message_aside(path: Path, how: Change) -> None:
    filled(path)
    change(path, how)
    with MessageStore.open(path) as store:
        assert bodies(store, 2) == []
        assert [record.queue_id for record in store.corrupt] == [2]
        store.reclaim()
        assert store.statistics().set_aside == 1


def test_a_damaged_reference_count_keeps_the_body(path: Path) -> None:
    filled(path)
    change(path, flip(REFERENCES, 10))
    with MessageStore.open(path) as store:
        writer = Writer(store)
        (message,) = store.read(2, 0, 0, END, 1, 1)
        writer.put(3, b"shared", body_id=9)
        writer.settle(2, message.position)
        writer.flush()
        assert bodies(store, 3) == [b"shared"]


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


def test_verify_finds_a_sound_store_sound(path: Path) -> None:
    filled(path)
    report = verify(path)
    assert report.sound
    assert (report.messages, report.lanes, report.segments, report.bodies) == (11, 2, 2, 1)


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


def test_verify_of_nothing_says_so(path: Path) -> None:
    with pytest.raises(StoreIncompatible, match="does not exist"):
        verify(path)


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
        (lambda txn: txn.put(number_key(BODY, 8), frame(b"x")), "nothing refers to it"),
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


def test_on_a_full_disk_nothing_is_written_and_the_batch_can_be_tried_again(path: Path) -> None:
    with MessageStore.open(path) as store:
        writer = Writer(store)
        writer.put(1, b"before")
        writer.flush()
        writer.puts(1, [bytes(100_000)] * 20)
        sealed = writer.seal()
        with no_file_larger_than((path / "data.mdb").stat().st_size + 65536):
            for _ in range(2):
                with pytest.raises(StoreFull, match="disk is full"):
                    store.commit(sealed)
            assert bodies(store, 1) == [b"before"]
            assert store.lanes()[1][0].messages == 1
        store.commit(sealed)
        assert len(bodies(store, 1)) == 21
    assert verify(path).sound


@pytest.mark.slow
def test_acks_go_on_when_the_disk_is_full_and_the_ballast_was_released(path: Path) -> None:
    """In any order, one at a time: what they need stays far below the ballast."""
    with MessageStore.open(path) as store:
        writer = Writer(store)
        positions = writer.puts(1, [bytes(1000)] * 2000)
        writer.flush()
        random.Random(3).shuffle(positions)
        with no_file_larger_than((path / "data.mdb").stat().st_size + ballast.BALLAST_BYTES // 16):
            for position in positions:
                writer.settle(1, position)
                writer.flush()
        assert bodies(store, 1) == []


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
        assert store.release_ballast()
        assert not file.exists()
        assert not store.release_ballast()
        with no_file_larger_than(1 << 20):
            assert not store.restore_ballast()
        assert not file.exists()
        assert store.restore_ballast()
        assert file.stat().st_size == ballast.BALLAST_BYTES


def test_a_batch_committed_twice_is_there_once(path: Path) -> None:
    with MessageStore.open(path) as store:
        writer = Writer(store)
        writer.put(1, b"one")
        writer.put(2, b"shared", body_id=3)
        sealed = writer.seal()
        store.commit(sealed)
        store.commit(sealed)
        assert bodies(store, 1) == [b"one"]
    assert verify(path).sound


def test_a_commit_that_lmdb_refuses_is_a_failure(path: Path) -> None:
    filled(path)
    with closing(FailureClassifier(path)) as classifier:
        error = classifier.classify(lmdb.PanicError("mdb_txn_begin: MDB_PANIC"))
        assert type(error) is StoreFailed
        assert str(path / "data.mdb") in str(error)


def test_a_write_that_failed_although_there_is_room_is_tried_once_more(path: Path) -> None:
    filled(path)
    with closing(FailureClassifier(path)) as classifier:
        error = classifier.classify(lmdb.DiskError("mdb_txn_commit: Input/output error"))
        assert type(error) is StoreCutShort
        with no_file_larger_than((path / "data.mdb").stat().st_size):
            assert type(classifier.classify(lmdb.DiskError("mdb_txn_commit: Input/output error"))) is StoreFull
    assert not (path / "probe").exists()


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
    copy = tmp_path / "backups" / "today"
    with MessageStore.open(path) as store:
        writer = Writer(store)
        writer.puts(1, [b"a", b"b"])
        writer.flush()
        backup(store, copy)
        writer.put(1, b"later")
        writer.flush()
        with pytest.raises(StoreError, match="exists already"):
            backup(store, copy)
        with MessageStore.open(copy) as copied:
            assert copied.uuid == store.uuid
            assert bodies(copied, 1) == [b"a", b"b"]
        assert bodies(store, 1) == [b"a", b"b", b"later"]
    assert verify(copy).sound


def test_a_killed_process_leaves_no_lock(path: Path) -> None:
    script = (
        "import os, signal, sys; from pathlib import Path; from storage.messages.message_store import MessageStore;"
        "MessageStore.open(Path(sys.argv[1])); os.kill(os.getpid(), signal.SIGKILL)"
    )
    killed = subprocess.run([sys.executable, "-c", script, str(path)], cwd=ROOT, env=dict(os.environ), check=False)
    assert killed.returncode == -signal.SIGKILL
    with MessageStore.open(path) as store:
        assert store.boot == 2
        assert store.read(1, 0, 0, END, 10, 10) == []
        assert isinstance(store.lanes().get(1, {}).get(0, LaneState()), LaneState)
