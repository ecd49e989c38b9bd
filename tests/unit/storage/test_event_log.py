"""The event log on disk: sealed by size and by age, kept up to a limit, cut at the last whole block after a crash."""

from __future__ import annotations

import logging
import shutil
import threading
from datetime import datetime, timedelta, tzinfo
from pathlib import Path

import msgspec
import pytest

from harness.brokers.recording_broker import events_in
from harness.waiting import eventually
from leveret_spark.events.event_columns import read_segment
from leveret_spark.events.segment_format import (
    START,
    SegmentError,
    SegmentName,
    encode_block,
    node_name,
    parse_name,
    parse_unsealed,
    unsealed_name,
)
from storage.events.event_log_writer import WAITING_PARTS_MAX, EventLog, EventLogSettings, Part
from storage.messages.records import LastEvent

LARGE = EventLogSettings(1 << 30, 3600.0, 0)
SMALL = EventLogSettings(1, 3600.0, 0)
NODE = "node@host"
STOP = 2


def part(first: int, events: int) -> Part:
    """So many events, each a stop: the plainest there is."""
    return Part([(STOP, 1_000_000 + number, 1) for number in range(first, first + events)], first, events)


def opened(directory: Path, boot: int, settings: EventLogSettings = LARGE) -> tuple[EventLog, LastEvent | None]:
    return EventLog.open(directory, NODE, boot, settings)


def record(directory: Path, boot: int, settings: EventLogSettings = LARGE, *parts: Part) -> LastEvent | None:
    """Write the log of a boot and close it; what had been left there before."""
    log, last = opened(directory, boot, settings)
    for found in parts:
        log.append(found)
    log.close()
    return last


def numbers(directory: Path) -> list[tuple[int, int]]:
    return [(event.boot, event.seq) for event in events_in(directory)]


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_a_closed_log_is_one_sealed_segment(tmp_path: Path) -> None:
    """If nothing was recorded there is none; and one is sealed when it is large enough."""
    directory = tmp_path / "events"
    assert record(directory, 6) is None
    assert names(directory) == []
    assert record(directory, 7, LARGE, part(1, 2), part(3, 1)) is None
    assert names(directory) == ["node@host-00000007-0000000000000001-0000000000000003.events"]
    found = events_in(directory)
    assert [(event.node, event.boot, event.seq, event.ts_us, event.kind) for event in found] == [
        (NODE, 7, number, 1_000_000 + number, "stop") for number in (1, 2, 3)
    ]
    record(tmp_path / "small", 1, SMALL, part(1, 3), part(4, 3), part(7, 3))
    sealed = [parse_name(name) for name in names(tmp_path / "small")]
    assert [(name.first, name.last) for name in sealed if name] == [(1, 3), (4, 6), (7, 9)]


def test_a_segment_is_sealed_when_it_is_old_enough_though_nothing_follows(tmp_path: Path) -> None:
    log, _ = opened(tmp_path, 1, LARGE._replace(segment_seconds=0.05))
    log.append(part(1, 3))
    eventually(lambda: [name for name in names(tmp_path) if parse_name(name)], "the segment to be sealed")
    log.close()
    assert numbers(tmp_path) == [(1, 1), (1, 2), (1, 3)]


def test_the_oldest_segments_go_first_and_the_newest_stays(tmp_path: Path) -> None:
    record(tmp_path, 1, SMALL, part(1, 3))
    size = sum(path.stat().st_size for path in tmp_path.iterdir())
    record(tmp_path, 2, EventLogSettings(1, 3600.0, int(size * 2.5)), *(part(first, 3) for first in (1, 4, 7, 10)))
    assert numbers(tmp_path) == [(2, number) for number in range(7, 13)]
    record(tmp_path, 3, EventLogSettings(1, 3600.0, 1), part(1, 3))
    assert numbers(tmp_path) == [(3, 1), (3, 2), (3, 3)]


def leftover(directory: Path) -> tuple[Path, list[int]]:
    """What a killed process leaves after two parts, and where its blocks end."""
    path = directory / unsealed_name(NODE, 5, 1)
    whole, ends = START, [len(START)]
    for found in (part(1, 3), part(4, 2)):
        whole += encode_block(msgspec.msgpack.encode(found.records), found.first, found.events)
        ends.append(len(whole))
    path.write_bytes(whole)
    return path, ends


