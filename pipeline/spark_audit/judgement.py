"""The audit as DataFrames: a log is read, cut by message number into shares, and judged share by share.

1. Tasks read parts of the log and reduce them; the reduced rows wait on the disks of the executors.
2. Rows are grouped by share, a range of message numbers with all copies of those messages, and judged there.
3. The driver gets counts and samples. A share of which copies were overtaken by those of another is judged again, with
   what it must know of the other.

All of it is Spark's public API, which Spark Connect has too.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from pipeline.audit.log_coverage import Boot, Gap
from pipeline.audit.publish_verdicts import Counts
from pipeline.audit.verdict_counts import CAUSES, TALLY, found_in
from pipeline.audit.verdict_table import SCHEMA
from pipeline.event_parts import Part
from pipeline.file_target import Target
from pipeline.spark_audit import log_reading, share_verdicts
from pipeline.spark_audit.kept_state import Carried, Kept, state_rows
from pipeline.spark_audit.log_reading import LINK, LOG, PIECE, READ, LogRead, Reading
from pipeline.spark_audit.moved_copies import GUESTS, guests
from pipeline.spark_audit.number_blocks import BLOCK_BITS, table_of
from pipeline.spark_audit.open_messages import limit
from pipeline.spark_audit.share_verdicts import (
    CAUSE,
    CLOSED,
    DOUBT,
    FACTS,
    MESSAGES,
    OLDEST,
    OVERTAKER,
    SAMPLES,
    SPAN,
    TALLIED,
    Elsewhere,
    Judging,
    Keeping,
    Mixed,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SHARE_ROWS = 1 << 18
"""Rows of a share, copies and messages: a task needs about 300 MB for them."""
STATE_FILES = 16
"""Files of a kept state that a task reads."""


class Cut(NamedTuple):
    """Sizes: message numbers in a block, as a power of two; rows of a share at most, if its blocks permit."""

    block_bits: int = BLOCK_BITS
    share_rows: int = SHARE_ROWS


CUT = Cut()


class Tables(NamedTuple):
    """The directory for tables of a run; `shown`: findings that the driver gets at least."""

    target: Target
    directory: str
    shown: int


class Outcome(NamedTuple):
    """Verdicts on a log. `found` are samples, the worst first; all are in the table. `carried` remains of messages
    that an audit that goes on has forgotten.
    """

    boots: list[Boot]
    gaps: list[Gap]
    in_doubt: list[int]
    counts: Counts
    tally: pa.Table
    causes: pa.Table
    found: pa.Table
    carried: Carried = Carried()


BLOCKS = pa.schema([("node", pa.string()), ("block", pa.int64()), ("share", pa.int64())])
"""The share of each block."""


class _Shares(NamedTuple):
    """Shares of message numbers: the share of each block, and by node the first block and number of each share."""

    blocks: list[tuple[str, int, int]]
    begins: dict[str, Any]
    numbers: dict[str, Any]
    last: int

    def table(self) -> pa.Table:
        """Return the share of each block: rows of BLOCKS."""
        columns = zip(*self.blocks, strict=True) if self.blocks else ([] for _ in BLOCKS)
        known = [pa.array(values, field.type) for values, field in zip(columns, BLOCKS, strict=True)]
        return pa.table(known, schema=BLOCKS)


def judged_by_spark(
    spark: SparkSession, tasks: Sequence[Sequence[Part]], tables: Tables, cut: Cut = CUT, kept: Kept | None = None
) -> Outcome:
    """Judge a log that is divided into tasks: writes the rows of the tables `audit` and `found`.

    With a state that is kept, the tasks are of what is new in the log, and the state behind that is written.
    """
    from pyspark import StorageLevel

    reading = Reading(tasks, cut.block_bits)
    read = _numbered(spark, len(tasks)).mapInArrow(partial(log_reading.read_parts, reading), columns_of(READ))
    if kept is not None and kept.record.files:
        names = kept.record.files
        files = [names[begin : begin + STATE_FILES] for begin in range(0, len(names), STATE_FILES)]
        state = partial(state_rows, kept.target, files)
        read = read.union(_numbered(spark, len(files)).mapInArrow(state, columns_of(READ)))
    read = read.persist(StorageLevel.DISK_ONLY)
    try:
        with described(spark, "audit: read and reduce the events"):
            told = read.where(f"what = '{LOG}'").select("node", "messages").toArrow()
        log = log_reading.log_read(zip(*(column.to_pylist() for column in told.columns), strict=True))
        return _Judgement(spark, read, log, tables, cut, kept).outcome()
    finally:
        read.unpersist()


def _numbered(spark: SparkSession, tasks: int) -> DataFrame:
    """Return the numbers of some tasks, one for each."""
    return spark.range(0, tasks, 1, max(tasks, 1))


@contextmanager
def described(spark: SparkSession, text: str) -> Iterator[None]:
    """Give the jobs of this thread a description in Spark's UI. Spark Connect shows its own."""
    from pyspark.errors import PySparkException

    try:
        context = spark.sparkContext
    except PySparkException:  # Spark Connect has none
        yield
        return
    context.setJobDescription(text)
    try:
        yield
    finally:
        context.setJobDescription("")


