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
from itertools import accumulate, groupby
from multiprocessing import get_context
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

import pyarrow as pa

from leveret_events.segment_blocks import SegmentError
from leveret_spark.option_errors import HttpError, OptionError
from pipeline.event_parts import PART_EVENTS, Part
from pipeline.file_target import ManifestError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Name = Literal["auto", "local", "spark"]
Left = TypeVar("Left")
LOCAL_EVENTS = 30_000_000
"""Events up to which `auto` means local: about 150 bytes of memory each."""
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
SENT = ("pipeline", "storage")
"""Packages that tasks import, and that nodes of a cluster need not have."""
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
            yield _local
        else:
            with spark_for(job, master=master, settings=settings) as spark:
                if not str(spark.sparkContext.master).startswith("local["):
                    spark.sparkContext.addPyFile(str(packed_code()))
                yield lambda function, parts: _by_spark(spark, function, parts)
    except (SegmentError, ManifestError, HttpError, OptionError) as error:
        raise JobError(str(error)) from error


@contextmanager
def spark_for(
    job: str, *, master: str | None = None, settings: Mapping[str, str] | None = None, progress: bool = False
) -> Iterator[SparkSession]:
    """Start Spark for a job. `progress` shows stages on standard error. Raises JobError for every error of Spark."""
    try:
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        from pipeline.spark.spark_session import JavaEndedError, session
    except ImportError as error:
        raise JobError(f"not installed: {error.name}") from error
    from pipeline.spark.java import MissingError

    ours = {**SETTINGS, "spark.ui.showConsoleProgress": str(progress).lower(), **(settings or {})}
    try:
        with session(
            f"leveret {job}", master=master or "local[*]", settings=ours, java_options=JAVA, keep_classes=True
        ) as spark:
            yield spark
    except (PySparkException, Py4JJavaError) as error:
        raise JobError(_reason(str(error))) from error
    except JavaEndedError as error:
        raise JobError(_end_of_java(error.status, ours["spark.driver.memory"])) from error
    except MissingError as error:
        raise JobError(str(error)) from error


def _local(function: Callable[[Part], Left], parts: Sequence[Part]) -> Iterator[Left]:
    processes = min(os.cpu_count() or 1, len(parts), 1 + events_in(parts) // PROCESS_EVENTS)
    if processes <= 1:
        yield from map(function, parts)
        return
    with ProcessPoolExecutor(processes, get_context("forkserver")) as pool:
        yield from pool.map(function, parts)


def _by_spark(spark: SparkSession, function: Callable[[Part], Left], parts: Sequence[Part]) -> Iterator[Left]:
    """Reduce in tasks. Their nodes need the package leveret_spark; `pipeline` and `storage` are sent along.

    The reduced parts stay on the nodes' disks, and come here task by task: Java's memory does not grow with the log.
    """
    from pyspark import StorageLevel

    context = spark.sparkContext
    tasks = _shares(parts, min(PART_EVENTS, 1 + events_in(parts) // (4 * context.defaultParallelism)))
    shares = context.parallelize(tasks, max(len(tasks), 1))
    left = shares.flatMap(lambda share: map(_compressed, map(function, share))).persist(StorageLevel.DISK_ONLY)
    try:
        left._jrdd.count()  # runs all tasks; a count in Python would read all results once more
        yield from map(_restored, left.toLocalIterator(prefetchPartitions=True))
    finally:
        left.unpersist()


def _shares(parts: Sequence[Part], events: int) -> list[list[Part]]:
    """Divide parts into shares, one for each task, of about `events` events."""
    ends = accumulate(part.events for part in parts)
    numbered = zip((end // events for end in ends), parts, strict=True)
    return [[part for _, part in share] for _, share in groupby(numbered, itemgetter(0))]


def _compressed(left: object) -> tuple[int, bytes]:
    """Pickle and compress: usually to a tenth of the size, in a fifteenth of the time of computing it."""
    content = pickle.dumps(left, pickle.HIGHEST_PROTOCOL)
    return len(content), pa.compress(content, codec="zstd", asbytes=True)


def _restored(sent: tuple[int, bytes]) -> Any:
    size, content = sent
    return pickle.loads(pa.decompress(content, size, codec="zstd"))


def packed_code() -> Path:
    """Write the packages SENT into a zip file from which tasks can import."""
    root = Path(__file__).parents[2]
    packed = Path(tempfile.mkdtemp(prefix="leveret-code-")) / "pipeline.zip"
    with zipfile.ZipFile(packed, "w") as archive:
        for module in (module for package in SENT for module in (root / package).rglob("*.py")):
            archive.write(module, module.relative_to(root))
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