def test_what_a_killed_process_left_is_cut_at_its_last_whole_block(tmp_path: Path) -> None:
    """At whatever byte it ends, and before a damaged one."""
    model = tmp_path / "model"
    model.mkdir()
    path, ends = leftover(model)
    data = path.read_bytes()
    damaged = bytearray(data)
    damaged[ends[1] + 25] ^= 1
    for left in [*(data[:size] for size in range(len(START), len(data) + 1)), bytes(damaged)]:
        directory = tmp_path / "cut"
        directory.mkdir()
        (directory / path.name).write_bytes(left)
        last = record(directory, 6)
        kept = 0 if len(left) < ends[1] else 3 if len(left) < ends[2] or left == damaged else 5
        assert last == (LastEvent(5, kept) if kept else None)
        assert numbers(directory) == [(5, number) for number in range(1, kept + 1)]
        assert not [name for name in names(directory) if parse_unsealed(name)]
        shutil.rmtree(directory)


def test_what_another_node_or_version_left_is_left_as_it_is(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    other, newer = tmp_path / unsealed_name("other", 1, 1), tmp_path / unsealed_name(NODE, 5, 1)
    other.write_bytes(START)
    newer.write_bytes(START[:-1] + b"\x09")
    with caplog.at_level(logging.ERROR):
        assert record(tmp_path, 6, EventLogSettings(1, 3600.0, 1), part(1, 1)) is None
    assert (other.exists(), newer.exists()) == (True, True)
    assert "a segment of format version 9; this release reads up to 2" in caplog.text


def test_a_log_that_cannot_be_written_loses_events_and_says_so_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    directory = tmp_path / "events"
    with caplog.at_level(logging.ERROR):
        log, _ = opened(directory, 1)
        directory.rmdir()
        log.append(part(1, 3))
        log.append(part(4, 3))
        eventually(lambda: log.lost == 6, "both parts to be lost")
        directory.mkdir()
        log.append(part(7, 2))
        log.close()
    assert numbers(directory) == [(1, 7), (1, 8)]
    assert caplog.text.count("events are being lost") == 1


class Gate(tzinfo):
    """A time zone. Who wants to write down a time in it is held up until the gate is open."""

    def __init__(self) -> None:
        self.reached, self.open = threading.Event(), threading.Event()

    def utcoffset(self, _time: datetime | None) -> timedelta:
        self.reached.set()
        self.open.wait()
        return timedelta(0)


def test_a_log_that_falls_behind_costs_events_and_no_time(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log, _ = opened(tmp_path, 1)
    gate = Gate()
    log.append(Part([(STOP, datetime(2026, 1, 1, tzinfo=gate), 1)], 1, 1))
    gate.reached.wait()
    with caplog.at_level(logging.ERROR):
        for first in range(2, WAITING_PARTS_MAX + 12):
            log.append(part(first, 1))
    assert log.lost == 10
    assert "the disk is too slow" in caplog.text
    gate.open.set()
    log.close()
    (name,) = [parsed for path in tmp_path.iterdir() if (parsed := parse_name(path.name))]
    assert name.last == WAITING_PARTS_MAX + 1


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"something else", "not a segment of an event log"),
        (START[:-1] + b"\x07", "a segment of format version 7; this release reads up to 2"),
        (START + b"\0\0", "cut short at byte 18"),
        (START + b"\0" * 20, "damaged at byte 18"),
    ],
)
def test_readers_refuse_what_is_no_whole_segment(data: bytes, problem: str) -> None:
    with pytest.raises(SegmentError, match=problem):
        list(read_segment(SegmentName(NODE, 1, 1, 1), data))


@pytest.mark.parametrize(
    ("name", "expected"),
    [("leveret@host-1.example", "leveret@host-1.example"), ("a b/c", "a_b_c"), ("", "_"), ("x" * 200, "x" * 100)],
)
def test_node_names_in_file_names(name: str, expected: str) -> None:
    assert node_name(name) == expected
    assert parse_name(f"{expected}-00000001-0000000000000002-0000000000000003.events") == (expected, 1, 2, 3)
