"""Files of a killed store that were changed before the next start: everything is there, or the start is refused.

`killed` leaves two batches that LMDB has, and four that only the journal has.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from storage.high_water import read_high_water
from storage.journal.journal import HIGH_WATER
from storage.journal.journal_file import HEADER, NAME, PAGE_BYTES, RING_AT
from storage.messages import lmdb_environment
from storage.messages.keys import JOURNAL_MARK
from storage.messages.message_store import MessageStore
from storage.messages.start.journal_replay import known_boot
from storage.offline.offline_reader import StoppedStore
from storage.offline.verify_messages import verify
from storage.storage_errors import StoreIncompatible, StoreIncomplete
from tests.unit.storage.writing import Writer, bodies

JOURNAL_BYTES = 1 << 16
LARGE = b"4" * 3 * PAGE_BYTES
BODIES = [b"1", b"2", b"3", LARGE, b"5", b"6"]
IN_LMDB = 2


@pytest.fixture
def killed(path: Path) -> Path:
    with MessageStore.open(path, journal_bytes=JOURNAL_BYTES) as store:
        writer = Writer(store)
        for number, body in enumerate(BODIES, 1):
            writer.put(1, body)
            writer.flush()
            if number == IN_LMDB:
                store.catch_up()
    return path


def found(path: Path, **options: bool) -> list[bytes]:
    with MessageStore.open(path, journal_bytes=JOURNAL_BYTES, **options) as store:
        left = bodies(store, 1)
        assert store.lanes()[1][0].messages == len(left)
        return left


def refused(path: Path) -> str:
    before = {file.name: file.read_bytes() for file in path.iterdir() if file.name not in ("lock.mdb", "ballast")}
    with pytest.raises(StoreIncomplete) as refusal:
        MessageStore.open(path, journal_bytes=0)
    after = {file.name: file.read_bytes() for file in path.iterdir() if file.name not in ("lock.mdb", "ballast")}
    assert after == before, "nothing is changed"
    return str(refusal.value)


def truncated(size: int) -> Callable[[Path], None]:
    return lambda path: os.truncate(path / NAME, size)


def overwritten(at: int, size: int) -> Callable[[Path], None]:
    def overwrite(path: Path) -> None:
        with (path / NAME).open("r+b") as file:
            file.seek(at)
            file.write(bytes(size))

    return overwrite


PAGES_OF_RECORDS = 8
"""The first batch of a boot has no record, the large one takes four pages."""
WHOLE = RING_AT + JOURNAL_BYTES
PAGES = range(0, RING_AT + PAGES_OF_RECORDS * PAGE_BYTES, PAGE_BYTES)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda path: (path / NAME).unlink(), "journal is missing"),
        (truncated(0), "journal is empty"),
        (overwritten(0, 3 * WHOLE), "journal is empty"),
        (overwritten(8, 16), "its first page is no head"),
        *((truncated(size), "journal is cut short|journal is empty") for size in PAGES),
        (truncated(WHOLE - PAGE_BYTES), "journal is cut short"),
    ],
    ids=[f"case {number}" for number in range(5 + len(PAGES))],
)
def test_a_journal_that_is_missing_empty_or_cut_short(
    killed: Path, change: Callable[[Path], None], reason: str
) -> None:
    change(killed)
    text = refused(killed)
    assert any(each in text for each in reason.split("|")), text
    assert "recover --accept-loss" in text
    assert verify(killed).problems, "check says so, too"
    assert found(killed, accept_loss=True) in [BODIES[:kept] for kept in range(IN_LMDB, len(BODIES) + 1)]
    assert found(killed) == found(killed), "and later starts have nothing to say"


@pytest.mark.parametrize("page", range(PAGES_OF_RECORDS))
def test_each_page_that_is_overwritten(killed: Path, page: int) -> None:
    overwritten(RING_AT + page * PAGE_BYTES, PAGE_BYTES)(killed)
    if page == 0:
        assert found(killed) == BODIES, "LMDB has what was there"
        return
    assert "journal is damaged" in refused(killed)
    left = found(killed, accept_loss=True)
    assert len(left) == len(BODIES) - 1
    assert left == [body for body in BODIES if body in left], "in their order"
    assert list(killed.glob(f"{NAME}.damaged-*")), "the file is kept"


@pytest.mark.parametrize("page", range(PAGES_OF_RECORDS))
def test_everything_from_a_page_on_is_overwritten(killed: Path, page: int) -> None:
    """The records themselves would not show that there were more: the high-water mark does."""
    at = RING_AT + page * PAGE_BYTES
    overwritten(at, WHOLE - at)(killed)
    assert "at least" in refused(killed)
    left = found(killed, accept_loss=True)
    assert IN_LMDB <= len(left) < len(BODIES)
    assert left == BODIES[: len(left)]


def test_a_loss_that_is_accepted_is_named_and_kept_in_the_store(killed: Path, caplog: pytest.LogCaptureFixture) -> None:
    (killed / NAME).unlink()
    with (
        caplog.at_level(logging.ERROR),
        MessageStore.open(killed, journal_bytes=JOURNAL_BYTES, accept_loss=True) as store,
    ):
        assert store.lost is not None
        assert (store.lost.first, store.lost.last) == (IN_LMDB + 1, len(BODIES))
        (loss,) = store.accepted.values()
        assert (loss.first, loss.last) == (IN_LMDB + 1, len(BODIES))
    assert "batches 3 to 6 at least are lost, committed after" in caplog.text


def test_a_record_of_which_a_crash_has_left_a_part_is_passed_over(killed: Path) -> None:
    """Nobody had a confirm for it: the high-water mark, which is noted behind the write, does not have it."""
    with MessageStore.open(killed, journal_bytes=JOURNAL_BYTES) as store:
        writer = Writer(store)
        for body in (b"7", b"8"):
            writer.put(1, body)
            writer.flush()
        high_water = (killed / HIGH_WATER).read_bytes()
        writer.put(1, LARGE)
        writer.flush()
    (killed / HIGH_WATER).write_bytes(high_water)
    overwritten(RING_AT + 2 * PAGE_BYTES, PAGE_BYTES)(killed)
    assert found(killed) == [*BODIES, b"7", b"8"]


def test_without_the_high_water_mark_the_journal_is_read_as_far_as_it_goes(killed: Path) -> None:
    """It says nothing more than the records themselves, where they are whole."""
    (killed / HIGH_WATER).unlink()
    assert found(killed) == BODIES


def test_a_damaged_mark_in_lmdb_refuses_the_start_and_costs_nothing(killed: Path) -> None:
    with lmdb_environment.open_environment(killed) as environment, environment.begin(write=True) as txn:
        record = bytearray(txn.get(JOURNAL_MARK, b""))
        record[-1] ^= 0xFF
        txn.put(JOURNAL_MARK, bytes(record))
    assert "the mark of the journal fails its checksum" in refused(killed)
    assert found(killed, accept_loss=True) == BODIES


@pytest.mark.parametrize("name", ["data.mdb", NAME, HIGH_WATER])
def test_a_file_of_an_earlier_boot(path: Path, tmp_path: Path, name: str) -> None:
    """A file of the same directory: it is noticed, unless it says nothing that the others do not say."""
    with MessageStore.open(path, journal_bytes=JOURNAL_BYTES) as store:
        Writer(store).put(1, b"0")
    shutil.copytree(path, earlier := tmp_path / "earlier")
    with MessageStore.open(path, journal_bytes=JOURNAL_BYTES) as store:
        writer = Writer(store)
        for body in (b"1", b"2"):
            writer.put(1, body)
            writer.flush()
    shutil.copyfile(earlier / name, path / name)
    if name == HIGH_WATER:
        assert found(path) == [b"1", b"2"]
        return
    assert "earlier moment" in (text := refused(path)) or "do not belong together" in text


@pytest.mark.parametrize("left", ["killed", "killed, without the high-water mark", "stopped"])
def test_data_of_an_earlier_moment_of_the_same_boot(path: Path, tmp_path: Path, left: str) -> None:
    """With a batch behind it that went to LMDB alone: its number is missing among those of the journal."""
    with MessageStore.open(path, journal_bytes=JOURNAL_BYTES) as store:
        writer = Writer(store)
        for body in (b"1", b"2"):
            writer.put(1, body)
            writer.flush()
        store.catch_up()
        store.copy_to(tmp_path)
        for body in (bytes(2 << 20), b"4"):
            writer.put(1, body)
            writer.flush()
        if left == "stopped":
            store.catch_up()
    (tmp_path / "data.mdb").replace(path / "data.mdb")
    if "without" in left:
        (path / HIGH_WATER).unlink()
    assert "lost" in refused(path)


def test_a_batch_that_goes_to_lmdb_at_once_has_a_number_too(path: Path) -> None:
    """Without one, nothing would show that data.mdb lacks it: it is in no record of the journal."""
    with MessageStore.open(path, journal_bytes=JOURNAL_BYTES) as store:
        writer = Writer(store)
        for body in (b"1", b"2"):
            writer.put(1, body)
            writer.flush()
        writer.put(1, b"3")
        assert not store.commit(writer.seal(), to_journal=False)
        assert store.journal.number == 3
        writer.put(1, b"4")
        writer.flush()
        assert store.journal.number == 4, "and the next record has the next number"
        store.catch_up()
        writer.put(1, b"5")
        assert not store.commit(writer.seal(), to_journal=False)
    reached = read_high_water(path / HIGH_WATER)
    assert reached is not None
    assert reached.number == 5
    assert found(path) == [b"1", b"2", b"3", b"4", b"5"]


def test_data_of_before_a_batch_that_went_to_lmdb_at_once(path: Path, tmp_path: Path) -> None:
    with MessageStore.open(path, journal_bytes=JOURNAL_BYTES) as store:
        writer = Writer(store)
        for body in (b"1", b"2"):
            writer.put(1, body)
            writer.flush()
        shutil.copyfile(path / "data.mdb", tmp_path / "data.mdb")
        writer.put(1, b"3")
        store.commit(writer.seal(), to_journal=False)
    (tmp_path / "data.mdb").replace(path / "data.mdb")
    assert "batch 3 at least is lost" in refused(path)


@pytest.mark.parametrize("name", ["data.mdb", NAME, HIGH_WATER])
def test_a_file_of_another_store(killed: Path, tmp_path: Path, name: str) -> None:
    other = tmp_path / "other"
    with MessageStore.open(other, journal_bytes=JOURNAL_BYTES) as store:
        writer = Writer(store)
        for body in (b"a", b"b"):
            writer.put(1, body)
            writer.flush()
        uuid = store.uuid
    with MessageStore.open(tmp_path / "third", store_uuid=uuid):
        pass
    shutil.copyfile(other / name, killed / name)
    if name == HIGH_WATER:
        assert found(killed) == BODIES
    else:
        refused(killed)


def test_settings_of_the_next_start_cut_nothing(killed: Path) -> None:
    """On a full disk the journal's reserve goes, and never what holds records, whatever its size is to be."""
    from harness.brokers.full_disk import no_file_larger_than

    with no_file_larger_than(1), pytest.raises(Exception, match="full"):
        MessageStore.open(killed, journal_bytes=0)
    assert (killed / NAME).stat().st_size == WHOLE
    assert found(killed) == BODIES


