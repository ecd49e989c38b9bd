"""Minutes of tables that have a row for each."""

from __future__ import annotations

from datetime import datetime

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn


def between(rows: DataFrame, since: datetime | None, until: datetime | None) -> DataFrame:
    """The rows of whole minutes from the one of `since` on, of those that begin before `until`."""
    if since is not None:
        rows = rows.where(fn.col("minute") >= fn.date_trunc("minute", fn.lit(since)))
    return rows if until is None else rows.where(fn.col("minute") < fn.lit(until))
