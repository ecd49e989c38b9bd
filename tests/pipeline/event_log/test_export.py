"""Sealed segments to Parquet: every event once, whole files only, and on from where it stopped."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from harness.brokers.full_disk import no_file_larger_than
from harness.brokers.recording_broker import events_in
from harness.project import ROOT
from leveret_spark.events.event_columns import SCHEMA
from leveret_spark.events.event_log_reader import Event, SegmentError
from leveret_spark.events.sealed_segments import SegmentDirectory
from pipeline.export import MANIFEST, Export, ManifestError, Target
from storage.events.event_log_writer import EventLog, EventLogSettings, Part

pytestmark = pytest.mark.slow

SMALL = EventLogSettings(1, 3600.0, 0)
ROUTE, STOP = 11, 2


@pytest.fixture
def segments(tmp_path: Path) -> Path:
    """Three segments, of which the second begins five events late."""
    log, _ = EventLog.open(tmp_path / "events", "node", 7, SMALL)
    log.append(Part([(ROUTE, 1_000_000, b"/", b"q", (7 << 40) + 1, (7 << 40) + 1, 3, 1)], 1, 3))
    log.append(Part([(ROUTE, 2_000_000, b"/", b"q", (7 << 40) + 9, (7 << 40) + 9, 2, 1)], 9, 2))
    log.append(Part([(STOP, 3_000_000, 1)], 11, 1))
    log.close()
    return tmp_path / "events"


def run(segments: Path, out: Path) -> int:
    """Export; how many files were new."""
    work = Export(SegmentDirectory(segments), Target(str(out)))
    return sum(work.run(name) is not None for name in work.sizes)


def table(out: Path) -> list[dict[str, object]]:
    files = sorted(out.glob("node*.parquet"))
    return [row for file in files for row in pq.read_table(file).to_pylist()]


def test_every_event_is_a_row(segments: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run(segments, out) == 3
    rows = table(out)
    events = events_in(segments)
    assert len(rows) == len(events) == 6
    for row, event in zip(rows, events, strict=True):
        shown = {**row, "ts_us": int(row.pop("ts").timestamp() * 1_000_000)}  # type: ignore[attr-defined]
        del shown["ts"]
        assert Event(**shown) == event
    assert pq.read_schema(next(iter(out.glob("*.parquet")))).equals(SCHEMA)


def test_the_manifest_says_what_is_whole(segments: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(segments, out)
    listed = json.loads((out / MANIFEST).read_text())
    assert listed["format"] == 1
    assert [(file["first"], file["last"], file["rows"], file["missing"]) for file in listed["files"]] == [
        (1, 3, 3, 0),
        (9, 10, 2, 0),
        (11, 11, 1, 0),
    ]
    for file in listed["files"]:
        content = (out / file["file"]).read_bytes()
        assert (len(content), hashlib.sha256(content).hexdigest()) == (file["bytes"], file["sha256"])
        segment = (segments / file["file"]).with_suffix(".events").read_bytes()
        assert hashlib.sha256(segment).hexdigest() == file["segment_sha256"]


def test_what_is_there_is_not_written_again(segments: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    work = Export(SegmentDirectory(segments), Target(str(out)))
    work.run(next(iter(work.sizes)))
    (out / "_tmp.half.parquet").write_bytes(b"half")
    assert run(segments, out) == 2
    assert run(segments, out) == 0
    assert len(table(out)) == 6


def test_a_file_that_was_cut_is_written_again(segments: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(segments, out)
    victim = sorted(out.glob("node*.parquet"))[1]
    victim.write_bytes(victim.read_bytes()[:-1])
    assert run(segments, out) == 1
    assert len(table(out)) == 6


def test_a_segment_that_goes_meanwhile_is_passed_over(segments: Path, tmp_path: Path) -> None:
    work = Export(SegmentDirectory(segments), Target(str(tmp_path / "out")))
    min(segments.iterdir()).unlink()
    assert [file.first for name in work.sizes if (file := work.run(name))] == [9, 11]


def test_events_that_the_log_lost_are_counted(tmp_path: Path) -> None:
    log, _ = EventLog.open(tmp_path / "events", "node", 7, EventLogSettings(1 << 20, 3600.0, 0))
    log.append(Part([(STOP, 1, 1)], 1, 1))
    log.append(Part([(STOP, 1, 1)], 5, 1))
    log.close()
    work = Export(SegmentDirectory(tmp_path / "events"), Target(str(tmp_path / "out")))
    (file,) = [file for name in work.sizes if (file := work.run(name))]
    assert (file.first, file.last, file.rows, file.missing) == (1, 5, 2, 3)


def test_a_damaged_segment_is_an_error_and_costs_nothing_else(segments: Path, tmp_path: Path) -> None:
    victim = sorted(segments.iterdir())[1]
    victim.write_bytes(victim.read_bytes()[:-1])
    with pytest.raises(SegmentError, match=r"node-00000007-\d+-\d+\.events: damaged at byte 18"):
        run(segments, tmp_path / "out")
    assert len(json.loads((tmp_path / "out" / MANIFEST).read_text())["files"]) == 1


def test_a_manifest_of_a_newer_release_is_left_alone(segments: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / MANIFEST).write_text('{"format": 2, "files": []}')
    with pytest.raises(ManifestError, match="format 2, this release reads format 1"):
        run(segments, out)
    assert [path.name for path in out.iterdir()] == [MANIFEST]


@pytest.mark.parametrize("content", ["", "{", "[]", '{"format": 1}'])
def test_a_manifest_that_is_damaged_is_named_and_left_alone(segments: Path, tmp_path: Path, content: str) -> None:
    (tmp_path / MANIFEST).write_text(content)
    with pytest.raises(ManifestError, match=rf"{tmp_path}/{MANIFEST}: is not a manifest, or is damaged: "):
        run(segments, tmp_path)
    assert (tmp_path / MANIFEST).read_text() == content


def test_a_file_that_the_disk_does_not_take_is_named_and_not_there(segments: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with no_file_larger_than(100), pytest.raises(OSError, match=rf"{out}/node-00000007-.*\.parquet: .*too large"):
        run(segments, out)
    assert list(out.iterdir()) == []


def test_any_file_system_that_pyarrow_knows(segments: Path, tmp_path: Path) -> None:
    out = tmp_path / "by-uri"
    work = Export(SegmentDirectory(segments), Target(out.as_uri()))
    assert all(work.run(name) for name in work.sizes)
    assert len(table(out)) == 6


def leveret(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "broker", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_the_command(segments: Path, tmp_path: Path) -> None:
    arguments = ("export", "events", "--data-dir", str(tmp_path), "--to", str(tmp_path / "out"))
    done = leveret(*arguments)
    assert (done.returncode, done.stdout) == (0, f"6 events in 3 new files in {tmp_path}/out\n")
    again = leveret(*arguments)
    assert (again.returncode, again.stdout) == (0, f"0 events in 0 new files in {tmp_path}/out\n")


def test_the_command_names_what_is_wrong(tmp_path: Path) -> None:
    done = leveret("export", "events", "--from", str(tmp_path / "none"), "--to", str(tmp_path / "out"))
    assert (done.returncode, done.stderr) == (1, f"leveret: error: {tmp_path}/none: No such file or directory\n")
    done = leveret("export", "events", "--from", str(tmp_path), "--to", "nothing://here")
    assert done.returncode == 1
    assert done.stderr.startswith("leveret: error: ")
