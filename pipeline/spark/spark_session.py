"""A Spark session for this machine that starts quietly, with the data sources registered.

Made for tests, trials and small jobs: everything runs in one process beside this one, without a web interface and with
few partitions. A job on a cluster makes its own session and registers `leveret_spark.AmqpDataSource` in it.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

from leveret.extras import how_to_install
from pipeline.spark.class_archive import archive_for
from pipeline.spark.interrupts import interruptible
from pipeline.spark.java import MissingError, find_java, java_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NEEDED = ("pyspark", "pyarrow", "pika")
TALKATIVE = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""Loggers of PySpark that print as JSON what is raised anyway."""

JAVA_END_SECONDS = 5
"""So long after its last word Java, if it was that which ended, is still seen as running at the most."""

LOGGING = Path(__file__).with_name("log4j2.properties")

QUIET = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.speculation": "false",  # a sink would publish twice
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.python.sql.dataFrameDebugging.enabled": "false",  # noting each expression's line is half of planning's time
}
HERE = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}
"""For what runs on this machine alone."""

SET_BY_STREAMS = ("SPARK_LOCAL_DIRS", "SPARK_AUTH_SOCKET_TIMEOUT", "SPARK_BUFFER_SIZE", "SPARK_PYTHON_RUNTIME")
"""What Spark puts into the environment of a data source when a stream of it starts: one HashMap for all its streams.

Two streams that start at the same moment spoil that map for good, and no task of the source can be handed out any more
(OptionalDataException). Where the names are in it from the beginning, only their values are replaced.
"""


class JavaEndedError(Exception):
    """Java has ended before Spark was stopped, with a status as of a process; Spark has not said why."""

    def __init__(self, status: int) -> None:
        super().__init__(f"Java has ended, with status {status}")
        self.status = status


@contextmanager
def session(
    name: str = "leveret",
    *,
    cores: int = 2,
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
    java_options: str = "",
    keep_classes: bool = False,
) -> Iterator[SparkSession]:
    """Start Spark in this process' charge, and stop it at the end; where it runs already, use that, and leave it.

    `master` takes the place of so many `cores` of this machine; where it is a cluster, nothing is said of where its
    nodes find this process, and PYSPARK_PYTHON in the environment names their Python. `settings` are Spark's, and come
    before ours; `java_options` go to the virtual machine. `keep_classes`: Java writes an archive of its classes when it
    ends, unless there is one (`pipeline.spark.class_archive`). SIGINT and SIGTERM end it with KeyboardInterrupt. Raises
    MissingError when a package or Java is missing, JavaEndedError when Java ends while Spark is asked for something.
    """
    _check_packages()
    for logger in TALKATIVE:
        logging.getLogger(logger).disabled = True
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession()
    if running is not None:
        yield _with_sources(running)
        return
    archive = _set_environment(master, keep_classes=keep_classes)
    options = f"-Dlog4j2.configurationFile=file:{LOGGING} {archive} {java_options}".strip()
    master = master or f"local[{cores}]"
    here = {**HERE, **_search_path()} if master.startswith("local") else {}
    ours = {**QUIET, **here, "spark.driver.extraJavaOptions": options}
    with _spark(name, master, {**ours, **(settings or {})}) as spark:
        yield _with_sources(spark)


@contextmanager
def _spark(name: str, master: str, settings: Mapping[str, str]) -> Iterator[SparkSession]:
    from py4j.protocol import Py4JError, Py4JNetworkError
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    context = SparkContext.getOrCreate(SparkConf().setAppName(name).setMaster(master).setAll([*settings.items()]))
    spark: SparkSession | None = None
    try:
        with interruptible(context):
            spark = SparkSession.builder.getOrCreate()
            yield spark
    except (Py4JNetworkError, ConnectionError, EOFError) as error:
        java = context._gateway.proc if context._gateway else None
        if java is not None:  # it is ours
            with suppress(subprocess.TimeoutExpired):
                raise JavaEndedError(java.wait(JAVA_END_SECONDS)) from error
        raise
    finally:
        with suppress(Py4JError, OSError):  # where Java has ended before, there is nothing to stop
            (spark or context).stop()


def _with_sources(spark: SparkSession) -> SparkSession:
    from leveret_spark import AmqpDataSource, LeveretEventsDataSource
    from pipeline.stopped_store.store_source import LeveretStoreDataSource

    for name in SET_BY_STREAMS:
        spark.sparkContext.environment.setdefault(name, "")
    for source in (AmqpDataSource, LeveretEventsDataSource, LeveretStoreDataSource):
        spark.dataSource.register(source)
    return spark


def _set_environment(master: str | None, *, keep_classes: bool) -> str:
    """Have Spark find Java and Python; Java's options for its archive."""
    java = find_java()
    archive = archive_for(java.program, java.version)
    options = "" if archive is None else archive.writing if keep_classes else archive.reading
    writes = archive is not None and str(archive.part) in options
    os.environ["JAVA_HOME"] = str(java_home(java, archive.when_written if archive is not None and writes else ""))
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if master is None or master.startswith("local"):
        os.environ["PYSPARK_PYTHON"] = sys.executable
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    else:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return options


def _search_path() -> dict[str, str]:
    """Settings by which tasks import what this process imports, and not what is called so in the working directory."""
    first = takewhile(lambda place: place != sysconfig.get_path("stdlib"), sys.path)
    path = os.pathsep.join(place or str(Path.cwd()) for place in first)
    return {"spark.executorEnv.PYTHONPATH": path, "spark.executorEnv.PYTHONSAFEPATH": "1"}


def _check_packages() -> None:
    missing = [package for package in NEEDED if importlib.util.find_spec(package) is None]
    if missing:
        raise MissingError(f"not installed: {', '.join(missing)}; `{how_to_install('pipeline')}` brings them")
