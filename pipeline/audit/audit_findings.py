"""What an audit comes to: how many copies have which verdict, what should not be, and what each gap leaves in doubt."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from pipeline.audit.verdicts import COPY, QUEUE

ORDER = ("lost", "unknown", "not confirmed", "not kept", "queued", "settled")
"""Verdicts, the worst first."""


def tally(audited: DataFrame) -> DataFrame:
    """How many copies have which verdict: node, vhost, queue, verdict, copies, violations."""
    return audited.groupBy(*QUEUE, "verdict").agg(
        fn.count("*").alias("copies"), fn.count(fn.when(fn.size("violations") > 0, 1)).alias("violations")
    )


def found(audited: DataFrame) -> DataFrame:
    """The copies that were lost, or about which something is wrong: rows of the audit."""
    return audited.where((fn.col("verdict") == "lost") | (fn.size("violations") > 0))


def worst_first(rows: DataFrame) -> DataFrame:
    """Rows of the audit, or of what was found: the lost first, then by queue and place."""
    return rows.orderBy(fn.col("verdict") != "lost", *COPY)


def in_doubt(missing: DataFrame, audited: DataFrame) -> DataFrame:
    """Gaps, each with the number of copies whose end may lie in it: `in_doubt`. A copy may count at several."""
    unknown = audited.where(fn.col("verdict") == "unknown").select("node", "last", "absent")
    doubtful = missing.where("doubtful").select("node", "moment")
    counts = (
        unknown.join(fn.broadcast(doubtful), "node")
        .where((fn.col("moment") >= fn.col("last")) & (fn.col("moment") < fn.col("absent")))
        .groupBy("node", "moment")
        .agg(fn.count("*").alias("in_doubt"))
    )
    joined = missing.join(counts, ["node", "moment"], "left")
    return joined.withColumn("in_doubt", fn.coalesce("in_doubt", fn.lit(0))).orderBy("node", "moment")
