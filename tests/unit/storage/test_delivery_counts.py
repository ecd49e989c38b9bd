"""Two numbers in the 32 bits of a delivery count; a plain number is what earlier releases have written."""

from __future__ import annotations

import pytest

from storage.batch import DeliveryCounts, unpacked_counts


@pytest.mark.parametrize(
    "counts", [(0, 0), (1, 0), (70_000, 0), (0, 1), (3, 2), (65_535, 16_383), (5, -3), (65_535, -16_384)]
)
def test_counts_are_read_as_they_were_written(counts: tuple[int, int]) -> None:
    written = DeliveryCounts(*counts)
    assert written.packed() < 1 << 32
    assert unpacked_counts(written.packed()) == written
    assert unpacked_counts(written.packed()).all == sum(counts)


def test_a_plain_number_counts_deliveries() -> None:
    assert unpacked_counts(21) == DeliveryCounts(21)


def test_a_message_that_is_returned_for_ever_keeps_both_counts_in_their_bits() -> None:
    assert unpacked_counts(DeliveryCounts(5, 10_000_000).packed()) == DeliveryCounts(5, 16_383)
    assert unpacked_counts(DeliveryCounts(10_000_000, -10_000_000).packed()) == DeliveryCounts(65_535, -16_384)
