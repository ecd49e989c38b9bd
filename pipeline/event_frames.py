"""Events as a DataFrame, from wherever they are: segments in a directory, segments by HTTP, an export as Parquet.

An export is read by its manifest, so that files which are not whole are not seen. Each source brings each event once.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from leveret_spark.events.events_source import COLUMNS
from pipeline.export import MANIFEST, MANIFEST_FORMAT, ManifestError, listed
from pipeline.spark.file_places import Place

WEB = ("http://", "https://")
LOCAL = ("file://", "file:")


def read_events(spark: SparkSession, where: str, options: Mapping[str, str] | None = None) -> DataFrame:
    """The events in a directory, an export or at a URL; `options` are the data source's for what is not an export.

    Raises OSError for a directory that is not there, ManifestError for an export that cannot be read.
    """
    require_directory(where)
    source = spark.read.format("leveret-events").options(**(options or {}))
    if where.startswith(WEB):
        return source.option("url", where).load()
    path = _local(where)
    if path is not None and not (path / MANIFEST).exists():
        return source.load(str(path))
    return exported(spark, where)


def require_directory(where: str) -> None:
    """Raises OSError when a directory of this machine is meant that is not there, or cannot be read."""
    if not where.startswith(WEB) and (path := _local(where)) is not None:
        next(path.iterdir(), None)


def exported(spark: SparkSession, where: str) -> DataFrame:
    """The events of an export. Raises ManifestError."""
    place = Place(spark, where)
    content = place.read(MANIFEST)
    if content is None:
        raise ManifestError(f"{where}: no {MANIFEST}, so this is no export of events")
    files = [place.name(entry["file"]) for entry in listed(f"{where}/{MANIFEST}", content, MANIFEST_FORMAT)]
    if not files:
        return spark.createDataFrame([], COLUMNS)
    return spark.read.schema(COLUMNS).parquet(*files)


def _local(where: str) -> Path | None:
    """The directory on this machine that is meant, if it is one."""
    for prefix in LOCAL:
        if where.startswith(prefix):
            return Path(where.removeprefix(prefix))
    return None if "://" in where else Path(where)
