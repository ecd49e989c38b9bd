"""Batches as the journal has them and a start reads them; and a journal in its first format.

In that, records are searched for at each page. A client could write such a record into a message, so there may be two
with one number.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from storage.batch import ClosedStreamSegment, LaneCounters, SealedBatch, SealedLane
from storage.journal.journal_file import NAME, PAGE_BYTES
from storage.journal.journal_payload import decode_batch, encode_batch
from storage.messages import lmdb_environment
from storage.messages.keys import JOURNAL_MARK
from storage.messages.message_store import MessageStore
from storage.storage_errors import StoreCorrupt, StoreIncomplete
from tests.security.contents.forged_records import record
from tests.unit.storage.writing import Writer, bodies

COUNTERS = LaneCounters(1, 100, 7, 0)


def batch(*moved: tuple[int, int]) -> SealedBatch:
    lane = SealedLane(1, 0, (), (3, 4), COUNTERS, ((5, 2),), moved)
    return SealedBatch(8, (lane,), (), (9,), (), (), 6)


@pytest.mark.parametrize("counted", [0, 100, -1])
def test_a_start_reads_what_was_moved(counted: int) -> None:
    """-1 stands for a message that its lane did not count: a start was refused for it."""
    written = batch((11, counted), (12, 1))
    read = decode_batch(encode_batch(written), 8)
    assert read._replace(bytes=0) == written


@pytest.mark.parametrize("moved", [(-1, 100), (11, -2)])
def test_a_number_that_nobody_writes_is_damage(moved: tuple[int, int]) -> None:
    with pytest.raises(StoreCorrupt, match="batch 8 of the journal cannot be read"):
        decode_batch(encode_batch(batch(moved)), 8)


def test_a_stream_segment_without_messages_is_damage() -> None:
    with pytest.raises(StoreCorrupt, match="batch 8 of the journal closes a stream segment without messages"):
        decode_batch(encode_batch(batch()._replace(closed_segments=(ClosedStreamSegment(1, 0, 5, 5, 0, 0),))), 8)


def killed(path: Path, *numbers: int) -> None:
    """Make a store with records of these numbers in the first format. Each puts its place among them, LMDB has none."""
    with MessageStore.open(path) as store:
        writer, journal = Writer(store), b""
        for place, number in enumerate(numbers, 1):
            writer.put(1, b"%d" % place)
            journal += record(store.uuid, store.boot, number, encode_batch(writer.seal())).ljust(PAGE_BYTES, b"\0")
    with lmdb_environment.open_environment(path) as environment, environment.begin(write=True) as txn:
        txn.delete(JOURNAL_MARK)
    (path / NAME).write_bytes(journal)


def found(path: Path, *, accept_loss: bool = False) -> list[bytes]:
    with MessageStore.open(path, accept_loss=accept_loss) as store:
        return bodies(store, 1)


def test_a_start_takes_over_a_journal_in_its_first_format(path: Path) -> None:
    killed(path, 1, 2, 3)
    assert found(path) == [b"1", b"2", b"3"]


@pytest.mark.parametrize(
    ("numbers", "lost", "left"),
    [((1, 2, 2, 3), 2, [b"1", b"2", b"4"]), ((1, 1, 3), 1, [b"1", b"3"]), ((1, 3, 3), 2, [b"1", b"2"])],
)
def test_a_number_that_is_missing_or_there_twice_is_damage(
    path: Path, numbers: tuple[int, ...], lost: int, left: list[bytes]
) -> None:
    killed(path, *numbers)
    with pytest.raises(StoreIncomplete, match=f"journal is damaged; batch {lost} at least is lost"):
        MessageStore.open(path)
    assert found(path, accept_loss=True) == left
