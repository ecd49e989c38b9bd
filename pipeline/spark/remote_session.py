"""A session of a server of Spark Connect, which runs elsewhere with its own Java and settings."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pipeline.spark.interrupts import interruptible
from pipeline.spark.java import MissingError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONNECT = "sc://"
SETTINGS = {"spark.sql.session.timeZone": "UTC"}


def is_remote(master: str | None) -> bool:
    """Return whether a master is a server of Spark Connect."""
    return master is not None and master.startswith(CONNECT)


@contextmanager
def remote_session(name: str, server: str, settings: Mapping[str, str]) -> Iterator[SparkSession]:
    """Have a session of a server at `sc://HOST:PORT`, and end it; the server stays.

    SIGINT and SIGTERM end it with KeyboardInterrupt. Raises MissingError without the packages of Spark Connect, and
    PySparkException for a server that does not answer, or a setting that a session cannot change.
    """
    if importlib.util.find_spec("grpc") is None:
        raise MissingError("not installed: grpc; `pip install 'pyspark[connect]'` brings it")
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.remote(server).appName(name).create()
    try:
        for setting, value in {**SETTINGS, **settings}.items():
            spark.conf.set(setting, value)
        with interruptible(spark.interruptAll):
            yield spark
    finally:
        spark.stop()
