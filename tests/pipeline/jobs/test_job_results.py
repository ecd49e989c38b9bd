"""What jobs leave is seen whole or not at all; events are read from wherever they are, whole files only."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.brokers.http_broker import write_segments
from leveret_spark.events.sealed_segments import SegmentDirectory
from tests.pipeline.inputs.made_up_events import History

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipeline.spark.file_places import Place

pytestmark = pytest.mark.slow

Write = Callable[..., None]


@pytest.fixture
def place(spark: SparkSession, tmp_path: Path) -> Place:
    from pipeline.spark.file_places import Place

    return Place(spark, str(tmp_path / "a place"))


def numbers(rows: Any) -> list[int]:
    return sorted(row.id for row in rows.collect())


def test_a_place_keeps_small_files(place: Place, tmp_path: Path) -> None:
    assert place.read("job/file") is None
    place.put("job/file", b"one\xff")
    place.put("job/file", b"two\xff")
    assert place.read("job/file") == b"two\xff"
    assert [path.name for path in (tmp_path / "a place" / "job").iterdir()] == ["file"]


def test_a_run_counts_when_it_is_published(spark: SparkSession, place: Place, tmp_path: Path) -> None:
    from pipeline.jobs.job_results import Run, last_run

    def publish(*ids: int) -> None:
        run = Run(place, "job")
        assert numbers(run.write("table", spark.createDataFrame([(each,) for each in ids], "id int"))) == [*ids]
        run.publish({"rows": len(ids)})

    def seen() -> tuple[list[int], Any]:
        run = last_run(place, "job")
        assert run is not None
        return numbers(run.table("table")), run.facts

    assert last_run(place, "job") is None
    publish(1, 2)
    assert seen() == ([1, 2], {"rows": 2})
    interrupted = Run(place, "job")
    interrupted.write("table", spark.createDataFrame([(9,)], "id int"))
    assert seen() == ([1, 2], {"rows": 2})
    publish(3)
    publish(4)
    assert seen() == ([4], {"rows": 1})
    left = [path.name for path in (tmp_path / "a place" / "job").iterdir() if path.is_dir()]
    assert len(left) == 2, "the run before stays for its readers; what was interrupted goes with those before"


def test_results_of_a_newer_release_are_left_alone(place: Place) -> None:
    from pipeline.jobs.job_results import ResultsError, last_run

    place.put("job/_run.json", b'{"format": 2}')
    with pytest.raises(ResultsError, match=r"job/_run\.json: format 2, this release reads format 1"):
        last_run(place, "job")


def test_events_are_the_same_from_segments_and_from_an_export(spark: SparkSession, tmp_path: Path) -> None:
    from leveret_spark.events.events_source import COLUMNS
    from pipeline.event_frames import read_events
    from pipeline.export import Export, Target

    segments, out = tmp_path / "log", tmp_path / "export"
    write_segments(segments, "node", 1, 2, 1)
    write_segments(segments, "node", 2, 3)
    (segments / "_tmp.node-00000003-0000000000000001").write_bytes(b"half")
    expected = sorted(read_events(spark, str(segments)).collect())
    assert [(row.node, row.boot, row.seq, row.kind) for row in expected] == [
        ("node", boot, seq, "boot") for boot in (1, 2) for seq in (1, 2, 3)
    ]
    assert expected[1].ts.timestamp() == 2.0
    work = Export(SegmentDirectory(segments), Target(str(out)))
    assert all(work.run(name) for name in work.sizes)
    (out / "node-00000009-0000000000000001-0000000000000009.parquet").write_bytes(b"half")
    for where in (str(out), out.as_uri()):
        assert sorted(read_events(spark, where).collect()) == expected
    assert read_events(spark, str(out)).columns == [line.split()[0] for line in COLUMNS.replace("\n", "").split(",")]


def test_what_is_no_source_of_events_is_said(spark: SparkSession, tmp_path: Path) -> None:
    from pipeline.event_frames import exported, read_events
    from pipeline.export import MANIFEST, ManifestError

    with pytest.raises(FileNotFoundError):
        read_events(spark, str(tmp_path / "none"))
    (tmp_path / "out").mkdir()
    with pytest.raises(ManifestError, match=rf"no {MANIFEST}, so this is no export of events"):
        exported(spark, str(tmp_path / "out"))
    (tmp_path / "out" / MANIFEST).write_text('{"format": 9}')
    with pytest.raises(ManifestError, match="format 9, this release reads format 1"):
        read_events(spark, str(tmp_path / "out"))
    (tmp_path / "out" / MANIFEST).write_text(json.dumps({"format": 1, "files": []}))
    assert read_events(spark, str(tmp_path / "out")).count() == 0


def test_an_audit_of_nothing_is_clean(spark: SparkSession, place: Place) -> None:
    from pipeline.jobs.audit_job import run_audit

    found = run_audit(History("none").table(spark), place)
    assert found.clean
    assert (found.verdicts, found.gaps, found.coverage["events"]) == ({}, [], 0)
