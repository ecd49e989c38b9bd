"""The event log on disk: sealed by size and by age, kept up to a limit, whole after a kill at any instant."""

from __future__ import annotations

import logging
import os
import shutil
import sys
import threading
from pathlib import Path
from signal import SIGKILL
from subprocess import PIPE, Popen

import msgspec
import pytest

from harness.brokers.full_disk import no_file_larger_than
from harness.brokers.recording_broker import events_in
from harness.project import ROOT
from harness.waiting import eventually
from leveret_events.segment_blocks import START, SegmentError, with_head
from leveret_events.segment_names import SegmentName, node_name, parse_name, unsealed_name
from leveret_spark.events.event_columns import read_segment
from storage.events.event_log_writer import WAITING_TAILS_MAX, EventLog, EventLogSettings, Part
from storage.events.event_segment_file import EventSegmentFile
from storage.events.event_tail_file import MARK, as_segment_blocks, tail_blocks, tail_name
from storage.messages.small_records import NumberInBoot

LARGE = EventLogSettings(1 << 30, 3600.0, 0)
SMALL = EventLogSettings(1, 3600.0, 0)
NODE = "node@host"
STOP = 2


def part(first: int, events: int) -> Part:
    """Return `events` events, each a stop: the plainest there is."""
    return Part([(STOP, 1_000_000 + number, 1) for number in range(first, first + events)], first, events)


def opened(directory: Path, boot: int, settings: EventLogSettings = LARGE) -> tuple[EventLog, NumberInBoot | None]:
    return EventLog.open(directory, NODE, boot, settings)


def record(directory: Path, boot: int, settings: EventLogSettings = LARGE, *parts: Part) -> NumberInBoot | None:
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


FIRST, SECOND = (part(1, 3), part(4, 2)), (part(6, 40),)
"""Parts appended to two tails, one after the other."""
ALL = 45


def tail(*parts: Part) -> bytes:
    return MARK + b"".join(with_head(msgspec.msgpack.encode(one.records), one.first, one.events) for one in parts)


def segment(*parts: Part) -> bytes:
    return START + b"".join(block for block, _, _ in as_segment_blocks(tail_blocks(tail(*parts))))


@pytest.mark.parametrize(
    "left",
    [
        {tail_name(NODE, 5, 1): tail(*FIRST)},
        {tail_name(NODE, 5, 1): tail(*FIRST), unsealed_name(NODE, 5, 1): segment(*FIRST)},
        {unsealed_name(NODE, 5, 1): segment(*FIRST)},
        {tail_name(NODE, 5, 1): tail(*FIRST), str(SegmentName(NODE, 5, 1, 5)): segment(*FIRST)},
        {str(SegmentName(NODE, 5, 1, 5)): segment(*FIRST)},
        {unsealed_name(NODE, 5, 1): segment(*FIRST, *SECOND)},
        {str(SegmentName(NODE, 5, 1, ALL)): segment(*FIRST, *SECOND)},
        {tail_name(NODE, 5, 1): tail(*FIRST), tail_name(NODE, 5, 2): tail(*FIRST, *SECOND)},
    ],
    ids=[
        "killed before the first tail is taken in",
        "killed before it is removed",
        "killed when it was removed",
        "killed in a start that has sealed what was in it",
        "killed when that was sealed",
        "killed before the second is removed",
        "killed in a start that has sealed that",
        "a copy of tails beside them",
    ],
)
def test_nothing_is_lost_or_twice_there_after_a_kill(tmp_path: Path, left: dict[str, bytes]) -> None:
    for name, data in {**left, tail_name(NODE, 5, 6): tail(*SECOND)}.items():
        (tmp_path / name).write_bytes(data)
    assert record(tmp_path, 6) == NumberInBoot(5, ALL)
    assert numbers(tmp_path) == [(5, number) for number in range(1, ALL + 1)]
    assert all(map(parse_name, names(tmp_path)))


