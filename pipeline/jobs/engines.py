"""Engines that read the parts of a log: this process, further processes of this machine, or Spark.

All use the same functions. A part is reduced where it is read; the reduced parts are merged here.
"""

from __future__ import annotations

import os
import pickle
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from itertools import accumulate, groupby
from multiprocessing import get_context
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, TypeVar

import pyarrow as pa

from leveret_events.segment_blocks import SegmentError
from leveret_spark.option_errors import HttpError, OptionError
from pipeline.event_parts import PART_EVENTS, Part
from pipeline.file_target import ManifestError
from pipeline.spark_audit.judgement import described

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Name = Literal["auto", "local", "spark"]
Left = TypeVar("Left")
LOCAL_EVENTS = 30_000_000
"""Events up to which `auto` means local: about 150 bytes of memory each."""
_COLUMNS = "size bigint, content binary"
TASKS, TASK_EVENTS_MIN = 64, 1 << 18
"""Tasks that a log is divided into, unless they would be small, or larger than a part."""
PROCESS_EVENTS = 2_000_000
"""Events for which a further process is worth its start."""

JAVA = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"
    " -XX:+ExitOnOutOfMemoryError -XX:+UnlockDiagnosticVMOptions -XX:-DisplayVMOutput"
)
"""Java's options: it only moves Python's data and runs briefly, so its quick compiler and simple collector do best.

A thread of Spark without memory would end, and Spark would wait for it forever: Java ends instead, and `_end_of_java`
says why.
"""
SENT = ("pipeline", "storage", "leveret_spark", "leveret_events")
"""Packages that tasks import: nodes of a cluster need not have them, nor have them of the same version."""
OUT_OF_MEMORY = 3
"""Java's exit status when it has no memory left."""
SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "2g",
    "spark.driver.maxResultSize": "0",
}


class JobError(Exception):
    """Raised if a job fails; the message says why, in one line."""


class Engine(Protocol):
    """Applies a function to each part, and yields the results."""

    def __call__(self, function: Callable[[Part], Left], parts: Sequence[Part]) -> Iterator[Left]: ...


class SparkEngine:
    """Spark's tasks. What they import of Leveret is sent along (`packed_code`)."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark

    def __call__(self, function: Callable[[Part], Left], parts: Sequence[Part]) -> Iterator[Left]:
        """Apply it in tasks. The results wait on the nodes' disks, and come here task by task."""
        from pyspark import StorageLevel

        tasks = shared_out(parts)
        if not tasks:
            return
        rows = self.spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(partial(_in_task, function, tasks), _COLUMNS)
        rows = rows.persist(StorageLevel.DISK_ONLY)
        try:
            with described(self.spark, "read the events"):
                rows.groupBy().agg({"size": "sum"}).toArrow()  # runs all tasks at once; the loop below, one by one
            for row in rows.toLocalIterator(prefetchPartitions=True):
                yield pickle.loads(pa.decompress(row.content, row.size, codec="zstd"))
        finally:
            rows.unpersist()


def events_in(parts: Sequence[Part]) -> int:
    """Return the number of events, by the names of segments."""
    return sum(part.events for part in parts)


def chosen(name: Name, parts: Sequence[Part], master: str | None) -> Literal["local", "spark"]:
    """Return the engine that `name` means: `auto` is Spark with a master or for many events, else local."""
    if name != "auto":
        return name
    return "spark" if master is not None or events_in(parts) > LOCAL_EVENTS else "local"


@contextmanager
def engine(
    name: Literal["local", "spark"], job: str, *, master: str | None = None, settings: Mapping[str, str] | None = None
) -> Iterator[Engine]:
    """Start an engine, and stop it at the end. Raises JobError for every error that is not a defect of this program."""
    try:
        if name == "local":
            yield here
        else:
            with spark_for(job, master=master, settings=settings, sources=False) as spark:
                if master is not None and not master.startswith("local["):
                    spark.addArtifacts(str(packed_code()), pyfile=True)
                yield SparkEngine(spark)
    except (SegmentError, ManifestError, HttpError, OptionError) as error:
        raise JobError(str(error)) from error