def columns_of(schema: pa.Schema) -> str:
    """Return a schema in Spark's words."""
    return ", ".join(f"`{field.name}` {_TYPES[field.type]}" for field in schema)


_TYPES = {pa.string(): "string", pa.int64(): "bigint", pa.binary(): "binary"}


class _Judgement:
    """The judgement of a log whose reduced rows are there."""

    def __init__(
        self, spark: SparkSession, read: DataFrame, log: LogRead, tables: Tables, cut: Cut, kept: Kept | None
    ) -> None:
        self._spark = spark
        self._read = read
        self._log = log
        self._tables = tables
        self._cut = cut
        self._kept = kept
        self._carried = Carried() if kept is None else kept.record.carried

    def outcome(self) -> Outcome:
        """Judge all shares."""
        shares = _shares(self._log.blocks, self._cut.share_rows)
        before = str(self._spark.conf.get("spark.sql.shuffle.partitions"))
        self._spark.conf.set("spark.sql.shuffle.partitions", str(max(shares.last, 1)))
        try:
            with self._shared(shares) as pieces:
                return self._judged(pieces, shares)
        finally:
            self._spark.conf.set("spark.sql.shuffle.partitions", before)

    @contextmanager
    def _shared(self, shares: _Shares) -> Iterator[DataFrame]:
        """The pieces of the log, each with its share, and with those that have guests in it."""
        from pyspark import StorageLevel
        from pyspark.sql import functions as sql

        columns = "share", "node", "vhost", "queue", "copies", "messages"
        pieces = self._read.where(f"what = '{PIECE}'")
        blocks = self._spark.createDataFrame(shares.table())
        if not self._log.moves:
            yield pieces.join(sql.broadcast(blocks), ["node", "block"]).select(*columns)
            return
        judging, bits = self._judging(shares), self._cut.block_bits
        of_queues = self._read.where(f"what = '{LINK}'").groupBy("node", "vhost", "queue")
        away = of_queues.applyInArrow(
            lambda key, of_queue: guests(judging.ranges, bits, key, of_queue), columns_of(GUESTS)
        ).persist(StorageLevel.DISK_ONLY)
        try:
            visited = blocks.union(away.select(*BLOCKS.names).distinct())
            told = away.withColumn("messages", sql.lit(None).cast("binary"))
            told = told.withColumn("share", sql.explode(sql.array("home", "share"))).select(*columns)
            yield pieces.join(sql.broadcast(visited), ["node", "block"]).select(*columns).union(told)
        finally:
            away.unpersist()

    def _judged(self, pieces: DataFrame, shares: _Shares) -> Outcome:
        from pyspark import StorageLevel

        judging = self._judging(shares)
        once = _by_share(pieces, partial(share_verdicts.judge_share, judging), FACTS).persist(StorageLevel.DISK_ONLY)
        try:
            with described(self._spark, "audit: judge the messages, compare the order of shares"):
                spans = _crossing(once)
            if spans:
                with described(self._spark, "audit: judge again where copies of other shares have overtaken"):
                    again = self._again(pieces, judging, spans)
                    return self._outcome(_counted(once.where(f"share not in {_shares_of(spans)}").union(again)))
            with described(self._spark, "audit: count the verdicts"):
                return self._outcome(_counted(once))
        finally:
            once.unpersist()

    def _judging(self, shares: _Shares) -> Judging:
        forgotten, kept, keeping = self._carried.forgotten, self._kept, None
        facts = {each.name: each._replace(forgotten=forgotten.get(each.name, {})) for each in self._log.nodes}
        if kept is not None:
            limits = {each.name: limit(each.coverage.boots, kept.late) for each in self._log.nodes}
            keeping = Keeping(kept.target, kept.directory, limits)
        ranges = shares.begins, shares.numbers
        return Judging(
            *self._tables, self._cut.block_bits, facts, *ranges, {}, before=self._carried.before(), keeping=keeping
        )

    def _again(self, pieces: DataFrame, judging: Judging, spans: Sequence[Any]) -> DataFrame:
        """Judge some shares with the first deliveries at higher positions of other shares."""
        elsewhere = defaultdict[tuple[int, str], list[Elsewhere]](list)
        for span in spans:
            if span.above is not None:
                begins = judging.begins[span.node]
                behind = np.searchsorted(judging.numbers[span.node], span.range) + 1
                found = Elsewhere(
                    (span.vhost, span.queue), span.moment, int(begins[behind]) << self._cut.block_bits, span.above
                )
                elsewhere[span.share, span.node].append(found)
        mixed = defaultdict[Mixed, set[int]](set)
        for span in spans:
            if span.shares > 1:
                mixed[_range_of(span)].add(span.share)
        pieces = pieces.where(f"share in {_shares_of(spans)}")
        if mixed:
            looked = _by_share(pieces, partial(share_verdicts.deliveries_in, judging, frozenset(mixed)), FACTS)
            for row in looked.toLocalIterator():
                one = Elsewhere((row.vhost, row.queue), row.moment, row.two, row.one)
                for other in mixed[_range_of(row)] - {row.share}:
                    elsewhere[other, row.node].append(one)
        judging = judging._replace(elsewhere=dict(elsewhere))
        return _by_share(pieces, partial(share_verdicts.judge_share, judging), FACTS)

    def _outcome(self, counted: pa.Table) -> Outcome:
        rows = defaultdict[str, list[dict[str, Any]]](list)
        for row in counted.to_pylist():
            rows[row["what"]].append(row)
        doubts = {(row["node"], row["moment"]): row["one"] for row in rows[DOUBT]}
        messages = Counter[str](self._carried.messages)
        for row in rows[MESSAGES]:
            messages[row["name"]] += row["one"]
        causes = [{**row, "cause": row["name"], "copies": row["one"]} for row in rows[CAUSE]]
        coverages = {each.name: each.coverage for each in self._log.nodes}
        carried = Carried() if self._kept is None else self._kept.keep(self._log.told, rows, coverages)
        gaps = [gap for each in self._log.nodes for gap in each.coverage.gaps]
        return Outcome(
            [boot for each in self._log.nodes for boot in each.coverage.boots],
            gaps,
            [doubts.get((gap.node, gap.moment), 0) if gap.doubtful else 0 for gap in gaps],
            Counts(**messages),
            self._tally(rows[TALLIED]),
            pa.Table.from_pylist([{name: row[name] for name in CAUSES.names} for row in causes], CAUSES),
            found_in(pa.concat_tables([SCHEMA.empty_table(), *(table_of(row["rows"]) for row in rows[SAMPLES])])),
            carried,
        )

    def _tally(self, rows: list[dict[str, Any]]) -> pa.Table:
        """Count copies by queue and verdict, with those that are forgotten: rows of TALLY."""
        copies, violations = (Counter[tuple[str | None, ...]]() for _ in range(2))
        for node, vhost, queue, verdict, count in self._carried.tally:
            copies[node, vhost, queue, verdict] += count
        for row in rows:
            key = row["node"], row["vhost"], row["queue"], row["name"]
            copies[key] += row["one"]
            violations[key] += row["two"]
        columns = zip(*((*key, count, violations[key]) for key, count in copies.items()), strict=True)
        return (
            pa.Table.from_pydict(dict(zip(TALLY.names, columns, strict=True)), TALLY) if copies else TALLY.empty_table()
        )