def test_an_image_of_a_record_is_none_of_a_later_boot(killed: Path) -> None:
    """Even of one that is to come, with the number that is next, by somebody who has read the file."""
    data = (killed / NAME).read_bytes()
    record = data[RING_AT : RING_AT + PAGE_BYTES]
    assert HEADER.unpack_from(record)[3] == 2
    for _ in range(2):
        with MessageStore.open(killed, journal_bytes=JOURNAL_BYTES) as store:
            writer = Writer(store)
            writer.put(2, record * 3)
            writer.flush()
            writer.put(2, record * 3)
            writer.flush()
        (killed / NAME).write_bytes((killed / NAME).read_bytes()[: RING_AT + 6 * PAGE_BYTES] + record * 200)
        assert found(killed) == BODIES


def test_readers_show_what_there_is_and_say_what_is_missing(killed: Path, caplog: pytest.LogCaptureFixture) -> None:
    (killed / NAME).unlink()
    with StoppedStore(killed) as stopped:
        assert [contents.messages for contents in stopped.lanes()] == [IN_LMDB]
    assert "journal is missing; batches 3 to 6 at least are lost" in caplog.text


def test_after_a_clean_stop_no_journal_is_needed(path: Path) -> None:
    with MessageStore.open(path, journal_bytes=JOURNAL_BYTES) as store:
        writer = Writer(store)
        for body in (b"1", b"2"):
            writer.put(1, body)
            writer.flush()
        store.catch_up()
    for name in (NAME, HIGH_WATER):
        (path / name).unlink()
    assert found(path) == [b"1", b"2"]


def test_data_that_is_cut_short(killed: Path) -> None:
    """LMDB would end the process at the first page behind the end of the file."""
    data = killed / "data.mdb"
    whole = data.read_bytes()
    for pages in range(len(whole) // PAGE_BYTES):
        data.write_bytes(whole[: pages * PAGE_BYTES])
        with pytest.raises((StoreIncomplete, StoreIncompatible, Exception), match=r"data\.mdb"):
            MessageStore.open(killed)
    data.write_bytes(whole)
    assert found(killed) == BODIES


def test_boots_are_known_by_the_files_beside(killed: Path) -> None:
    reached = read_high_water(killed / HIGH_WATER)
    assert reached is not None
    assert known_boot(killed) == reached.boot == 1
