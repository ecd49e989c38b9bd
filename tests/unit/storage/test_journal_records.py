"""A batch as the journal has it, and as a start reads it."""

from __future__ import annotations

import pytest

from storage.batch import LaneCounters, SealedBatch, SealedLane
from storage.journal.journal_records import decode_batch, encode_batch
from storage.storage_errors import StoreCorrupt

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