def _range_of(row: Any) -> Mixed:
    return Mixed(row.node, row.vhost, row.queue, row.moment, row.range)


def _shares_of(spans: Sequence[Any]) -> str:
    """The numbers of the shares, as SQL's `in` wants them."""
    return f"({', '.join(map(str, sorted({span.share for span in spans})))})"


def _by_share(pieces: DataFrame, function: Any, schema: pa.Schema) -> DataFrame:
    """Apply a function to each share and its pieces; Spark looks at annotations, which a lambda has none of."""
    return pieces.groupBy("share").applyInArrow(lambda key, share: function(key, share), columns_of(schema))


def _counted(facts: DataFrame) -> pa.Table:
    """Sum up the counts of all shares; rows that are no counts stay as they are."""
    from pyspark.sql import functions as sql

    keys = ("what", "node", "vhost", "queue", "name", "moment")
    sampled = sql.when(sql.col("what").isin(SAMPLES, CLOSED, OVERTAKER, OLDEST), sql.struct("share", "one", "two"))
    counts = facts.where(sql.col("what") != SPAN).withColumn("part", sampled)
    summed = (sql.sum("one").alias("one"), sql.sum("two").alias("two"), sql.first("rows").alias("rows"))
    return counts.groupBy(*keys, "part").agg(*summed).toArrow()


