"""Coverage of an event log: its boots, its gaps, and the numbers that order its events.

A moment is the number `boot << 40 | seq`, which orders the events of a node. A gap is a place where events are missing.
Behind the last event of a boot that was killed some are always missing; but each commit of messages records the last
event before it, and the next boot repeats that number. If the log goes that far, none of the missing events had reached
the disk, so no message was lost by them, and the gap is not doubtful. All other gaps are, and the audit concludes
nothing across them. A boot without a log may have recorded its own number over that of the boot before, whose end is
then doubtful.
"""

from __future__ import annotations

from decimal import Decimal

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

SEQ_BITS = 40

END = (1 << 62) - 1


def moment(boot: Column, seq: Column) -> Column:
    """The place of an event among all events of its node."""
    return fn.shiftleft(boot.cast("bigint"), SEQ_BITS) + seq


def boot_of(moment: Column) -> Column:
    """The boot of a moment."""
    return fn.shiftright(moment, SEQ_BITS)


def seq_of(moment: Column) -> Column:
    """The number of an event within its boot; a horizon without end is as far as one likes."""
    return moment.bitwiseAND((1 << SEQ_BITS) - 1)


def deduplicated(events: DataFrame) -> DataFrame:
    """Each event once, with its moment; exports and streams may contain duplicates."""
    return with_moments(events.dropDuplicates(["node", "boot", "seq"]))


def with_moments(events: DataFrame) -> DataFrame:
    """Events with their moments."""
    return events.withColumn("moment", moment(fn.col("boot"), fn.col("seq")))


def each_once(events: DataFrame) -> DataFrame:
    """What `deduplicated` makes of events, persisted; and at half the cost where no event is missing or comes twice."""
    ordered = with_moments(events).persist()
    number = fn.col("seq").cast("decimal(18)")  # sums of bigints, and squares, could be too large for one
    sums = (fn.count("*"), fn.sum(number), fn.sum(number * number))
    boots = ordered.groupBy("node", "boot").agg(fn.min("seq"), fn.max("seq"), *sums).collect()
    if all(_without_holes(*row[2:]) for row in boots):
        return ordered
    ordered.unpersist()
    return deduplicated(events).persist()


def _without_holes(first: int, last: int, count: int, total: Decimal, squares: Decimal) -> bool:
    """So many numbers are those from the first to the last, each once: so are their sum, and that of their squares."""

    def sum_of_squares(highest: int) -> int:
        return highest * (highest + 1) * (2 * highest + 1) // 6

    return (
        count == last - first + 1
        and int(total) * 2 == (first + last) * count
        and int(squares) == sum_of_squares(last) - sum_of_squares(first - 1)
    )


def boots(events: DataFrame) -> DataFrame:
    """One row for each boot in a log: node, boot, first, last, events, first_ts, last_ts, stopped, complete, snapshot,
    horizon, next.

    `stopped` is the moment of its orderly end and `complete` whether all that was queued stands before it; `snapshot`
    the moment by which all that was there at its start has been recorded. What happened up to the moment `horizon`
    is on disk. `next` is the boot that follows in the log. What does not apply is null.
    """
    stop = fn.col("kind") == "stop"
    found = events.groupBy("node", "boot").agg(
        fn.min("seq").alias("first"),
        fn.max("seq").alias("last"),
        fn.count("*").alias("events"),
        fn.min("ts").alias("first_ts"),
        fn.max("ts").alias("last_ts"),
        fn.max(fn.when(stop, fn.col("moment"))).alias("stopped"),
        fn.max(fn.when(stop, fn.get_json_object("detail", "$.complete") == "true")).alias("complete"),
        fn.max(fn.when(fn.col("kind") == "snapshot", fn.col("moment"))).alias("snapshot"),
    )
    known = events.where(fn.col("kind") == "boot").select(
        "node",
        fn.get_json_object("detail", "$.previous_boot").cast("int").alias("boot"),
        fn.get_json_object("detail", "$.previous_known").cast("bigint").alias("known"),
    )
    known = known.groupBy("node", "boot").agg(fn.max("known").alias("known"))
    order = Window.partitionBy("node").orderBy("boot")
    open_end = fn.col("stopped").isNull() & fn.col("next").isNotNull()
    horizon = fn.when(open_end, moment(fn.col("boot"), fn.coalesce("known", fn.lit(0)))).otherwise(fn.lit(END))
    return (
        found.join(known, ["node", "boot"], "left")
        .withColumn("next", fn.lead("boot").over(order))
        .select(*found.columns, horizon.alias("horizon"), "next")
    )


def gaps(events: DataFrame, boots: DataFrame) -> DataFrame:
    """Where events are missing: node, kind, boot, after, before, lost, doubtful, moment.

    `lost` is how many, if that is known, and at least so many behind a boot's end. `doubtful` says that something may
    have happened there that reached the disk. `moment` is that of the last event before the gap.
    """
    holes = _holes(events, boots)
    known = seq_of(fn.col("horizon"))
    untold = (known == 0) & (fn.col("next") > fn.col("boot") + 1)
    tail = boots.where(fn.col("stopped").isNull() & fn.col("next").isNotNull()).select(
        "node",
        fn.lit("end of a boot").alias("kind"),
        "boot",
        fn.col("last").alias("after"),
        fn.lit(None).cast("bigint").alias("before"),
        fn.when(~untold, fn.greatest(known - fn.col("last"), fn.lit(0))).alias("lost"),
        (untold | (known > fn.col("last"))).alias("doubtful"),
    )
    missing = boots.where(fn.col("next") > fn.col("boot") + 1).select(
        "node",
        fn.lit("boots without a log").alias("kind"),
        (fn.col("boot") + 1).alias("boot"),
        fn.lit(0).cast("bigint").alias("after"),
        fn.lit(None).cast("bigint").alias("before"),
        fn.lit(None).cast("bigint").alias("lost"),
        fn.lit(True).alias("doubtful"),
    )
    found = holes.unionByName(tail).unionByName(missing)
    return found.withColumn("moment", moment(fn.col("boot"), fn.col("after")))


def _holes(events: DataFrame, boots: DataFrame) -> DataFrame:
    """Numbers that are missing within a boot, its beginning included. Only boots that miss any are looked through."""
    torn = boots.where(fn.col("events") < fn.col("last")).select("node", "boot")
    before = fn.lag("seq", 1, 0).over(Window.partitionBy("node", "boot").orderBy("seq"))
    numbered = events.join(fn.broadcast(torn), ["node", "boot"]).select("node", "boot", "seq", before.alias("after"))
    return numbered.where(fn.col("seq") > fn.col("after") + 1).select(
        "node",
        fn.lit("events not written").alias("kind"),
        "boot",
        "after",
        fn.col("seq").alias("before"),
        (fn.col("seq") - fn.col("after") - 1).alias("lost"),
        fn.lit(True).alias("doubtful"),
    )
