"""A directory in whatever file system Spark can reach: where jobs find exports, and leave what they have made.

Spark's own file systems are used for small files too, so that a place needs to be set up once, in Spark's settings.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Place:
    """A directory. `root` is what Spark calls it."""

    def __init__(self, spark: SparkSession, where: str) -> None:
        """`where` is a path or a URI such as hdfs://host:port/path or s3://bucket/prefix."""
        self.spark = spark
        self.root = spark_name(where)
        jvm: Any = spark._jvm
        self._jvm = jvm
        settings: Any = spark._jsc.hadoopConfiguration()
        self._files = self._path("").getFileSystem(settings)
        self._files.setWriteChecksum(False)  # a local file system would put hidden files beside ours
        contexts = self._jvm.org.apache.hadoop.fs.FileContext
        self._renaming = contexts.getFileContext(self._path("").toUri(), settings).rename

    def name(self, within: str) -> str:
        """What Spark calls something in here."""
        return f"{self.root}/{within}"

    def read(self, name: str) -> bytes | None:
        """A small file; None if there is none."""
        path = self._path(name)
        if not self._files.exists(path):
            return None
        stream = self._files.open(path)
        try:
            return bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
        finally:
            stream.close()

    def put(self, name: str, content: bytes) -> None:
        """Have a small file there whole, in place of the one before: readers see one or the other."""
        directory, _, file = name.rpartition("/")
        hidden = self._path(f"{directory}/_tmp.{file}" if directory else f"_tmp.{file}")
        stream = self._files.create(hidden, True)
        try:
            stream.write(content)
        finally:
            stream.close()
        modes = self._jvm.org.apache.hadoop.fs.Options.Rename
        overwriting = self.spark.sparkContext._gateway.new_array(modes, 1)  # type: ignore[union-attr]
        overwriting[0] = modes.OVERWRITE
        self._renaming(hidden, self._path(name), overwriting)

    def names(self, directory: str) -> list[str]:
        """What is in a directory of this place, which must exist."""
        return sorted(status.getPath().getName() for status in self._files.listStatus(self._path(directory)))

    def remove(self, name: str) -> None:
        """Remove a file, or a directory with all that is in it."""
        self._files.delete(self._path(name), True)

    def _path(self, within: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self.name(within) if within else self.root)


def spark_name(where: str) -> str:
    """A path or URI as Spark has it: it knows s3:// by another name."""
    if "://" not in where:
        return f"file:{Path(where.removeprefix('file:')).absolute()}"
    return where.rstrip("/").replace("s3://", "s3a://", 1) if where.startswith("s3://") else where.rstrip("/")
