"""Counts of verdicts, and the findings among them: rows of `verdict_table.SCHEMA` that are lost or have violations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

QUEUE = ("node", "vhost", "queue")
LOST = "lost"
FIRST_OF_CAUSE = 5
SAMPLES = 60
"""Findings whose events are shown, a few for each queue and cause."""
TALLY = pa.schema(
    [
        *((name, pa.string()) for name in (*QUEUE, "verdict")),
        *((name, pa.int64()) for name in ("copies", "violations")),
    ]
)
CAUSES = pa.schema([*((name, pa.string()) for name in (*QUEUE, "cause")), ("copies", pa.int64())])


def found_in(rows: pa.Table) -> pa.Table:
    """Return the findings, the worst first: losses, then by queue and position."""
    found = rows.filter(pc.or_(_wrong(rows), pc.equal(rows.column("verdict"), LOST)))
    kept = found.append_column("kept", pc.not_equal(found.column("verdict"), LOST).cast(pa.int8()))
    order = ("kept", *QUEUE, "position")
    return kept.sort_by([(name, "ascending") for name in order]).drop_columns("kept")


def tally_of(rows: pa.Table) -> pa.Table:
    """Count copies, and those with violations, by queue and verdict: rows of TALLY."""
    counted = rows.select((*QUEUE, "verdict")).append_column("wrong", _wrong(rows).cast(pa.int64()))
    found = counted.group_by([*QUEUE, "verdict"]).aggregate([([], "count_all"), ("wrong", "sum")])
    return found.rename_columns(TALLY.names).cast(TALLY)


def causes_of(found: pa.Table) -> pa.Table:
    """Count findings by queue and cause: rows of CAUSES."""
    counted = found.select(QUEUE).append_column("cause", _causes(found))
    return counted.group_by(CAUSES.names[:-1]).aggregate([([], "count_all")]).rename_columns(CAUSES.names).cast(CAUSES)


def samples_of(found: pa.Table, most: int) -> pa.Table:
    """Return the first `most` findings, and some more: the first of each queue and cause, up to SAMPLES in all."""
    columns = [found.column(name).to_numpy(zero_copy_only=False).astype(str) for name in QUEUE]
    names = np.array([_causes(found).to_numpy(zero_copy_only=False).astype(str), *columns])
    group = np.unique(names, axis=1, return_inverse=True)[1].reshape(-1) if found.num_rows else np.zeros(0, np.int64)
    order = np.argsort(group, kind="stable")
    starts = np.flatnonzero(np.append(True, np.diff(group[order]) != 0)[: len(order)])
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order)) - np.repeat(starts, np.diff(np.append(starts, len(order))))
    some = np.lexsort((np.arange(len(rank)), rank))
    some = some[rank[some] < FIRST_OF_CAUSE][:SAMPLES]
    return found.take(pa.array(np.union1d(some, np.arange(min(most, len(rank)))).astype(np.int64)))


def _wrong(rows: pa.Table) -> Any:
    return pc.greater(pc.list_value_length(rows.column("violations")), 0)


def _causes(found: pa.Table) -> Any:
    """The cause of each finding: its violations, or `lost`."""
    names = pc.binary_join(found.column("violations"), ", ")
    lost = pc.if_else(pc.equal(found.column("verdict"), LOST), LOST, "")
    return pc.if_else(
        pc.equal(names, ""), lost, pc.if_else(pc.equal(lost, ""), names, pc.binary_join_element_wise(names, lost, ", "))
    )
