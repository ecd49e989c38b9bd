"""Streams of the tests' Spark, from their start to their end."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

QUERY_SECONDS = 180
GIVEN_UP = "Python worker failed to connect back"


def run_to_end(writer: DataStreamWriter, *places: Any) -> StreamingQuery:
    """Start a query that ends by itself, and return it when it has. Raises what it has failed with.

    Spark waits ten seconds for the process that plans a source, on the slowest machine too. A query that has ended for
    that has done nothing yet, and begins again.
    """
    from pyspark.errors import StreamingQueryException

    deadline = time.monotonic() + QUERY_SECONDS
    while True:
        query = writer.start(*places)
        try:
            assert query.awaitTermination(QUERY_SECONDS), "the query goes on"
        except StreamingQueryException as failed:
            if GIVEN_UP not in str(failed) or time.monotonic() > deadline:
                raise
        else:
            return query
