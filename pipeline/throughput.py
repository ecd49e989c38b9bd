"""What went through each queue in each minute, and how many messages were in it at the end of the minute.

The depth of a queue is counted from the last event at which it was known: the start of a boot, whose events name
everything that is there; a purge, which names what consumers hold and leaves nothing else; the deletion of the queue,
or its first declaration. A message of an earlier boot was there at the start if any event of this boot names it, be it
its end. Unacknowledged messages count, and so do dead letters that no consumer takes.

`depth` is null before everything that was there at a start has been recorded, be it by an orderly stop; behind a gap
of the log that leaves doubt until the next such event; and for streams, from which nothing is consumed and which drop
messages without events.

A minute has a row if anything happened to the queue in it; otherwise its depth stays what it was. Where the clock was
set back, a minute that comes twice is one row.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from leveret_spark.events.segment_format import OFFSETS_END
from pipeline.audit.log_coverage import boot_of, moment
from pipeline.audit.verdicts import COPY, ENDS, OF_COPIES, QUEUE

NEEDED = (
    *("node", "boot", "seq", "ts", "kind", "vhost", "queue", "msg_id", "position", "size_bytes", "redelivered"),
    *("reason", "detail"),
)
"""The columns of events that are looked at, for boots and gaps too."""

COUNTED = {
    "delivered": "deliver",
    "acked": "ack",
    "requeued": "requeue",
    "rejected": "reject",
    "expired": "expire",
    "dropped": "drop",
    "dead_lettered": "deadletter",
}
"""Columns that count one kind of event."""

COUNTS = ("published", "bytes_in", "redelivered", *COUNTED)

QUEUE_BOOT = [*QUEUE, "boot"]
"""A queue in one boot: a count begins anew with each."""


def throughput(events: DataFrame, known_boots: DataFrame, missing: DataFrame) -> DataFrame:
    """One row for each queue and minute: node, vhost, queue, minute, COUNTS, redelivery_rate, depth.

    `events` are deduplicated, with their moments; `known_boots` and `missing` are their boots and gaps.
    """
    events = events.withColumn("minute", fn.date_trunc("minute", "ts"))
    rows = _with_depth(_counted(events), events, known_boots, missing)
    shown = (
        rows.groupBy(*QUEUE, "minute")
        .agg(*(fn.sum(count).alias(count) for count in COUNTS), fn.max_by("depth", "boot").alias("depth"))
        .withColumn("redelivery_rate", fn.try_divide("redelivered", "delivered"))
    )
    return shown.select(*QUEUE, "minute", *COUNTS, "redelivery_rate", "depth")


def in_all(rows: DataFrame) -> DataFrame:
    """The table by queue, over all minutes, the busiest first: COUNTS, redelivery_rate, deepest, and depth at last."""
    return (
        rows.groupBy(*QUEUE)
        .agg(
            *(fn.sum(name).alias(name) for name in COUNTS),
            fn.max("depth").alias("deepest"),
            fn.max_by("depth", "minute").alias("depth"),
        )
        .withColumn("redelivery_rate", fn.try_divide("redelivered", "delivered"))
        .orderBy(fn.desc(fn.col("published") + fn.col("delivered")), *QUEUE)
    )


def _counted(events: DataFrame) -> DataFrame:
    """One row for each queue, boot and minute: COUNTS; `net`, how many more there are since `reset`, if that was in
    this minute; `kept`, how many there were then; whether it is a stream.
    """
    kind = fn.col("kind")
    routes = _sized(events)
    rows = events.where(fn.col("queue").isNotNull() & (kind != "route")).select(*routes.columns)
    rows = rows.unionByName(routes).unionByName(_moves(routes, events))
    rows = rows.join(_resets(events), [*QUEUE_BOOT, "minute"], "left")
    step = fn.when(kind == "route", 1).when(kind.isin("move", *ENDS), -1).otherwise(0)
    behind = fn.col("reset").isNull() | (fn.col("moment") > fn.col("reset"))
    came = fn.when(kind == "route", 1).when(kind == "move", -1).otherwise(0)
    stream = (fn.col("position") < OFFSETS_END) | (fn.get_json_object("detail", "$.type") == "stream")
    return rows.groupBy(*QUEUE_BOOT, "minute").agg(
        fn.sum(came).alias("published"),
        fn.sum(came * fn.coalesce("size_bytes", fn.lit(0))).alias("bytes_in"),
        fn.count(fn.when((kind == "deliver") & fn.col("redelivered"), 1)).alias("redelivered"),
        *(fn.count(fn.when(kind == each, 1)).alias(name) for name, each in COUNTED.items()),
        fn.sum(fn.when(behind, step).otherwise(0)).alias("net"),
        fn.max("reset").alias("reset"),
        fn.max("kept").alias("kept"),
        fn.max(fn.coalesce(stream, fn.lit(False))).alias("stream"),
    )


def _sized(events: DataFrame) -> DataFrame:
    """Ways into queues, with the sizes of their messages."""
    sizes = events.where(fn.col("kind") == "publish").select("node", "msg_id", "size_bytes")
    return events.where(fn.col("kind") == "route").drop("size_bytes").join(sizes, ["node", "msg_id"], "left")


def _moves(routes: DataFrame, events: DataFrame) -> DataFrame:
    """Messages that went back to the end of a quorum queue: their ways into it, as events that take these back.

    Such a message had come back to its place, had not ended there, and went to one new place. A dead letter that waits
    in its queue names the place of what it was as well, but that has ended, or has moved before.
    """
    of_copies = fn.col("position") >= OFFSETS_END
    again = routes.where((fn.col("msg_id") != fn.col("position")) & of_copies)
    first = Window.partitionBy(*QUEUE, "msg_id").orderBy("moment")
    again = again.withColumn("number", fn.row_number().over(first)).where("number = 1").drop("number")
    place = [*QUEUE, "msg_id"]
    left = events.where(of_copies).select("kind", *QUEUE, fn.col("position").alias("msg_id"))
    back = left.where(fn.col("kind") == "requeue").drop("kind")
    ended = left.where(fn.col("kind").isin(*ENDS)).drop("kind")
    moves = again.join(back, place, "left_semi").join(ended, place, "left_anti")
    return moves.withColumn("kind", fn.lit("move")).select(*routes.columns)


def _resets(events: DataFrame) -> DataFrame:
    """The last event of each minute that gives the depth of a queue: its moment `reset`, and the depth `kept`."""
    kind = fn.col("kind")
    opened = events.where(~kind.isin("boot", "declare")).groupBy("node", "boot").agg(fn.min("moment").alias("opened"))
    known = events.where(kind.isin("purge", "delete", "declare")).join(fn.broadcast(opened), ["node", "boot"])
    held = fn.size(fn.from_json(fn.get_json_object("detail", "$.kept"), "array<bigint>"))
    # What is declared before anything else has happened comes back with what it held.
    return (
        known.where((kind != "declare") | (fn.col("moment") > fn.col("opened")))
        .groupBy(*QUEUE_BOOT, "minute")
        .agg(
            fn.max("moment").alias("reset"),
            fn.max_by(fn.when(kind == "purge", held).otherwise(0), "moment").alias("kept"),
        )
    )


def _with_depth(rows: DataFrame, events: DataFrame, known_boots: DataFrame, missing: DataFrame) -> DataFrame:
    """Add `depth`: what was there at the last reset or at the start, and what has come and gone since."""
    ends = events.groupBy("node", "boot", "minute").agg(fn.max("moment").alias("end"))
    life, minutes = Window.partitionBy(*QUEUE_BOOT), Window.partitionBy(*QUEUE_BOOT).orderBy("minute")
    since = Window.partitionBy(*QUEUE_BOOT, "epoch").orderBy("minute")
    joined = (
        rows.join(ends, ["node", "boot", "minute"])
        .join(_held_over(events), QUEUE_BOOT, "left")
        .join(fn.broadcast(known_boots.select("node", "boot", _recorded())), ["node", "boot"])
        .join(fn.broadcast(_doubts(missing)), ["node", "boot"], "left")
        .withColumn("stream", fn.max("stream").over(life))
        .withColumn("epoch", fn.count("reset").over(minutes))
        .withColumn("from", fn.last("reset", ignorenulls=True).over(minutes))
        .withColumn("at_first", fn.last("kept", ignorenulls=True).over(minutes))
    )
    at_first = fn.coalesce("at_first", "held_over", fn.lit(0))
    depth = at_first + fn.sum("net").over(since)
    return joined.withColumn("depth", fn.when(_known() & ~fn.col("stream"), depth))


def _known() -> Column:
    """At the end of a minute it was known how many messages are in the queue."""
    begin = fn.coalesce("from", moment(fn.col("boot"), fn.lit(0)))
    doubtful = fn.exists("doubts", lambda point: (point >= begin) & (point <= fn.col("end")))
    complete = fn.col("from").isNotNull() | fn.coalesce(fn.col("recorded") <= fn.col("end"), fn.lit(False))
    return complete & ~fn.coalesce(doubtful, fn.lit(False))


def _recorded() -> Column:
    """The moment by which all that was there at a boot's start has been recorded, or has ended; null if there is none.

    What a stop records is what was there at the start and has not ended, when the stop came first.
    """
    return fn.coalesce("snapshot", fn.when(fn.col("complete"), fn.col("stopped"))).alias("recorded")


def _held_over(events: DataFrame) -> DataFrame:
    """How many messages of earlier boots were in a queue when a boot began: QUEUE_BOOT, held_over."""
    earlier = (fn.col("position") >= OFFSETS_END) & (boot_of(fn.col("position")) < fn.col("boot"))
    copies = events.where(fn.col("kind").isin(*OF_COPIES) & earlier).select(*COPY, "boot").distinct()
    return copies.groupBy(*QUEUE_BOOT).agg(fn.count("*").alias("held_over"))


def _doubts(missing: DataFrame) -> DataFrame:
    """The last moments before gaps that leave doubt: node, boot, doubts."""
    doubtful = missing.where("doubtful").groupBy("node", "boot")
    return doubtful.agg(fn.collect_list("moment").alias("doubts"))
