"""Segments and small records: what is packed is unpacked, and damage never goes unnoticed."""

from __future__ import annotations

import random

import pytest

from storage.batch import LaneCounters, Put
from storage.messages.records import (
    Identity,
    Settled,
    Sweep,
    decode_counters,
    decode_number,
    encode_counters,
    encode_number,
    frame,
    pack_positions,
    unframe,
)
from storage.messages.segments import HEADER, SEGMENT_BYTES, SEGMENT_MESSAGES, SHARED, TRANSIENT, Segment, pack, repack
from storage.storage_errors import StoreCorrupt, StoreIncompatible
from tests.unit.storage.writing import Message


def run(count: int, size: int = 10) -> list[tuple[int, Put]]:
    return [(10 + 3 * number, (Message(bytes([number & 255]) * size), number)) for number in range(count)]


def only(puts: list[tuple[int, Put]]) -> Segment:
    ((_first, value),) = pack(puts)
    return Segment(value)


def test_segments_are_cut_at_their_limits() -> None:
    by_count = [Segment(value).count for _first, value in pack(run(2 * SEGMENT_MESSAGES + 1, size=1))]
    assert by_count == [SEGMENT_MESSAGES, SEGMENT_MESSAGES, 1]
    by_size = pack(run(100, size=10_000))
    assert max(len(value) for _first, value in by_size) <= SEGMENT_BYTES
    assert sum(Segment(value).count for _first, value in by_size) == 100
    alone = pack([*run(1), (50, (Message(bytes(SEGMENT_BYTES)), 0)), (51, (Message(b""), 0))])
    assert [(first, Segment(value).count) for first, value in alone] == [(10, 1), (50, 1), (51, 1)]


def test_positions_are_found_with_any_guess() -> None:
    segment = only(run(100))
    for slot in range(100):
        for guess in (0, slot, 99, 1000):
            assert segment.find(10 + 3 * slot, guess) == slot
    assert [segment.find(position) for position in (0, 11, 10 + 3 * 100)] == [-1, -1, -1]
    assert [segment.slot_from(position) for position in (0, 10, 11, 307, 308)] == [0, 0, 1, 99, 100]


def test_kinds_tell_what_a_segment_may_hold() -> None:
    assert only(run(3)).kinds == 0
    assert only([(1, (Message(b"", body_id=4), 0))]).kinds == SHARED
    assert only([*run(1), (50, (Message(b"", persistent=False), 0))]).kinds == TRANSIENT


def test_a_shared_body_is_not_in_the_segment() -> None:
    segment = only([(1, (Message(bytes(5000), body_id=4), 0))])
    assert len(segment.value) < 200
    assert segment.entry(0).body_size == 5000


def test_repacking_keeps_every_message() -> None:
    segment = only(run(100))
    settled = segment.settled(None)
    for slot in range(0, 100, 3):
        settled.add(slot, segment.weight(slot)[0])
    kept = [(entry, segment.payload(entry)) for entry in segment.live(settled)]
    ((first, value),) = repack(kept)
    again = Segment(value)
    assert first == 13
    assert settled.live == again.count == 66
    assert settled.live_bytes == len(value) - HEADER.size
    assert [again.payload(entry) for entry in again.live(again.settled(None))] == [payload for _entry, payload in kept]


def test_any_flipped_bit_of_the_index_is_noticed() -> None:
    value = bytes(only(run(5)).value)
    index_end = Segment(value).payload_at
    for at in range(index_end):
        damaged = bytearray(value)
        damaged[at] ^= 1 << (at % 8)
        with pytest.raises(StoreCorrupt):
            Segment(bytes(damaged))


@pytest.mark.parametrize("size", [0, 1, 7, 8, 20])
def test_a_segment_cut_short_is_noticed(size: int) -> None:
    with pytest.raises(StoreCorrupt):
        Segment(bytes(only(run(5)).value)[:size])


def test_a_segment_of_another_version_than_its_store_is_damaged() -> None:
    value = bytearray(only(run(5)).value)
    value[0] = 2
    with pytest.raises(StoreCorrupt, match="version 2"):
        Segment(bytes(value))


def test_records_come_back() -> None:
    counters = LaneCounters(3, 1 << 50, (1 << 64) - 1, 9)
    assert decode_counters(encode_counters(counters)) == counters
    assert decode_number(encode_number(1 << 63), "a number") == 1 << 63
    identity = Identity(bytes(range(16)), 77)
    assert Identity.decode(identity.encode()) == identity
    sweep = Sweep(9, 2, 5, pack_positions((1, 4, 8)))
    assert Sweep.decode(sweep.encode()) == sweep


def test_damaged_records_are_noticed() -> None:
    record = encode_counters(LaneCounters(1, 2, 3, 4))
    for at in range(1, len(record)):
        damaged = bytearray(record)
        damaged[at] ^= 4
        with pytest.raises(StoreCorrupt):
            decode_counters(bytes(damaged))
        with pytest.raises(StoreCorrupt):
            decode_counters(record[:at])
    with pytest.raises(StoreCorrupt):
        decode_counters(frame(b"short"))
    with pytest.raises(StoreCorrupt):
        unframe(b"\x02" + record[1:], "a record")


def test_identities_of_others_are_refused() -> None:
    with pytest.raises(StoreIncompatible):
        Identity.decode(frame(b"another\x00" + bytes(24)))


def test_an_identity_of_another_version_is_refused() -> None:
    with pytest.raises(StoreIncompatible, match="version 2"):
        Identity.decode(b"\x02" + Identity(bytes(16), 1).encode()[1:])


def test_the_bitmap_of_a_segment_cut_short_can_be_written() -> None:
    """What is settled of it weighs more than what is left of it."""
    whole = only(run(5)).value
    cut = Segment(bytes(whole)[: Segment(whole).payload_at])
    settled = cut.settled(None)
    for slot in range(4):
        settled.add(slot, cut.weight(slot)[0])
    assert Settled.decode(settled.encode(), 5).live_bytes == 0


def test_bitmaps_count_what_is_left() -> None:
    settled = Settled.none(19, 190)
    chosen = random.Random(1).sample(range(19), 8)
    for slot in chosen:
        settled.add(slot, 10)
    again = Settled.decode(settled.encode(), 19)
    assert (again.live, again.live_bytes) == (11, 110)
    assert {slot for slot in range(19) if slot in again} == set(chosen)
    with pytest.raises(StoreCorrupt):
        Settled.decode(settled.encode(), 100)


def test_a_sweep_knows_its_dead() -> None:
    boot = 3
    sweep = Sweep(100, boot, 0, pack_positions((5, 50, 99)))
    assert [position for position in range(90, 105) if not sweep.dead(position, 1)] == [99, *range(100, 105)]
    assert [position for position in (4, 5, 6, 49, 50, 51) if not sweep.dead(position, 1)] == [5, 50]
    assert sweep.dead(101, 0)
    assert not sweep.dead(boot << 40, 0)
    assert sweep.end == boot << 40


def test_delivery_counts_stand_beside_the_bitmap_and_go_with_their_messages() -> None:
    settled = Settled.none(19, 190)
    settled.deliveries |= {3: 2, 18: 70_000, 7: 1}
    again = Settled.decode(settled.encode(), 19)
    assert again.deliveries == {3: 2, 7: 1, 18: 70_000}
    again.add(7, 10)
    assert Settled.decode(again.encode(), 19).deliveries == {3: 2, 18: 70_000}
    with pytest.raises(StoreCorrupt):
        Settled.decode(settled.encode(), 30)
