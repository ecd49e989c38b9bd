"""A job that writes a stream into Parquet files for ever; killed by the campaign, with all it has started.

python -m tests.durability.stream_kills.archiving_job HOST PORT STREAM DIRECTORY [to-end]

Tasks run in executors of their own. With `to-end` the job ends when it has written all, and prints a line of JSON for
each row: offset and body.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from pipeline.spark.spark_session import session
from tests.pipeline.conftest import JAVA_FOR_TESTS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

MASTER = "local-cluster[2,1,600]"
SETTINGS = {
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": JAVA_FOR_TESTS,
    "spark.sql.shuffle.partitions": "1",
}


def archiving(spark: SparkSession, host: str, port: str, stream: str, directory: str) -> DataStreamWriter:
    """A query that writes what is in the stream from its beginning."""
    reader = spark.readStream.format("amqp").options(host=host, port=port, queue=stream, startingOffsets="earliest")
    rows = reader.options(maxOffsetsPerTrigger=300, minPartitions=2).load().selectExpr("offset", "cast(body as string)")
    writer = rows.writeStream.format("parquet").option("path", f"{directory}/rows")
    return writer.option("checkpointLocation", f"{directory}/checkpoint")


def main(host: str, port: str, stream: str, directory: str, how: str = "") -> None:
    from pyspark.errors import StreamingQueryException

    os.environ["PYSPARK_PYTHON"] = sys.executable
    with session("archiving", master=MASTER, java_options=JAVA_FOR_TESTS, settings=SETTINGS) as spark:
        writer = archiving(spark, host, port, stream, directory)
        if how == "to-end":
            writer.trigger(availableNow=True).start().awaitTermination()
            for row in spark.read.parquet(f"{directory}/rows").collect():
                print(json.dumps(row))
            return
        while True:
            with suppress(StreamingQueryException):  # its tasks were killed too often: it is started again
                writer.trigger(processingTime="0 seconds").start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
