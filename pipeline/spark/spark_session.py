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
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

from leveret.extras import how_to_install
from pipeline.spark.class_archive import archive_for
from pipeline.spark.interrupts import interruptible
from pipeline.spark.java import MissingError, find_java, java_home
from pipeline.spark.remote_session import is_remote, remote_session

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

NEEDED = ("pyspark", "pyarrow", "pika")
TALKATIVE = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""Loggers of PySpark that print errors as JSON that are raised anyway."""

JAVA_END_SECONDS = 5
"""Time in which a Java that has stopped answering must have exited, if its end was the cause."""

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
"""Settings for Spark on this machine alone."""

SET_BY_STREAMS = ("SPARK_LOCAL_DIRS", "SPARK_AUTH_SOCKET_TIMEOUT", "SPARK_BUFFER_SIZE", "SPARK_PYTHON_RUNTIME")
"""Variables that Spark puts into the environment of a data source when a stream starts: one HashMap for all streams.

Two streams that start at the same moment corrupt that map for good, and no task of the source can be sent any more
(OptionalDataException). If the names are in it from the start, only their values are replaced.
"""


class JavaEndedError(Exception):
    """Raised if Java has ended before Spark was stopped, with the status of its process."""

    def __init__(self, status: int) -> None:
        super().__init__(f"Java has ended, with status {status}")
        self.status = status


def not_of_py4j(record: logging.LogRecord) -> bool:
    """Return False for errors that Py4J writes to the root logger, such as a Java that has ended: they are raised."""
    return "py4j" not in Path(record.pathname).parts


@contextmanager
def session(
    name: str = "leveret",
    *,
    cores: int = 2,
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
    java_options: str = "",
    keep_classes: bool = False,
    sources: bool = True,
) -> Iterator[SparkSession]:
    """Start Spark, and stop it at the end. A session that runs already is used, and not stopped.

    `master` replaces `cores` of this machine; for a cluster no address of this process is set, and PYSPARK_PYTHON in
    the environment names the Python of its nodes. `settings` are Spark's, and override ours; `java_options` go to the
    virtual machine. A server of Spark Connect has both by itself, and is given those settings alone that a session can
    change. `keep_classes`: Java writes an archive of its classes at its end, unless there is one (`class_archive`).
    Without `sources` none of ours is registered, and a process less is started. SIGINT and SIGTERM end it with
    KeyboardInterrupt. Raises MissingError if a package or Java is missing, JavaEndedError if Java ends
    during a request to Spark.
    """
    _check_packages()
    for logger in TALKATIVE:
        logging.getLogger(logger).disabled = True
    logging.getLogger().addFilter(not_of_py4j)
    if master is not None and is_remote(master):
        with remote_session(name, master, settings or {}) as spark:
            yield _with_sources(spark, remote=True) if sources else spark
        return
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession()
    if running is not None:
        yield _with_sources(running)
        return
    archive = _set_environment(master, keep_classes=keep_classes)
    options = f"-Dlog4j2.configurationFile=file:{LOGGING} {archive} {java_options}".strip()
    master = master or f"local[{cores}]"
    # Local Spark stays on the loopback address; the nodes of a cluster have to reach this process.
    here = {**HERE, **_search_path()} if master.startswith("local") else {}
    ours = {**QUIET, **here, "spark.driver.extraJavaOptions": options}
    with _spark(name, master, {**ours, **(settings or {})}) as spark:
        yield _with_sources(spark) if sources else spark


@contextmanager
def _spark(name: str, master: str, settings: Mapping[str, str]) -> Iterator[SparkSession]:
    from py4j.protocol import Py4JError, Py4JNetworkError
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    context = SparkContext.getOrCreate(SparkConf().setAppName(name).setMaster(master).setAll([*settings.items()]))
    spark: SparkSession | None = None
    try:
        with interruptible(partial(_stop_quietly, context)):
            spark = SparkSession.builder.getOrCreate()
            yield spark
    except (Py4JNetworkError, ConnectionError, EOFError) as error:
        java = context._gateway.proc if context._gateway else None
        if java is not None:  # it was started by this process
            with suppress(subprocess.TimeoutExpired):
                raise JavaEndedError(java.wait(JAVA_END_SECONDS)) from error
        raise
    finally:
        with suppress(Py4JError, OSError):  # if Java has ended, there is nothing to stop
            (spark or context).stop()


def _stop_quietly(context: SparkContext) -> None:
    from py4j.protocol import Py4JError

    with suppress(Py4JError, OSError):  # Java may not answer after an interrupted call
        context.setLogLevel("OFF")  # Spark logs interrupted tasks
        context.stop()


def _with_sources(spark: SparkSession, *, remote: bool = False) -> SparkSession:
    from leveret_spark import AmqpDataSource, LeveretEventsDataSource
    from pipeline.stopped_store.store_source import LeveretStoreDataSource

    for name in () if remote else SET_BY_STREAMS:
        spark.sparkContext.environment.setdefault(name, "")
    for source in (AmqpDataSource, LeveretEventsDataSource, LeveretStoreDataSource):
        spark.dataSource.register(source)
    return spark


def _set_environment(master: str | None, *, keep_classes: bool) -> str:
    """Set the environment by which Spark finds Java and Python. Returns Java's options for its archive."""
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
    """Settings by which tasks import the packages of this process, and none from the working directory."""
    first = takewhile(lambda place: place != sysconfig.get_path("stdlib"), sys.path)
    path = os.pathsep.join(place or str(Path.cwd()) for place in first)
    return {"spark.executorEnv.PYTHONPATH": path, "spark.executorEnv.PYTHONSAFEPATH": "1"}


def _check_packages() -> None:
    missing = [package for package in NEEDED if importlib.util.find_spec(package) is None]
    if missing:
        raise MissingError(f"not installed: {', '.join(missing)}; `{how_to_install('pipeline')}` brings them")
