"""The audit judged by Spark's executors: the verdicts of the local engine, whatever the shares."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness.event_logs.made_up_log import write
from pipeline.audit.audit import audit, reduce
from pipeline.audit.verdict_counts import causes_of, found_in, tally_of
from pipeline.event_parts import parts_of
from pipeline.file_target import Target
from pipeline.jobs.audit_job import run_audit
from pipeline.jobs.audit_stream import audit_stream
from pipeline.jobs.engines import SparkEngine
from pipeline.jobs.job_results import last_run
from pipeline.spark_audit.judgement import Cut, Tables, judged_by_spark
from tests.pipeline.event_log.test_audit_oracle import planted
from tests.pipeline.inputs.made_up_events import History, begun, export_of
from tests.pipeline.inputs.streams import run_to_end

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.slow,
    # PySpark leaves the sockets of its results to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]

FINE = Cut(block_bits=1, share_rows=200)
"""Two message numbers in a block: each chain of moves, and most queues, go through several shares."""
SHOWN = 3


def overtaken_far_behind() -> History:
    """A first message is delivered after many that came later: they are in other shares."""
    history = begun("overtaken")
    first, *others = [history.publish() for _ in range(200)]
    for message in (*others, first):
        history.consume(message)
    return history


def moved_again_and_again() -> History:
    """A message of a quorum queue is at a hundred positions one after another, with others in between."""
    history = begun("moved", kind="quorum")
    place = history.publish()
    for times in range(100):
        history.deliver(place, redelivered=times > 0)
        history.of("requeue", place)
        place = history.move(place)
        history.consume(history.publish())
    history.stop(place)
    return history


def test_an_audit_goes_on_where_the_last_has_ended(spark: SparkSession, tmp_path: Path) -> None:
    """Also as a stream, and if the broker has removed what it has read."""
    whole, log, out = (tmp_path / name for name in ("whole", "log", "out"))
    whole.mkdir()
    log.mkdir()
    write(whole, 3000)
    segments = sorted(whole.iterdir())
    for segment in segments[:2]:
        segment.rename(log / segment.name)
    run_audit(SparkEngine(spark), parts_of(str(log)), Target(str(out)), since_last=True)
    removed = (log / segments[0].name).read_bytes()
    (log / segments[0].name).unlink()
    for segment in segments[2:]:
        segment.rename(log / segment.name)
    stream = audit_stream(spark, str(log), str(out)).option("checkpointLocation", str(tmp_path / "checkpoint"))
    run_to_end(stream.trigger(availableNow=True))
    went_on = last_run(Target(str(out)), "audit")
    (log / segments[0].name).write_bytes(removed)
    assert went_on is not None
    rows, *_, counts = audit(map(reduce, parts_of(str(log))))
    assert in_order(went_on.table("tally").drop_columns("violations")) == in_order(
        tally_of(rows).drop_columns("violations")
    )
    assert in_order(went_on.table("found")) == in_order(found_in(rows))
    assert went_on.facts["messages"] == counts._asdict()


def in_order(rows: pa.Table) -> list[str]:
    return sorted(map(repr, rows.to_pylist()))


def test_both_engines_give_the_same_verdicts(spark: SparkSession, tmp_path: Path) -> None:
    """All planted histories, and a log with a little of everything."""
    log = tmp_path / "log"
    log.mkdir()
    write(log, 1000)
    histories = [*planted(), overtaken_far_behind(), moved_again_and_again()]
    parts = [*export_of(tmp_path / "planted", histories), *parts_of(str(log), most=200)]
    out, tasks = Target(str(tmp_path / "out")), [parts[begin::4] for begin in range(4)]
    by_spark = judged_by_spark(spark, tasks, Tables(out, "run", SHOWN), FINE)
    rows, *rest = audit(map(reduce, parts))
    found = found_in(rows)
    assert in_order(out.table("run/audit")) == in_order(rows)
    assert list(by_spark[:4]) == rest
    assert in_order(by_spark.tally) == in_order(tally_of(rows))
    assert in_order(by_spark.causes) == in_order(causes_of(found))
    assert in_order(out.table("run/found")) == in_order(found)
    assert in_order(by_spark.found.slice(0, SHOWN)) == in_order(found.slice(0, SHOWN))
    assert {"overtaken", "moved"} <= set(rows.column("node").to_pylist())
