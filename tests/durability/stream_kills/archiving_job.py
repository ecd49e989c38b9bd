"""A job that writes streams and queues into Parquet files; killed by the campaign, with all it has started.

python -m tests.durability.stream_kills.archiving_job BROKERS NAME DIRECTORY

BROKERS is JSON: labels, each with host and port. At each broker the stream is named NAME-stream, the queue NAME-queue.
Tasks run in executors of their own. A line on standard input ends it: then it writes all that is left, and prints a
line of JSON for each row: label, stream or queue, offset and body.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from harness.waiting import eventually
from pipeline.spark.spark_session import session
from tests.durability.stream_kills.numbered_messages import TYPES
from tests.pipeline.conftest import JAVA_FOR_TESTS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

MASTER = "local-cluster[2,1,600]"
SETTINGS = {
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": JAVA_FOR_TESTS,
    "spark.sql.shuffle.partitions": "1",
    "spark.deploy.maxExecutorRetries": "-1",  # else the master gives the job up when its executors are killed too often
}
START_SECONDS, STOP_SECONDS = 120.0, 1.0


class Archive(NamedTuple):
    """A stream or queue of a broker, and the directory for its messages."""

    label: str
    address: tuple[str, int]
    name: str
    kind: str
    directory: str

    def writer(self, spark: SparkSession, most: int) -> DataStreamWriter:
        """A query that writes what is in the stream, from its beginning, or in the queue; `most` messages a batch."""
        host, port = self.address
        place = {"host": host, "port": str(port), "queue": f"{self.name}-{self.kind}"}
        limits = {"startingOffsets": "earliest", "minPartitions": 2} if self.kind == "stream" else {"partitions": 2}
        reader = spark.readStream.format("amqp").options(**place, **limits, maxOffsetsPerTrigger=most)
        writer = reader.load().selectExpr("offset", "cast(body as string)").writeStream.format("parquet")
        return writer.options(path=self.rows, checkpointLocation=f"{self.directory}/checkpoint")

    @property
    def rows(self) -> str:
        return f"{self.directory}/rows"


class ArchivingQueries(threading.Thread):
    """The queries, for ever; one whose tasks were killed too often is started again.

    They start one after the other: Spark waits ten seconds for the Python that plans a source, which six that start
    together on a busy machine do not keep.
    """

    def __init__(self, spark: SparkSession, archives: list[Archive]) -> None:
        super().__init__(name="queries", daemon=True)
        self._spark = spark
        self._writers = {f"{each.label} {each.kind}": each.writer(spark, 300) for each in archives}
        self._over = False

    def run(self) -> None:
        from pyspark.errors import StreamingQueryException

        streams = self._spark.streams
        while not self._over:
            for name in self._writers.keys() - {query.name for query in streams.active}:
                self._start(name)
            with suppress(StreamingQueryException):
                streams.awaitAnyTermination()
            streams.resetTerminated()

    def _start(self, name: str) -> None:
        """Start a query; return when it has begun, or has ended."""
        query = self._writers[name].queryName(name).trigger(processingTime="0 seconds").start()
        eventually(lambda: query.lastProgress or not query.isActive, f"{name} to begin", seconds=START_SECONDS)

    def stop(self) -> None:
        """Return when no query runs."""
        self._over = True
        while self.is_alive():
            for query in self._spark.streams.active:
                query.stop()
            self.join(STOP_SECONDS)  # it may just have started another


def main(brokers: str, name: str, directory: str) -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    addresses: Mapping[str, tuple[str, int]] = json.loads(brokers)
    archives = [
        Archive(label, address, name, kind, f"{directory}/{label}/{kind}")
        for label, address in addresses.items()
        for kind in TYPES
    ]
    with session("archiving", master=MASTER, java_options=JAVA_FOR_TESTS, settings=SETTINGS) as spark:
        queries = ArchivingQueries(spark, archives)
        queries.start()
        sys.stdin.readline()
        queries.stop()
        for archive in archives:
            archive.writer(spark, 10_000).trigger(availableNow=True).start().awaitTermination()
            for row in spark.read.parquet(archive.rows).collect():
                print(json.dumps((archive.label, archive.kind, *row)))


if __name__ == "__main__":
    main(*sys.argv[1:])
