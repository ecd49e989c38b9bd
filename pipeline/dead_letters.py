"""Reasons of dead letters: of those in a dead-letter queue by their `x-death` header, and rates by the event log.

The first entry of `x-death` is the latest death. An entry has one queue and one reason, the number of deaths, and the
time of the first of these.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from pipeline.event_parts import Part

X_DEATH = """
    array<struct<queue: string, reason: string, count: bigint, exchange: string, `routing-keys`: array<string>,
        time: struct<`$timestamp`: bigint>>>
"""
COLUMNS = (
    "reason",
    "death_queue",
    "death_exchange",
    "death_routing_key",
    "death_count",
    "first_death_queue",
    "first_death_reason",
    "first_death_exchange",
    "died_at",
)
"""Columns added to those of the source `amqp`. All are null without an x-death header."""

GROUP = ("reason", "death_queue", "death_exchange", "death_routing_key", "first_death_reason", "first_death_queue")

RATES = pa.schema(
    [("vhost", pa.string()), ("queue", pa.string()), ("reason", pa.string()), ("minute", pa.timestamp("us", "UTC"))]
)

SAMPLES = 3
SAMPLE_CHARACTERS = 200


def with_deaths(messages: DataFrame) -> DataFrame:
    """Add COLUMNS to messages: latest death, number of deaths, first death by the headers, and time of the last."""
    headers = fn.col("headers")
    deaths = fn.from_json(fn.get_json_object(headers, "$.x-death"), X_DEATH)
    last = fn.get(deaths, fn.lit(0))
    counts = fn.transform(deaths, lambda death: fn.coalesce(death["count"], fn.lit(0)))
    times = fn.transform(deaths, lambda death: death["time"]["$timestamp"])
    found = {
        "reason": last["reason"],
        "death_queue": last["queue"],
        "death_exchange": last["exchange"],
        "death_routing_key": fn.get(last["routing-keys"], fn.lit(0)),
        "death_count": fn.aggregate(counts, fn.lit(0).cast("bigint"), lambda sum_, count: sum_ + count),
        "first_death_queue": fn.get_json_object(headers, "$.x-first-death-queue"),
        "first_death_reason": fn.get_json_object(headers, "$.x-first-death-reason"),
        "first_death_exchange": fn.get_json_object(headers, "$.x-first-death-exchange"),
        "died_at": fn.timestamp_seconds(fn.array_max(times)),
    }
    return messages.withColumns(found)


def dead_letters(messages: DataFrame) -> DataFrame:
    """Group dead letters by GROUP, the largest first: GROUP, messages, deaths, first_at, last_at, samples.

    `deaths` is the number of deaths of all messages; `first_at` and `last_at` are the earliest and latest time of a
    last death; `samples` are the bodies of up to three, cut to 200 characters, in hexadecimal if they are not text.
    """
    first = Window.partitionBy(*GROUP).orderBy("delivery_tag")
    numbered = with_deaths(messages).withColumn("number", fn.row_number().over(first))
    sample = fn.when(fn.col("number") <= SAMPLES, fn.struct("number", _sample(fn.col("body")).alias("sample")))
    return (
        numbered.groupBy(*GROUP)
        .agg(
            fn.count("*").alias("messages"),
            fn.sum("death_count").alias("deaths"),
            fn.min("died_at").alias("first_at"),
            fn.max("died_at").alias("last_at"),
            fn.sort_array(fn.collect_list(sample)).alias("samples"),
        )
        .withColumn("samples", fn.col("samples.sample"))
        .orderBy(fn.desc("messages"), *GROUP)
    )


def dead_letter_rates(events: Sequence[Part], since: int | None, until: int | None) -> pa.Table:
    """Count dead letters by the event log: vhost, queue, reason, minute, messages.

    `since` and `until`: microseconds since the epoch, or None for no limit.
    """
    batches = [RATES.empty_table()]
    for part in events:
        for batch in part.batches(("seq", "kind", "ts", "vhost", "queue", "reason"), []):
            died = pa.table(batch).filter(pc.equal(batch.column("kind").dictionary_decode(), "deadletter"))
            times = died.column("ts").cast(pa.int64())
            low, high = (fill if time is None else time for time, fill in ((since, -(1 << 62)), (until, 1 << 62)))
            died = died.filter(pc.and_(pc.greater_equal(times, low), pc.less(times, high)))
            minute = pc.floor_temporal(died.column("ts"), unit="minute")
            columns = [died.column(name) for name in ("vhost", "queue", "reason")]
            batches.append(pa.table([*columns, minute], RATES.names).cast(RATES))
    found = pa.concat_tables(batches).group_by(RATES.names).aggregate([([], "count_all")])
    return found.rename_columns([*RATES.names, "messages"]).sort_by(
        [(name, "ascending") for name in ("minute", "vhost", "queue")]
    )


def _sample(body: Column) -> Column:
    text = body.cast("string")
    cut = fn.substring(text, 1, SAMPLE_CHARACTERS)
    shown = fn.concat(cut, fn.when(fn.length(text) > SAMPLE_CHARACTERS, "...").otherwise(""))
    half = SAMPLE_CHARACTERS // 2
    digits = fn.lower(fn.hex(fn.substring(body, 1, half)))
    raw = fn.concat(fn.lit("0x"), digits, fn.when(fn.length(body) > half, "...").otherwise(""))
    return fn.when(fn.is_valid_utf8(text) & ~text.rlike(r"[\x00-\x08\x0e-\x1f]"), shown).otherwise(raw)
