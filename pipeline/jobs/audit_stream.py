"""The audit as a stream: judged again whenever segments of the event log are sealed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pipeline.event_parts import parts_of
from pipeline.file_target import Target
from pipeline.jobs.audit_job import run_audit
from pipeline.jobs.engines import SparkEngine
from pipeline.report.page import write_report

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

ALL_AT_ONCE = 1 << 30
"""Segments of a batch: one audit judges all that are new."""


def audit_stream(
    spark: SparkSession, where: str, out: str, options: Mapping[str, str] | None = None
) -> DataStreamWriter:
    """Return a query over the source `leveret-events` that audits new segments, as `audit --since LAST` does.

    It needs a checkpointLocation, a trigger, and start(). `where` is a directory or a URL, and `options` are those of
    the source. The table of the state and not the checkpoint says which segments were judged, so a batch that is
    repeated after a failure judges nothing twice.
    """
    log = spark.readStream.format("leveret-events").options(**(options or {}), maxSegmentsPerBatch=str(ALL_AT_ONCE))

    def judge(_: DataFrame, batch: int) -> None:
        # The rows are not used: a decoded event costs more on its way through Spark than a reduced one.
        target = Target(out)
        run_audit(SparkEngine(spark), parts_of(where, options), target, since_last=True)
        write_report(target)

    return log.load(where).select("seq").writeStream.foreachBatch(judge).queryName("leveret audit")
