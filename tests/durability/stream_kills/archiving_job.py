"""A job that writes a stream and a queue into Parquet files for ever; killed by the campaign, with all it has started.

python -m tests.durability.stream_kills.archiving_job HOST PORT NAME DIRECTORY [to-end]

The stream is named NAME-stream, the queue NAME-queue. Tasks run in executors of their own. With `to-end` the job ends
when it has written all, and prints a line of JSON for each row: stream or queue, offset and body.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from pipeline.spark.spark_session import session
from tests.pipeline.conftest import JAVA_FOR_TESTS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

KINDS = ("stream", "queue")
MASTER = "local-cluster[2,1,600]"
SETTINGS = {
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": JAVA_FOR_TESTS,
    "spark.sql.shuffle.partitions": "1",
    "spark.deploy.maxExecutorRetries": "-1",  # else the master gives the job up when its executors are killed too often
}


def archiving(
    spark: SparkSession, host: str, port: str, name: str, directory: str, kind: str, most: int
) -> DataStreamWriter:
    """A query that writes what is in the stream, from its beginning, or in the queue; `most` messages to a batch."""
    reader = spark.readStream.format("amqp").options(host=host, port=port, queue=f"{name}-{kind}")
    limits = {"startingOffsets": "earliest", "minPartitions": 2} if kind == "stream" else {"partitions": 2}
    rows = reader.options(maxOffsetsPerTrigger=most, **limits).load().selectExpr("offset", "cast(body as string)")
    writer = rows.writeStream.queryName(kind).format("parquet").option("path", f"{directory}/{kind}/rows")
    return writer.option("checkpointLocation", f"{directory}/{kind}/checkpoint")


def main(host: str, port: str, name: str, directory: str, how: str = "") -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    with session("archiving", master=MASTER, java_options=JAVA_FOR_TESTS, settings=SETTINGS) as spark:
        most = 10_000 if how == "to-end" else 300
        writers = {kind: archiving(spark, host, port, name, directory, kind, most) for kind in KINDS}
        if how == "to-end":
            for kind in KINDS:
                write_to_end(spark, writers[kind], directory, kind)
        else:
            write_for_ever(spark, writers)


def write_to_end(spark: SparkSession, writer: DataStreamWriter, directory: str, kind: str) -> None:
    """Write what is left, and print all that was written."""
    writer.trigger(availableNow=True).start().awaitTermination()
    for row in spark.read.parquet(f"{directory}/{kind}/rows").collect():
        print(json.dumps((kind, *row)))


def write_for_ever(spark: SparkSession, writers: Mapping[str, DataStreamWriter]) -> None:
    """Run the queries; one whose tasks were killed too often is started again."""
    from pyspark.errors import StreamingQueryException

    while True:
        running = {query.name for query in spark.streams.active}
        for kind in writers.keys() - running:
            writers[kind].trigger(processingTime="0 seconds").start()
        with suppress(StreamingQueryException):
            spark.streams.awaitAnyTermination()
        spark.streams.resetTerminated()


if __name__ == "__main__":
    main(*sys.argv[1:])