def test_what_a_crash_left_is_cut_at_its_last_whole_block(tmp_path: Path) -> None:
    """A tail, or a segment, at whatever byte it ends, and before a damaged block."""
    whole = {
        tail_name(NODE, 5, 1): [tail(*FIRST[:count]) for count in range(3)],
        unsealed_name(NODE, 5, 1): [segment(*FIRST[:count]) for count in range(2)]
        + [segment(*FIRST[:1]) + segment(*FIRST[1:])[len(START) :]],
    }
    directory = tmp_path / "cut"
    for name, (_, one, two) in whole.items():
        damaged = bytearray(two)
        damaged[len(one) - 1] ^= 1
        for left in [*(two[:size] for size in range(len(two) + 1)), bytes(damaged)]:
            directory.mkdir()
            (directory / name).write_bytes(left)
            last = record(directory, 6)
            kept = 0 if not left.startswith(one) else 3 if left != two else 5
            assert last == (NumberInBoot(5, kept) if kept else None)
            assert numbers(directory) == [(5, number) for number in range(1, kept + 1)]
            assert all(map(parse_name, names(directory)))
            shutil.rmtree(directory)


def test_blocks_of_a_segment_are_as_large_as_they_should_be(tmp_path: Path) -> None:
    """8192 events and what else was appended with the last of them; none is missing in between."""
    appended = [part(1, 5), *(part(first, 700) for first in range(10, 14_010, 700)), part(20_000, 70_000)]
    found = [(first, events) for _, first, events in as_segment_blocks(tail_blocks(tail(*appended)))]
    assert found == [(1, 5), (10, 8400), (8410, 5600), (20_000, 70_000)]
    (tmp_path / tail_name(NODE, 5, 1)).write_bytes(tail(*appended))
    record(tmp_path, 6)
    assert [event.seq for event in events_in(tmp_path)] == [
        number for one in appended for number in range(one.first, one.first + one.events)
    ]


APPENDING = """
import sys
from pathlib import Path
from storage.events import event_log_writer
from storage.events.event_log_writer import EventLog, EventLogSettings, Part

event_log_writer.TAIL_BYTES = 20_000
log, _ = EventLog.open(Path(sys.argv[1]), "node@host", 5, EventLogSettings(1 << 30, 3600.0, 0))
for first in range(1, 1_000_000, 7):
    log.append(Part([(2, number, 1) for number in range(first, first + 7)], first, 7))
    print(first + 6, flush=True)
"""


@pytest.mark.parametrize("lines", [1, 400, 3000])
def test_what_was_appended_outlives_a_process_that_is_killed(tmp_path: Path, lines: int) -> None:
    with Popen([sys.executable, "-c", APPENDING, str(tmp_path)], stdout=PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        for _ in range(lines):
            said = int(process.stdout.readline())
        os.kill(process.pid, SIGKILL)
    last = record(tmp_path, 6)
    assert last is not None
    assert last.number >= said
    assert numbers(tmp_path) == [(5, number) for number in range(1, last.number + 1)]


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
    assert caplog.text.count("events are lost") == 1


def test_a_full_disk_costs_what_it_does_not_take(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A block that was half written goes; a start leaves a tail to the next one."""
    log, _ = opened(tmp_path, 5)
    log.append(part(1, 3))
    size = (tmp_path / tail_name(NODE, 5, 1)).stat().st_size
    with no_file_larger_than(size + 20):
        log.append(part(4, 3))
    log.append(part(7, 3))
    log.close()
    assert log.lost == 3
    (tmp_path / tail_name(NODE, 5, 10)).write_bytes(tail(part(10, 4)))
    with no_file_larger_than(10), caplog.at_level(logging.ERROR):
        assert record(tmp_path, 6) == NumberInBoot(5, 9)
    assert "cannot add events of boot 5 to the event log, the next start will" in caplog.text
    assert record(tmp_path, 7) == NumberInBoot(5, 13)
    assert numbers(tmp_path) == [(5, number) for number in (1, 2, 3, *range(7, 14))]


def test_a_log_that_falls_behind_costs_events_and_no_time(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk takes what is appended, and does not get done with the first segment."""
    reached, done = threading.Event(), threading.Event()

    def seal(self: EventSegmentFile) -> None:
        reached.set()
        done.wait()
        seal_at_once(self)

    seal_at_once = EventSegmentFile.seal
    monkeypatch.setattr(EventSegmentFile, "seal", seal)
    log, _ = opened(tmp_path, 1, SMALL)
    log.append(part(1, 1))
    reached.wait()
    with caplog.at_level(logging.ERROR):
        for first in range(2, WAITING_TAILS_MAX + 12):
            log.append(part(first, 1))
    lost = log.lost
    assert lost > 0
    assert "the disk is too slow" in caplog.text
    done.set()
    log.close()
    assert numbers(tmp_path) == [(1, number) for number in range(1, WAITING_TAILS_MAX + 12 - lost)]


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
