"""Names that Spark has only since a version after 4.0, so that one package serves all of Spark 4."""

from __future__ import annotations

try:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

    HAS_LIMITS = True
except ImportError:  # Spark before 4.2: a source is not told where a batch begins, and AvailableNow is one batch
    HAS_LIMITS = False

    class ReadLimit:  # type: ignore[no-redef]
        """Limit of a batch, as Spark passes it from 4.2 on."""

    class ReadAllAvailable(ReadLimit):  # type: ignore[no-redef]
        """Everything at once."""

    class ReadMaxRows(ReadLimit):  # type: ignore[no-redef]
        """A number of messages at most."""

        def __init__(self, max_rows: int) -> None:
            self.max_rows = max_rows

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """A reader that can stop where the source ended when the query began."""


try:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
except ImportError:  # Spark before 4.1 gives rows to a streaming sink
    from pyspark.sql.datasource import DataSourceStreamWriter as DataSourceStreamArrowWriter  # type: ignore[assignment]

__all__ = [
    "HAS_LIMITS",
    "DataSourceStreamArrowWriter",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxRows",
    "SupportsTriggerAvailableNow",
]
