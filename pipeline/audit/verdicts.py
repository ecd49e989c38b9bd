"""Was a confirmed message lost, delivered again after it was gone, or out of order?

What is judged is a copy: a message in a queue, by the queue and its place there. A copy that was confirmed to its
publisher and outlasts restarts must end by an event that ends copies, or be in each later full record, which a broker
writes at its start and at an orderly stop. Where a gap of the log lies between the last event of a copy and the record
from which it is absent, nothing is concluded. Dead letters, and messages whose delay is over, are not confirmed; they
come with the end of the message before them, and must be there once that end is on disk.

An acknowledgement that had not reached the disk when the broker was killed may come undone: then the message comes
again. It is one only if its number is within what the next boot says was on disk (see `pipeline.audit.log_coverage`).
So may a message's move to the end of a quorum queue.

Streams are not judged: nothing is consumed away from them. Queues with priorities are not judged for order.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Observation, Window
from pyspark.sql import functions as fn

from leveret_spark.events.segment_format import OFFSETS_END
from pipeline.audit.log_coverage import boot_of, seq_of

COPY = ["node", "vhost", "queue", "position"]
QUEUE = ["node", "vhost", "queue"]
ENDS = ("ack", "reject", "expire", "drop", "release")
OF_COPIES = (*ENDS, "route", "deliver", "requeue", "queued")
NEEDED = (
    *("node", "boot", "seq", "ts", "kind", "vhost", "queue", "channel", "msg_id", "position", "redelivered"),
    *("persistent", "detail"),
)
"""The columns of events that an audit looks at."""
CHAIN_MAX = 20
"""A message that went back to the end of a quorum queue 2^20 times is followed no further."""


def judged(events: DataFrame, known_boots: DataFrame, missing: DataFrame) -> DataFrame:
    """One row for each copy, with its verdict and the evidence: see `verdicts`. The events are deduplicated."""
    return verdicts(copies(events, known_boots), publishes(events), known_boots, missing, out_of_order(events))


def publishes(events: DataFrame) -> DataFrame:
    """One row for each message that was published: node, msg_id, publish_ts, confirm_ts, own: by the broker itself."""
    publishing = events.where(fn.col("kind").isin("publish", "confirm"))
    return publishing.groupBy("node", "msg_id").agg(
        fn.min(fn.when(fn.col("kind") == "publish", fn.col("ts"))).alias("publish_ts"),
        fn.min(fn.when(fn.col("kind") == "confirm", fn.col("ts"))).alias("confirm_ts"),
        fn.max(fn.when(fn.col("kind") == "publish", fn.col("channel") == 0)).alias("own"),
    )


def copies(events: DataFrame, known_boots: DataFrame) -> DataFrame:
    """One row for each copy: what happened to it, when it was last heard of, and what ended it for good."""
    kind, when = fn.col("kind"), fn.col("moment")
    of_copies = events.where(kind.isin(*OF_COPIES) & (fn.col("position") >= OFFSETS_END))
    of_copies = of_copies.join(fn.broadcast(known_boots.select("node", "boot", "horizon")), ["node", "boot"])
    delivered, ended = kind == "deliver", kind.isin(*ENDS)
    certain = when <= fn.col("horizon")
    found = of_copies.groupBy(*COPY).agg(
        fn.min_by("msg_id", fn.when(kind == "route", when)).alias("msg_id"),
        fn.min(fn.when(kind == "route", when)).alias("routed"),
        fn.min(fn.when((kind == "route") & certain, when)).alias("routed_for_good"),
        fn.max(fn.when(kind == "route", fn.col("persistent"))).alias("kept"),
        fn.min(fn.when(delivered, fn.col("ts"))).alias("first_deliver_ts"),
        fn.count(fn.when(delivered, 1)).cast("int").alias("deliver_count"),
        fn.count(fn.when(kind == "ack", 1)).cast("int").alias("ack_count"),
        fn.max(fn.when(delivered, when)).alias("last_delivered"),
        fn.count(fn.when(delivered & ~fn.col("redelivered"), 1)).alias("delivered_as_new"),
        fn.count_distinct(fn.when(delivered, fn.col("boot"))).alias("boots_delivered"),
        fn.min(fn.when(ended & certain, fn.struct("moment", "kind"))).alias("end"),
        fn.max(fn.when(ended, when)).alias("ended"),
        fn.max(fn.struct("moment", "kind")).alias("last"),
        fn.max(fn.when(kind == "queued", when)).alias("last_queued"),
        fn.sort_array(fn.collect_set("boot")).alias("boots"),
    )
    return _with_moves(_with_sweeps(found.persist(), events))  # looked at several times


def _with_sweeps(found: DataFrame, events: DataFrame) -> DataFrame:
    """Copies that a purge or the end of their queue took, end by it."""
    sweeps = events.where(fn.col("kind").isin("purge", "delete")).select(
        *QUEUE,
        fn.struct("moment", "kind").alias("sweep"),
        fn.get_json_object("detail", "$.below").cast("bigint").alias("below"),
        fn.from_json(fn.get_json_object("detail", "$.kept"), "array<bigint>").alias("spared"),
    )
    swept = (
        found.where(fn.col("end").isNull())
        .select(*COPY, "last")
        .join(fn.broadcast(sweeps), QUEUE)
        .where(
            (fn.col("position") < fn.col("below"))
            & (fn.col("last.moment") < fn.col("sweep.moment"))
            & ~fn.array_contains("spared", fn.col("position"))
        )
        .groupBy(*COPY)
        .agg(fn.min("sweep").alias("sweep"))
    )
    joined = found.join(swept, COPY, "left")
    return joined.withColumn("end", fn.coalesce("end", "sweep")).drop("sweep")


def _with_moves(found: DataFrame) -> DataFrame:
    """Copies that went back to the end of a quorum queue end by that; their successors have the first one's number.

    Adds `moved`: it has come from another place of its queue.
    """
    moves = found.where((fn.col("msg_id") != fn.col("position")) & fn.col("routed").isNotNull()).select(
        *QUEUE, fn.col("msg_id").alias("before"), "position", "routed", "routed_for_good"
    )
    moves = moves.join(found.select(*QUEUE, fn.col("position").alias("before")), [*QUEUE, "before"])
    moves, count = _checkpointed(moves, fn.count("*"))
    if not count:
        return found.withColumn("moved", fn.lit(False))
    left = moves.groupBy(*QUEUE, fn.col("before").alias("position")).agg(
        fn.max("routed").alias("moved_on"),
        fn.min(
            fn.when(
                fn.col("routed_for_good").isNotNull(),
                fn.struct(fn.col("routed_for_good").alias("moment"), fn.lit("move").alias("kind")),
            )
        ).alias("move"),
    )
    return (
        found.join(left, COPY, "left")
        .join(_first_places(moves), COPY, "left")
        .withColumn("end", fn.coalesce("end", "move"))
        .withColumn("ended", fn.greatest("ended", "moved_on"))
        .withColumn("msg_id", fn.coalesce("first", "msg_id"))
        .withColumn("moved", fn.col("first").isNotNull())
        .drop("move", "moved_on", "first")
    )


def _first_places(moves: DataFrame) -> DataFrame:
    """Where what has moved was at the very first: followed back in ever longer steps."""
    firsts = moves.select(*QUEUE, "position", fn.col("before").alias("first"))
    for _ in range(CHAIN_MAX):
        further = firsts.select(*QUEUE, fn.col("position").alias("first"), fn.col("first").alias("earlier"))
        joined, count = _checkpointed(firsts.join(further, [*QUEUE, "first"], "left"), fn.count("earlier"))
        firsts = joined.select(*QUEUE, "position", fn.coalesce("earlier", "first").alias("first"))
        if not count:
            break
    return firsts


def _checkpointed(rows: DataFrame, count: Column) -> tuple[DataFrame, int]:
    """Rows worked out once, without a plan behind them, and a count over them that was taken meanwhile."""
    observation = Observation()
    kept = rows.observe(observation, count.alias("count")).localCheckpoint()
    return kept, observation.get["count"]


def out_of_order(events: DataFrame) -> DataFrame:
    """The copies that were delivered for the first time behind one that had come later: node, vhost, queue, position.

    Order begins anew with each boot, because what was out with consumers comes back then.
    """
    ordered = events.where(
        (fn.col("kind") == "declare")
        & (fn.get_json_object("detail", "$.max_priority") == "0")
        & fn.get_json_object("detail", "$.type").isin("classic", "quorum")
    )
    ordered = ordered.select(*QUEUE).distinct()
    first_deliveries = events.where((fn.col("kind") == "deliver") & ~fn.col("redelivered")).join(
        fn.broadcast(ordered), QUEUE
    )
    before = Window.partitionBy(*QUEUE, "boot").orderBy("seq").rowsBetween(Window.unboundedPreceding, -1)
    return (
        first_deliveries.withColumn("highest", fn.max("position").over(before))
        .where(fn.col("position") < fn.col("highest"))
        .select(*COPY)
        .distinct()
    )


def verdicts(
    found: DataFrame, published: DataFrame, known_boots: DataFrame, missing: DataFrame, unordered: DataFrame
) -> DataFrame:
    """Judge each copy.

    `verdict` is one of
    - settled: it ended, by `how`;
    - queued: it was there the last time that everything was recorded, or has come since;
    - lost: it was promised, by a confirm as a rule, and is gone without an end;
    - unknown: it is gone, and a gap of the log lies where its end may have been;
    - not confirmed, not kept: it is gone without an end, and no promise was made for it.

    `violations` lists what must never happen besides: delivered after its end, there again after its end, delivered
    twice as new, out of order. `last` and `absent` are the moments at which it was last heard of, and at which it was
    missing first.
    """
    judged = found.join(published, ["node", "msg_id"], "left").join(
        unordered.withColumn("unordered", fn.lit(True)), COPY, "left"
    )
    judged = _without_late_sweeps(_with_absence(judged, known_boots, missing))
    kept, absent = fn.coalesce("kept", fn.lit(True)), fn.col("absent").isNotNull()
    ended = fn.col("ended").isNotNull()
    verdict = (
        fn.when(fn.col("end").isNotNull() | (ended & (absent | (fn.col("ended") >= fn.col("last.moment")))), "settled")
        .when(~absent, "queued")
        .when(~kept, "not kept")
        .when(fn.col("in_doubt"), "unknown")
        .when(_promised(), "lost")
        .otherwise("not confirmed")
    )
    violations = fn.array_compact(
        fn.array(
            fn.when(fn.col("last_delivered") > fn.col("end.moment"), "delivered after its end"),
            fn.when(boot_of(fn.col("last_queued")) > boot_of(fn.col("end.moment")), "there again after its end"),
            fn.when(fn.col("delivered_as_new") > fn.col("boots_delivered"), "delivered twice as new"),
            fn.when(fn.col("unordered"), "out of order"),
        )
    )
    return judged.select(
        *COPY,
        "msg_id",
        verdict.alias("verdict"),
        violations.alias("violations"),
        fn.col("end.kind").alias("how"),
        "publish_ts",
        "confirm_ts",
        "first_deliver_ts",
        "deliver_count",
        "ack_count",
        "boots",
        fn.col("last.moment").alias("last"),
        "absent",
        _evidence().alias("evidence"),
    )


def _promised() -> Column:
    """A copy that was there at a start is on disk; so is what took the place of something else, once that is."""
    replaces = fn.coalesce("own", fn.lit(False)) | fn.col("moved")
    promised = fn.when(replaces, fn.col("routed_for_good").isNotNull()).otherwise(fn.col("confirm_ts").isNotNull())
    return fn.col("routed").isNull() | promised


def _with_absence(judged: DataFrame, known_boots: DataFrame, missing: DataFrame) -> DataFrame:
    """Add `absent`, the moment of the first full record in which a copy is missing, and whether a gap lies before it.

    At a start everything is recorded behind what was last heard of a copy in an earlier boot; at an orderly stop too,
    unless the last that was heard of it is that record itself, and not the one at the start.
    """
    at_start = _records(known_boots.where(fn.col("snapshot").isNotNull()), fn.col("snapshot"), start=True)
    at_stop = _records(known_boots.where("complete"), fn.col("stopped"), start=False)
    records = _listed(at_start.unionByName(at_stop), "record")
    doubts = _listed(missing.where("doubtful"), "moment")
    joined = judged.join(fn.broadcast(records), "node", "left").join(fn.broadcast(doubts), "node", "left")
    last, boot = fn.col("last.moment"), boot_of(fn.col("last.moment"))

    def behind(record: Column) -> Column:
        later_boot = record["boot"] > boot
        recorded = (fn.col("last.kind") != "queued") | (last <= record["snapshot"])
        same_boot = (record["boot"] == boot) & ~record["start"] & recorded
        return later_boot | (same_boot & (record["moment"] > last))

    absent = fn.get(fn.filter("record", behind), fn.lit(0))["moment"]
    joined = joined.withColumn("absent", absent)
    doubtful = fn.exists("moment", lambda point: (point >= last) & (point < fn.col("absent")))
    return joined.withColumn("in_doubt", fn.coalesce(doubtful, fn.lit(False))).drop("record", "moment")


def _without_late_sweeps(judged: DataFrame) -> DataFrame:
    """A copy that was missing already when its queue was purged or deleted has not ended by that."""
    late = fn.col("end.kind").isin("purge", "delete") & (fn.col("end.moment") > fn.col("absent"))
    return judged.withColumn("end", fn.when(~fn.coalesce(late, fn.lit(False)), fn.col("end")))


def _records(known_boots: DataFrame, at: Column, *, start: bool) -> DataFrame:
    """The moments at which all that was there had been recorded."""
    record = fn.struct(at.alias("moment"), fn.col("boot"), fn.lit(start).alias("start"), fn.col("snapshot"))
    return known_boots.select("node", record.alias("record"))


def _listed(rows: DataFrame, column: str) -> DataFrame:
    """A column as one ascending list for each node."""
    return rows.groupBy("node").agg(fn.sort_array(fn.collect_list(column)).alias(column))


def _evidence() -> Column:
    """What is known of a copy last, and where it is missing, in words."""
    last = fn.concat(fn.lit("last: "), fn.col("last.kind"), fn.lit(" in "), _place(fn.col("last.moment")))
    absent = fn.concat(fn.lit("; absent from the record at "), _place(fn.col("absent")))
    return fn.concat(last, fn.when(fn.col("end").isNull() & fn.col("absent").isNotNull(), absent).otherwise(""))


def _place(moment: Column) -> Column:
    boot, seq = boot_of(moment).cast("string"), seq_of(moment).cast("string")
    return fn.concat(fn.lit("boot "), boot, fn.lit(", event "), seq)
