"""A job that copies what is in one queue to another; also as a process of its own, which a test may kill.

    python -m tests.pipeline.inputs.copying_job HOST PORT SOURCE TARGET CHECKPOINT

A copy says in its property `type` whether the source had it as redelivered.
"""

from __future__ import annotations

import sys
import tempfile
from typing import TYPE_CHECKING

from pipeline.spark.spark_session import session
from tests.pipeline.conftest import JAVA_FOR_TESTS, SETTINGS_FOR_TESTS
from tests.pipeline.inputs.streams import run_to_end

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

BATCH = 500


def copying(spark: SparkSession, host: str, port: str, source: str, target: str, checkpoint: str) -> DataStreamWriter:
    """A query that copies until the source is empty."""
    at = {"host": host, "port": port}
    messages = spark.readStream.format("amqp").options(**at, queue=source, maxMessagesPerBatch=BATCH, partitions=2)
    copies = messages.load().selectExpr("body", "message_id", "cast(redelivered as string) as type")
    sink = copies.writeStream.format("amqp").options(**at, routingKey=target, checkpointLocation=checkpoint)
    return sink.trigger(availableNow=True)


if __name__ == "__main__":
    scratch = f"-Djava.io.tmpdir={tempfile.gettempdir()}"  # what a killed process leaves is the test's to remove
    with session("copying", java_options=f"{JAVA_FOR_TESTS} {scratch}", settings=SETTINGS_FOR_TESTS) as started:
        run_to_end(copying(started, *sys.argv[1:]))
