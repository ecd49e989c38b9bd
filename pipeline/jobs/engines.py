"""What reads the parts of a log: this process, further processes of this machine, or Spark.

All use the same functions. A part is reduced where it is read; what is left of all parts is put together here.
"""

from __future__ import annotations

import os
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, TypeVar

from leveret_spark.events.segment_format import SegmentError
from leveret_spark.option_errors import HttpError, OptionError
from pipeline.event_parts import Part
from pipeline.file_target import ManifestError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Name = Literal["auto", "local", "spark"]
Left = TypeVar("Left")
PARTS_AT_ONCE = 16
"""What is left of so many parts passes through Java's memory at once."""
LOCAL_EVENTS = 30_000_000
"""Up to so many events `auto` is local: some 150 bytes of memory each."""
PROCESS_EVENTS = 2_000_000
"""From so many events on a further process is worth its start."""

JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"
"""Java only moves what Python makes and is not up for long: its quick compiler and its simple collector do best."""
SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "2g",
    "spark.driver.maxResultSize": "0",
}


class JobError(Exception):
    """A job could not be done; the message says why, in a line."""


class Engine(Protocol):
    """Does something with each part, and gives what comes of them."""

    def __call__(self, function: Callable[[Part], Left], parts: Sequence[Part]) -> Iterator[Left]: ...


def events_in(parts: Sequence[Part]) -> int:
    """How many events there are, by the names of segments."""
    return sum(part.events for part in parts)


def chosen(name: Name, parts: Sequence[Part], master: str | None) -> Literal["local", "spark"]:
    """What `auto` stands for."""
    if name != "auto":
        return name
    return "spark" if master is not None or events_in(parts) > LOCAL_EVENTS else "local"


@contextmanager
def engine(
    name: Literal["local", "spark"], job: str, *, master: str | None = None, settings: Mapping[str, str] | None = None
) -> Iterator[Engine]:
    """An engine, and its end. Raises JobError for whatever goes wrong that is no mistake of this program."""
    try:
        if name == "local":
            yield _local
        else:
            with spark_for(job, master=master, settings=settings) as spark:
                if not str(spark.sparkContext.master).startswith("local["):
                    spark.sparkContext.addPyFile(str(_packed_code()))
                yield lambda function, parts: _by_spark(spark, function, parts)
    except (SegmentError, ManifestError, HttpError, OptionError) as error:
        raise JobError(str(error)) from error


@contextmanager
def spark_for(
    job: str, *, master: str | None = None, settings: Mapping[str, str] | None = None, progress: bool = False
) -> Iterator[SparkSession]:
    """Spark for a job. `progress` shows stages on standard error. Raises JobError for whatever goes wrong in Spark."""
    try:
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        from pipeline.spark.spark_session import session
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
    """In tasks, whose nodes need the package leveret_spark; ours is sent along."""
    context = spark.sparkContext
    step = max(PARTS_AT_ONCE, 4 * context.defaultParallelism)
    for chunk in (parts[at : at + step] for at in range(0, len(parts), step)):
        yield from context.parallelize(chunk, len(chunk)).map(function).collect()


def _packed_code() -> Path:
    """This package as a file that tasks can import from."""
    package = Path(__file__).parents[1]
    packed = Path(tempfile.mkdtemp(prefix="leveret-code-")) / "pipeline.zip"
    with zipfile.ZipFile(packed, "w") as archive:
        for module in package.rglob("*.py"):
            archive.write(module, Path("pipeline") / module.relative_to(package))
    return packed


def _reason(error: str) -> str:
    """The line of Spark's words that says what is wrong: behind a Python traceback the last, else Java's first."""
    lines = [line.strip(" :") for line in error.partition("\nJVM stacktrace")[0].splitlines() if line.strip()]
    raised = [line for line in lines if ": " in line and not line.startswith(("File ", "at ", "Caused by"))]
    if "Traceback (most recent call last):" in lines and raised:
        return raised[-1].removesuffix("SQLSTATE: 38000").strip()
    said = [line for line in lines if not line.startswith("An error occurred while calling")]
    return said[0] if said else "Spark failed without a word"
