"""How long messages waited: for their confirm, for a consumer, for the consumer's acknowledgement.

A duration belongs to the minute of the later of its two events: it says what was seen in that minute, and a minute
that is over never changes, whatever comes later. Durations are differences of the machine's clock, over a restart too.
Where the clock was set back in between nothing can be measured: that is counted as negative, and not as a duration.

- publish_to_confirm counts in each queue that the message reached, and in none where it reached none. Dead
  letters and messages whose delay is over have no confirm.
- publish_to_deliver ends with the first delivery out of a queue, which is not marked as redelivered. A message that
  went back to the end of a quorum queue has had that.
- deliver_to_ack begins with the delivery that is acknowledged: the last one before, of the same boot, unless the
  message came back meanwhile. It is not measured where no acknowledgement was wanted, nor of streams, out of which one
  place is delivered to many.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from leveret_spark.events.segment_format import OFFSETS_END
from pipeline.audit.log_coverage import boot_of
from pipeline.audit.verdicts import COPY, QUEUE

STAGES = ("publish_to_confirm", "publish_to_deliver", "deliver_to_ack")

NEEDED = (
    *("node", "boot", "seq", "ts", "kind", "vhost", "queue", "msg_id", "position", "redelivered", "reason"),
    "detail",
)
"""The columns of events that are looked at, for boots and gaps too."""

PERCENTILES = (50, 95, 99)
ACCURACY = 10_000
"""A percentile is a duration that occurred, and at most one in so many beside its place among all of its row."""


def latency(measured: DataFrame) -> DataFrame:
    """Durations by queue and minute: node, vhost, queue, minute, stage, n, negative, p50_ms, p95_ms, p99_ms, max_ms."""
    return _spread(measured, *QUEUE, "minute", "stage")


def latency_in_all(measured: DataFrame) -> DataFrame:
    """The same by queue, over all minutes."""
    return _spread(measured, *QUEUE, "stage")


def durations(events: DataFrame) -> DataFrame:
    """One row for each duration: node, vhost, queue, stage, minute, us. `events` are deduplicated, with their moments.

    `us` is microseconds, less than zero where the clock was set back. `queue` is null for what reached none.
    """
    known, copies = _publishes(events), _copies(events)
    parts = _to_confirm(known), _to_deliver(copies, known), _to_ack(copies)
    first, *others = (_measured(stage, rows) for stage, rows in zip(STAGES, parts, strict=True))
    for rows in others:
        first = first.unionByName(rows)
    return first


def _spread(measured: DataFrame, *by: str) -> DataFrame:
    """How durations spread. What is negative is counted, and is in no percentile."""
    sound = fn.when(fn.col("us") >= 0, fn.col("us"))
    found = measured.groupBy(*by).agg(
        fn.count(sound).alias("n"),
        fn.count(fn.when(fn.col("us") < 0, 1)).alias("negative"),
        fn.percentile_approx(sound, [percent / 100 for percent in PERCENTILES], ACCURACY).alias("found"),
        fn.max(sound).alias("max"),
    )
    places = [(_ms(fn.get("found", fn.lit(at)))).alias(f"p{percent}_ms") for at, percent in enumerate(PERCENTILES)]
    return found.select(*by, "n", "negative", *places, _ms(fn.col("max")).alias("max_ms"))


def _ms(us: Column) -> Column:
    return us / fn.lit(1000.0)


def _publishes(events: DataFrame) -> DataFrame:
    """One row for each message whose publish is known: node, msg_id, vhost, began, confirmed, queues."""
    kind = fn.col("kind")
    return (
        events.where(kind.isin("publish", "confirm", "route"))
        .groupBy("node", "msg_id")
        .agg(
            fn.min(fn.when(kind == "publish", fn.col("vhost"))).alias("vhost"),
            fn.min(fn.when(kind == "publish", fn.col("ts"))).alias("began"),
            fn.min(fn.when(kind == "confirm", fn.col("ts"))).alias("confirmed"),
            fn.collect_set(fn.when(kind == "route", fn.col("queue"))).alias("queues"),
        )
        .where(fn.col("began").isNotNull())
    )


def _copies(events: DataFrame) -> DataFrame:
    """What happened to each copy, with what was before it: `route`, the last way into the queue, and `out`, the last
    time that it went out or came back.
    """
    kind = fn.col("kind")
    before = Window.partitionBy(*COPY).orderBy("moment").rowsBetween(Window.unboundedPreceding, -1)
    route = fn.when(kind == "route", fn.struct("moment", "msg_id"))
    out = fn.when(kind.isin("deliver", "requeue"), fn.struct("moment", "kind", "ts"))
    return (
        events.where(kind.isin("route", "deliver", "requeue", "ack"))
        .withColumn("route", fn.last(route, ignorenulls=True).over(before))
        .withColumn("out", fn.last(out, ignorenulls=True).over(before))
    )


def _to_confirm(known: DataFrame) -> DataFrame:
    confirmed = known.where(fn.col("confirmed").isNotNull())
    return confirmed.withColumn("queue", fn.explode_outer("queues")).withColumn("ended", fn.col("confirmed"))


def _to_deliver(copies: DataFrame, known: DataFrame) -> DataFrame:
    """A stream's place is used again after a crash or a deletion: what was before the route is not of this message."""
    new = fn.col("out").isNull() | (fn.col("out.moment") < fn.col("route.moment"))
    first = copies.where((fn.col("kind") == "deliver") & ~fn.col("redelivered") & new)
    first = first.select(*QUEUE, fn.col("route.msg_id").alias("msg_id"), fn.col("ts").alias("ended"))
    return first.join(known.select("node", "msg_id", "began"), ["node", "msg_id"])


def _to_ack(copies: DataFrame) -> DataFrame:
    wanted = (fn.col("kind") == "ack") & fn.col("reason").isNull() & (fn.col("position") >= OFFSETS_END)
    held = (fn.col("out.kind") == "deliver") & (boot_of(fn.col("out.moment")) == fn.col("boot"))
    return copies.where(wanted & held).select(*QUEUE, fn.col("out.ts").alias("began"), fn.col("ts").alias("ended"))


def _measured(stage: str, rows: DataFrame) -> DataFrame:
    us = fn.unix_micros("ended") - fn.unix_micros("began")
    minute = fn.date_trunc("minute", "ended")
    return rows.select(*QUEUE, fn.lit(stage).alias("stage"), minute.alias("minute"), us.alias("us"))