@contextmanager
def spark_for(
    job: str,
    *,
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
    progress: bool = False,
    sources: bool = True,
) -> Iterator[SparkSession]:
    """Start Spark for a job. `progress` shows stages on standard error; `sources`: the job reads or writes ours.

    Raises JobError for every error of Spark.
    """
    try:
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        from pipeline.spark.spark_session import JavaEndedError, session
    except ImportError as error:
        raise JobError(f"not installed: {error.name}") from error
    from pipeline.spark.java import MissingError
    from pipeline.spark.remote_session import is_remote

    ours = {**SETTINGS, "spark.ui.showConsoleProgress": str(progress).lower()}
    ours = {**({} if is_remote(master) else ours), **(settings or {})}
    try:
        with session(
            f"leveret {job}",
            master=master or "local[*]",
            settings=ours,
            java_options=JAVA,
            keep_classes=True,
            sources=sources,
        ) as spark:
            yield spark
    except (PySparkException, Py4JJavaError) as error:
        raise JobError(_reason(str(error))) from error
    except JavaEndedError as error:
        raise JobError(_end_of_java(error.status, ours["spark.driver.memory"])) from error
    except MissingError as error:
        raise JobError(str(error)) from error


def here(function: Callable[[Part], Left], parts: Sequence[Part]) -> Iterator[Left]:
    """Apply it in this process, and in further ones of this machine if there is much to read."""
    processes = min(os.cpu_count() or 1, len(parts), 1 + events_in(parts) // PROCESS_EVENTS)
    if processes <= 1:
        yield from map(function, parts)
        return
    with ProcessPoolExecutor(processes, get_context("forkserver")) as pool:
        yield from pool.map(function, parts)


def shared_out(parts: Sequence[Part]) -> list[list[Part]]:
    """Divide parts into tasks, about TASKS of them for a large log."""
    events = min(PART_EVENTS, max(TASK_EVENTS_MIN, events_in(parts) // TASKS))
    ends = accumulate(part.events for part in parts)
    numbered = zip((end // events for end in ends), parts, strict=True)
    return [[part for _, part in share] for _, share in groupby(numbered, itemgetter(0))]


def _in_task(
    function: Callable[[Part], object], tasks: Sequence[Sequence[Part]], numbers: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Pickle and compress results: usually to a tenth of the size, in a fifteenth of the time of computing it."""
    for batch in numbers:
        for part in (part for number in batch.column(0).to_pylist() for part in tasks[number]):
            content = pickle.dumps(function(part), pickle.HIGHEST_PROTOCOL)
            sent = pa.compress(content, codec="zstd", asbytes=True)
            yield pa.RecordBatch.from_pydict({"size": [len(content)], "content": [sent]})


def packed_code() -> Path:
    """Write the packages SENT into a zip file from which tasks can import."""
    packed = Path(tempfile.mkdtemp(prefix="leveret-code-")) / "pipeline.zip"
    with zipfile.ZipFile(packed, "w") as archive:
        for package in SENT:
            for place in import_module(package).__path__:
                for module in Path(place).rglob("*.py"):
                    archive.write(module, module.relative_to(Path(place).parent))
    return packed


def _end_of_java(status: int, memory: str) -> str:
    if status != OUT_OF_MEMORY:
        return f"Java has ended in the middle of the job, with status {status}"
    return f"Java's memory of {memory} is not enough: --conf spark.driver.memory=SIZE gives it more"


def _reason(error: str) -> str:
    """Pick the line with the reason from a text of Spark: the last of a Python traceback, else Java's first."""
    lines = [line.strip(" :") for line in error.partition("\nJVM stacktrace")[0].splitlines() if line.strip()]
    raised = [line for line in lines if ": " in line and not line.startswith(("File ", "at ", "Caused by"))]
    if "Traceback (most recent call last):" in lines and raised:
        return raised[-1].removesuffix("SQLSTATE: 38000").strip()
    said = [line for line in lines if not line.startswith("An error occurred while calling")]
    return said[0] if said else "Spark failed without a reason"
