"""Segments and small records: what is packed is unpacked, and damage never goes unnoticed."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from storage.batch import LaneCounters, Put
from storage.messages.message_segments import SEGMENT_BYTES, SEGMENT_MESSAGES, MessageSegment, pack
from storage.messages.small_records import Settled, StoreIdentity, decode_counters, encode_counters
from storage.record_frame import frame, unframe
from storage.storage_errors import StoreCorrupt, StoreIncompatible
from tests.unit.storage.writing import record


def run(count: int, size: int = 10) -> list[tuple[int, Put]]:
    return [(10 + 3 * number, (record(bytes([number & 255]) * size), number)) for number in range(count)]


def only(puts: list[tuple[int, Put]]) -> MessageSegment:
    ((_first, value),) = pack(puts)
    return MessageSegment(value)


def test_segments_are_cut_at_their_limits() -> None:
    by_count = [MessageSegment(value).count for _first, value in pack(run(2 * SEGMENT_MESSAGES + 1, size=1))]
    assert by_count == [SEGMENT_MESSAGES, SEGMENT_MESSAGES, 1]
    by_size = list(pack(run(100, size=10_000)))
    assert max(len(value) for _first, value in by_size) <= SEGMENT_BYTES
    assert sum(MessageSegment(value).count for _first, value in by_size) == 100
    alone = pack([*run(1), (50, (record(bytes(SEGMENT_BYTES)), 0)), (51, (record(b""), 0))])
    assert [(first, MessageSegment(value).count) for first, value in alone] == [(10, 1), (50, 1), (51, 1)]


def flipped(record: bytes, places: range) -> Iterator[bytes]:
    """A record with a bit changed in each of these bytes in turn."""
    for at in places:
        damaged = bytearray(record)
        damaged[at] ^= 1 << (at % 8)
        yield bytes(damaged)


def test_damage_is_noticed() -> None:
    """In an index, in counters, of any byte; in what is cut or too short; and what others wrote is not ours."""
    value = bytes(only(run(5)).value)
    for damaged in flipped(value, range(MessageSegment(value).payload_at)):
        with pytest.raises(StoreCorrupt):
            MessageSegment(damaged)
    record = encode_counters(LaneCounters(1, 2, 3, 4))
    cut = [record[:at] for at in range(1, len(record))]
    for damaged in (*flipped(record, range(1, len(record))), *cut, frame(b"short")):
        with pytest.raises(StoreCorrupt):
            decode_counters(damaged)
    with pytest.raises(StoreCorrupt):
        unframe(b"\x02" + record[1:], "a record")
    with pytest.raises(StoreIncompatible):
        StoreIdentity.decode(frame(b"another\x00" + bytes(24)))


def test_a_run_is_settled_as_its_messages_one_by_one() -> None:
    """A run whose positions follow each other and are all there; others are looked up one by one."""
    places = (5, 6, 7, 9, 10)
    segment = only([(position, (record(bytes(position)), 0)) for position in places])
    for wanted, slots in (
        *(((5, 6, 7), range(3)), ((9, 10), range(3, 5)), ((6,), range(1, 2))),
        *(((), range(0)), ((7, 9), range(0)), ((8, 9), range(0)), ((4, 5), range(0)), ((10, 11), range(0))),
    ):
        assert segment.run(wanted) == slots
        assert segment.slots(wanted) == {place: places.index(place) for place in wanted if place in places}
        together, alone = segment.settled(None), segment.settled(None)
        together.deliveries, alone.deliveries = {1: 2, 4: 1}, {1: 2, 4: 1}
        if slots:
            assert together.lacks(slots)
            together.add_run(slots, segment.weight_of_run(slots))
        for slot in slots:
            alone.add(slot, segment.weight(slot)[0])
        assert together.encode() == alone.encode()
        assert together.lacks(slots) == (not slots)


def test_bitmaps_count_what_is_left() -> None:
    """A segment is cut short when its settled messages outweigh those that are left."""
    settled = Settled.none(19, 190)
    chosen = random.Random(1).sample(range(19), 8)
    for slot in chosen:
        settled.add(slot, 10)
    again = Settled.decode(settled.encode(), 19)
    assert (again.live, again.live_bytes) == (11, 110)
    assert {slot for slot in range(19) if slot in again} == set(chosen)
    with pytest.raises(StoreCorrupt):
        Settled.decode(settled.encode(), 100)
    settled.live += 1
    with pytest.raises(StoreCorrupt):
        Settled.decode(settled.encode(), 19)
    whole = only(run(5)).value
    cut = MessageSegment(bytes(whole)[: MessageSegment(whole).payload_at])
    settled = cut.settled(None)
    for slot in range(4):
        settled.add(slot, cut.weight(slot)[0])
    assert Settled.decode(settled.encode(), 5).live_bytes == 0
