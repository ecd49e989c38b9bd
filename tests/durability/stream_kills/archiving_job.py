"""A job that writes streams and queues into Parquet files; killed by the campaign, with all it has started.

python -m tests.durability.stream_kills.archiving_job BROKERS NAME DIRECTORY

BROKERS is JSON: labels, each with host and port. At each broker the stream is named NAME-stream, the queue NAME-queue.
One query reads all of them, because each takes a start and a commit of its own; tasks run in executors. A line on
standard input begins it, so that the job can be started ahead of time. Another one ends it: then it writes all that is
left, and prints a line of JSON for each row: label, stream or queue, offset and body.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from functools import reduce
from typing import TYPE_CHECKING

from pipeline.spark.class_archive import archive_for
from pipeline.spark.java import find_java
from pipeline.spark.spark_session import session
from tests.durability.stream_kills.numbered_messages import TYPES
from tests.pipeline.conftest import JAVA_FOR_TESTS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

MASTER = "local-cluster[2,1,600]"
SETTINGS = {
    "spark.executor.memory": "512m",
    "spark.sql.shuffle.partitions": "1",
    "spark.deploy.maxExecutorRetries": "-1",  # else the master gives the job up when its executors are killed too often
}
MESSAGES, MESSAGES_AT_END = 300, 50_000
"""Messages of each stream or queue in a batch."""
STOP_SECONDS = 1.0


class Archive:
    """The query, and the rows that it has written."""

    def __init__(
        self, spark: SparkSession, addresses: Mapping[str, tuple[str, int]], name: str, directory: str
    ) -> None:
        self._spark = spark
        self._addresses = addresses
        self._name = name
        self._directory = directory

    def writer(self, most: int) -> DataStreamWriter:
        """The query that writes streams, from their beginnings, and queues; `most` messages of each in a batch."""
        each = [self._messages(label, kind, most) for label in self._addresses for kind in TYPES]
        places = {"path": f"{self._directory}/rows", "checkpointLocation": f"{self._directory}/checkpoint"}
        return reduce(lambda one, other: one.union(other), each).writeStream.format("parquet").options(**places)

    def _messages(self, label: str, kind: str, most: int) -> DataFrame:
        host, port = self._addresses[label]
        place = {"host": host, "port": str(port), "queue": f"{self._name}-{kind}"}
        limits = {"startingOffsets": "earliest", "minPartitions": 2} if kind == "stream" else {}
        read = self._spark.readStream.format("amqp").options(**place, **limits, maxOffsetsPerTrigger=most).load()
        return read.selectExpr(f"'{label}' as broker", f"'{kind}' as kind", "offset", "cast(body as string) as body")

    def print(self) -> None:
        """Print all rows."""
        for row in self._spark.read.parquet(f"{self._directory}/rows").collect():
            print(json.dumps([*row]))


class EndlessQuery(threading.Thread):
    """The query, for ever: if its tasks were killed too often it is started again."""

    def __init__(self, spark: SparkSession, archive: Archive) -> None:
        super().__init__(name="query", daemon=True)
        self._spark = spark
        self._writer = archive.writer(MESSAGES)
        self._over = False

    def run(self) -> None:
        from pyspark.errors import StreamingQueryException

        while not self._over:
            with suppress(StreamingQueryException):
                self._writer.trigger(processingTime="0 seconds").start().awaitTermination()

    def stop(self) -> None:
        """Return when it does not run."""
        self._over = True
        while self.is_alive():
            for query in self._spark.streams.active:
                query.stop()
            self.join(STOP_SECONDS)  # it may just have started another


def executor_options() -> str:
    """Java's options of executors, which start in half the time with the archive of classes that drivers use."""
    java = find_java()
    archive = archive_for(java.program, java.version)
    return JAVA_FOR_TESTS if archive is None else f"{JAVA_FOR_TESTS} {archive.reading}".strip()


def main(brokers: str, name: str, directory: str) -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {**SETTINGS, "spark.executor.extraJavaOptions": executor_options()}
    with session(
        "archiving", master=MASTER, java_options=JAVA_FOR_TESTS, settings=settings, keep_classes=True
    ) as spark:
        archive = Archive(spark, json.loads(brokers), name, directory)
        endless = EndlessQuery(spark, archive)
        sys.stdin.readline()
        endless.start()
        sys.stdin.readline()
        endless.stop()
        archive.writer(MESSAGES_AT_END).trigger(availableNow=True).start().awaitTermination()
        archive.print()


if __name__ == "__main__":
    main(*sys.argv[1:])
