"""Sealed segments to Parquet: every event once, whole files only, and on from where it stopped."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from harness.brokers.full_disk import no_file_larger_than
from harness.brokers.recording_broker import events_in
from leveret_events.segment_blocks import SegmentError
from leveret_spark.events.event_columns import SCHEMA, Event
from leveret_spark.events.sealed_segments import SegmentDirectory
from pipeline.export import MANIFEST, Export
from pipeline.file_target import ManifestError, Target
from storage.events.event_log_writer import EventLog, EventLogSettings, Part
from tests.pipeline.inputs.command import leveret

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


def run(segments: Path, out: Path | str) -> int:
    """Export; how many files were new."""
    work = Export(SegmentDirectory(segments), Target(str(out)))
    return sum(work.run(name) is not None for name in work.sizes)


def rows_in(out: Path) -> int:
    return sum(pq.read_metadata(file).num_rows for file in out.glob("node*.parquet"))


def test_every_event_is_a_row(segments: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run(segments, out.as_uri()) == 3, "any file system that pyarrow knows"
    files = sorted(out.glob("*.parquet"))
    rows = [row for file in files for row in pq.read_table(file).to_pylist()]
    shown = [Event(**{name: value for name, value in row.items() if name != "ts"}, ts_us=micros(row)) for row in rows]
    assert shown == events_in(segments)
    assert pq.read_schema(files[0]).equals(SCHEMA)
    listed = json.loads((out / MANIFEST).read_text())
    assert listed["format"] == 1
    found = [(file["first"], file["last"], file["rows"], file["missing"]) for file in listed["files"]]
    assert found == [(1, 3, 3, 0), (9, 10, 2, 0), (11, 11, 1, 0)]
    for file in listed["files"]:
        content = (out / file["file"]).read_bytes()
        assert (len(content), hashlib.sha256(content).hexdigest()) == (file["bytes"], file["sha256"])
        segment = (segments / file["file"]).with_suffix(".events").read_bytes()
        assert hashlib.sha256(segment).hexdigest() == file["segment_sha256"]


def micros(row: dict[str, Any]) -> int:
    return int(row["ts"].timestamp() * 1_000_000)


def test_only_what_is_not_there_whole_is_written(segments: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    work = Export(SegmentDirectory(segments), Target(str(out)))
    work.run(next(iter(work.sizes)))
    (out / "_tmp.half.parquet").write_bytes(b"half")
    assert run(segments, out) == 2
    assert run(segments, out) == 0
    victim = sorted(out.glob("node*.parquet"))[1]
    victim.write_bytes(victim.read_bytes()[:-1])
    assert run(segments, out) == 1
    assert rows_in(out) == 6


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
    with pytest.raises(SegmentError, match=r"node-00000007-\d+-\d+\.events: damaged at byte 51"):
        run(segments, tmp_path / "out")
    assert len(json.loads((tmp_path / "out" / MANIFEST).read_text())["files"]) == 1


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ('{"format": 2, "files": []}', "format 2, this release reads format 1"),
        *((damaged, "is not a manifest, or is damaged: ") for damaged in ("", "{", "[]", '{"format": 1}')),
    ],
)
def test_a_manifest_that_cannot_be_read_is_named_and_left_alone(
    segments: Path, tmp_path: Path, content: str, complaint: str
) -> None:
    (tmp_path / "out").mkdir()
    manifest = tmp_path / "out" / MANIFEST
    manifest.write_text(content)
    with pytest.raises(ManifestError, match=rf"{manifest}: {complaint}"):
        run(segments, tmp_path / "out")
    assert manifest.read_text() == content
    assert list(manifest.parent.iterdir()) == [manifest]


def test_a_file_that_the_disk_does_not_take_is_named_and_not_there(segments: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with no_file_larger_than(100), pytest.raises(OSError, match=rf"{out}/node-00000007-.*\.parquet: .*too large"):
        run(segments, out)
    assert list(out.iterdir()) == []


def test_the_command(segments: Path, tmp_path: Path) -> None:
    arguments = ("export", "events", "--data-dir", tmp_path, "--to", tmp_path / "out")
    assert leveret(*arguments) == (0, f"6 events in 3 new files in {tmp_path}/out\n", "")
    assert leveret(*arguments) == (0, f"0 events in 0 new files in {tmp_path}/out\n", "")


def test_the_command_names_what_is_wrong(tmp_path: Path) -> None:
    done = leveret("export", "events", "--from", tmp_path / "none", "--to", tmp_path / "out")
    assert done == (1, "", f"leveret: error: {tmp_path}/none: No such file or directory\n")
    done = leveret("export", "events", "--from", tmp_path, "--to", "nothing://here")
    assert (done.code, done.errors[:16]) == (1, "leveret: error: ")
