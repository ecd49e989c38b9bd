"""Results of jobs are seen whole or not at all; events are read from wherever they are, whole files only."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.brokers.http_broker import write_segments
from leveret_events.segment_names import SegmentName
from leveret_spark.events.event_columns import COLUMNS
from leveret_spark.events.sealed_segments import SegmentDirectory
from pipeline.event_parts import PART_EVENTS, parts_of
from pipeline.export import MANIFEST, Export
from pipeline.file_target import ManifestError, Target
from pipeline.jobs.audit_job import run_audit
from pipeline.jobs.engines import engine
from pipeline.jobs.job_results import ResultsError, Run, last_run


@pytest.fixture
def target(tmp_path: Path) -> Target:
    return Target(str(tmp_path / "a place"))


def test_a_target_has_whole_files(target: Target, tmp_path: Path) -> None:
    assert target.size("job/file") is None
    target.put("job/file", b"one\xff")
    target.put("job/file", b"two\xff")
    assert (target.get("job/file"), target.size("job/file")) == (b"two\xff", 4)
    assert target.names("job") == ["file"]
    assert [path.name for path in (tmp_path / "a place" / "job").iterdir()] == ["file"]
    target.remove("job")
    assert target.names() == target.names("job") == []


def test_a_run_counts_when_it_is_published(target: Target, tmp_path: Path) -> None:
    def publish(*ids: int) -> None:
        run = Run(target, "job")
        run.write("table", pa.table({"id": ids}))
        run.publish({"rows": len(ids)})

    def seen() -> tuple[list[int], Any]:
        run = last_run(target, "job")
        assert run is not None
        return run.table("table").column("id").to_pylist(), run.facts

    assert last_run(target, "job") is None
    publish(1, 2)
    assert seen() == ([1, 2], {"rows": 2})
    interrupted = Run(target, "job")
    interrupted.write("table", pa.table({"id": [9]}))
    assert seen() == ([1, 2], {"rows": 2})
    publish(3)
    publish(4)
    assert seen() == ([4], {"rows": 1})
    left = [path.name for path in (tmp_path / "a place" / "job").iterdir() if path.is_dir()]
    assert len(left) == 2, "the run before stays for its readers; what was interrupted goes with those before"


def test_results_of_a_newer_release_are_left_alone(target: Target) -> None:
    target.put("job/_run.json", b'{"format": 3}')
    with pytest.raises(ResultsError, match=r"job/_run\.json: format 3, this release reads format 2"):
        last_run(target, "job")
    for damaged in (b"", b"[]", b'{"format": 2}'):
        target.put("job/_run.json", damaged)
        with pytest.raises(ResultsError, match=r"job/_run\.json is damaged, or of another program: remove it, and run"):
            last_run(target, "job")
    target.put("job/_run.json", b'{"format": 1}')
    assert last_run(target, "job") is None


def rows_of(where: str, most: int = PART_EVENTS) -> list[dict[str, Any]]:
    """All events, read in parts of at most `most`."""
    rows = [
        [row for batch in part.batches(COLUMNS, []) for row in batch.to_pylist()] for part in parts_of(where, most=most)
    ]
    assert all(len(of_part) <= most for of_part in rows)
    return [row for of_part in rows for row in of_part]


def test_events_are_the_same_from_segments_and_from_an_export_in_parts_of_any_size(tmp_path: Path) -> None:
    segments, out = tmp_path / "log", tmp_path / "export"
    write_segments(segments, "node", 1, 2, 1)
    write_segments(segments, "node", 2, 3)
    (segments / "_tmp.node-00000003-0000000000000001").write_bytes(b"half")
    expected = rows_of(str(segments))
    assert [(row["node"], row["boot"], row["seq"], row["kind"]) for row in expected] == [
        ("node", boot, seq, "boot") for boot in (1, 2) for seq in (1, 2, 3)
    ]
    assert expected[1]["ts"].timestamp() == 2.0
    work = Export(SegmentDirectory(segments), Target(str(out)))
    assert all(work.run(name) for name in work.sizes)
    (out / "node-00000009-0000000000000001-0000000000000009.parquet").write_bytes(b"half")
    exported = max(out.glob("node-00000002-*.parquet"))
    pq.write_table(pq.read_table(exported), exported, row_group_size=1)
    for where, most in product((str(out), out.as_uri(), segments.as_uri()), (1, 2, PART_EVENTS)):
        assert rows_of(where, most) == expected


def test_events_that_two_segments_have_come_once(tmp_path: Path) -> None:
    write_segments(tmp_path, "node", 1, 3)
    (whole,) = tmp_path.iterdir()
    later = SegmentName("node", 1, 2, 3)
    (tmp_path / str(later)).write_bytes(whole.read_bytes())
    (tmp_path / str(later._replace(last=4))).write_bytes(whole.read_bytes())
    for most in (1, 2, 3):
        assert [row["seq"] for row in rows_of(str(tmp_path), most)] == [1, 2, 3]


def test_what_is_no_source_of_events_is_said(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        parts_of(str(tmp_path / "none"))
    (tmp_path / MANIFEST).write_text('{"format": 9}')
    with pytest.raises(ManifestError, match="format 9, this release reads format 1"):
        parts_of(str(tmp_path))
    (tmp_path / MANIFEST).write_text(json.dumps({"format": 1, "files": []}))
    assert parts_of(str(tmp_path)) == []


def test_an_audit_of_nothing_is_clean(target: Target) -> None:
    with engine("local", "audit") as read:
        found = run_audit(read, [], target)
    assert found.clean
    assert (found.verdicts, found.gaps, found.coverage["events"]) == ({}, [], 0)
