"""A Spark session for this machine that starts quietly, with both data sources registered.

Made for tests, trials and small jobs: everything runs in one process beside this one, without a web interface and with
few partitions. A job on a cluster makes its own session and registers `leveret_spark.AmqpDataSource` in it.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.java import MissingError, find_java, java_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NEEDED = ("pyspark", "pyarrow", "pika")
LOGGING = Path(__file__).with_name("log4j2.properties")

QUIET = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.speculation": "false",  # a sink would publish twice
}


@contextmanager
def session(
    name: str = "leveret", *, cores: int = 2, settings: Mapping[str, str] | None = None, java_options: str = ""
) -> Iterator[SparkSession]:
    """Start Spark in this process' charge, and stop it at the end. One at a time for each process.

    `settings` are Spark's, and come before ours; `java_options` go to the virtual machine. Raises MissingError when a
    package or Java is missing.
    """
    _check_packages()
    os.environ["JAVA_HOME"] = str(java_home(find_java()))
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark.sql import SparkSession

    from leveret_spark import AmqpDataSource, LeveretEventsDataSource

    options = f"-Dlog4j2.configurationFile=file:{LOGGING} {java_options}".strip()
    builder = SparkSession.builder.appName(name).master(f"local[{cores}]")
    for key, value in {**QUIET, "spark.driver.extraJavaOptions": options, **(settings or {})}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    try:
        spark.dataSource.register(AmqpDataSource)
        spark.dataSource.register(LeveretEventsDataSource)
        yield spark
    finally:
        spark.stop()


def _check_packages() -> None:
    missing = [package for package in NEEDED if importlib.util.find_spec(package) is None]
    if missing:
        raise MissingError(f"not installed: {', '.join(missing)}; pip install 'leveret[pipeline]' brings them")
