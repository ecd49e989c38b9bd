"""Jobs that collect an event log into Parquet files; also as a process of its own, which a test may kill.

    python -m tests.pipeline.inputs.collecting_job SOURCE OUT CHECKPOINT [SOURCE OUT CHECKPOINT ...]

A source is the directory of a log, or the URL of a broker that serves one.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pipeline.spark.spark_session import session
from tests.pipeline.conftest import JAVA_FOR_TESTS
from tests.pipeline.inputs.streams import run_to_end

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

SEGMENTS_AT_ONCE = 2
SEGMENTS_MAX = 64
ATTEMPTS = 5


class Collection(NamedTuple):
    """A stream from a source into files, and the traces that it leaves of each batch."""

    source: str
    out: str
    checkpoint: str

    def start(self, spark: SparkSession) -> StreamingQuery:
        """Collect on and on, in small batches."""
        return self._files(spark, SEGMENTS_AT_ONCE).start(self.out)

    def finish(self, spark: SparkSession) -> None:
        """Collect what is left."""
        run_to_end(self._files(spark, SEGMENTS_MAX).trigger(availableNow=True), self.out)

    def _files(self, spark: SparkSession, segments: int) -> DataStreamWriter:
        events = spark.readStream.format("leveret-events").option("maxSegmentsPerBatch", segments)
        return events.load(self.source).writeStream.format("parquet").option("checkpointLocation", self.checkpoint)

    @property
    def planned(self) -> int:
        """The last batch whose segments are decided upon; -1 for none, as below."""
        return _last(self.checkpoint, "offsets")

    @property
    def listed(self) -> int:
        """The last batch whose files count: readers of the sink see them from here on."""
        return _last(self.out, "_spark_metadata")

    @property
    def committed(self) -> int:
        """The last batch that the query will not do again."""
        return _last(self.checkpoint, "commits")

    @property
    def strays(self) -> int:
        """How many files lie in the sink and are in no list, because they do not count, or not yet."""
        lists = [path.read_text().splitlines()[1:] for path in Path(self.out, "_spark_metadata").glob("[0-9]*")]
        counted = {Path(json.loads(line)["path"]).name for lines in lists for line in lines}
        return len({path.name for path in Path(self.out).glob("*.parquet")} - counted)


def _last(directory: str, log: str) -> int:
    """Spark writes these files under hidden names and renames them; every tenth list is called N.compact."""
    return max((int(path.name.partition(".")[0]) for path in Path(directory, log).glob("[0-9]*")), default=-1)


def collect(spark: SparkSession, collections: list[Collection]) -> None:
    """Collect on and on. A query that fails begins again a few times: Spark gives its planner ten seconds to start."""
    from pyspark.errors import StreamingQueryException

    for _ in range(ATTEMPTS):
        queries = [each.start(spark) for each in collections]
        try:
            spark.streams.awaitAnyTermination()
        except StreamingQueryException as failed:
            print(failed, file=sys.stderr)
        for query in queries:
            query.stop()
        spark.streams.resetTerminated()


if __name__ == "__main__":
    scratch = f"-Djava.io.tmpdir={tempfile.gettempdir()}"  # what a killed process leaves is the test's to remove
    named = iter(sys.argv[1:])
    with session("collecting", java_options=f"{JAVA_FOR_TESTS} {scratch}") as started:
        collect(started, list(map(Collection, named, named, named)))