def _crossing(facts: DataFrame) -> list[Any]:
    """Find the shares of which copies in a queue and boot may have been overtaken by copies of another.

    Rows have `above`, the first new delivery in higher ranges of positions, and the number of shares in the same range.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as sql

    of_queue = Window.partitionBy("node", "vhost", "queue", "moment").orderBy("range")
    same = Window.partitionBy("node", "vhost", "queue", "moment", "range")
    higher = of_queue.rangeBetween(1, Window.unboundedFollowing)
    spans = facts.where(f"what = '{SPAN}'").select(
        *("node", "vhost", "queue", "moment", "share", "range", "two"),
        sql.min("one").over(higher).alias("above"),
        sql.count("one").over(same).alias("shares"),
    )
    return spans.where("above < two or shares > 1").drop("two").collect()


def _shares(sizes: Sequence[tuple[str, int, int]], most: int) -> _Shares:
    """Divide the blocks of all nodes, with their numbers of rows, into shares, numbered from 1."""
    share, rows = 1, 0
    found = list[tuple[str, int, int]]()
    begins, numbers = defaultdict[str, list[int]](list), defaultdict[str, list[int]](list)
    for node, block, size in sizes:
        if rows and rows + size > most:
            share, rows = share + 1, 0
        rows += size
        found.append((node, block, share))
        if not numbers[node] or numbers[node][-1] != share:
            numbers[node].append(share)
            begins[node].append(block)
    arrays = [{node: np.array(values, np.int64) for node, values in each.items()} for each in (begins, numbers)]
    return _Shares(found, arrays[0], arrays[1], share if sizes else 0)
