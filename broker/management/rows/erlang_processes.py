"""Columns about Erlang processes, which RabbitMQ 4's rows have: here there are none."""

from __future__ import annotations

from typing import Any

from broker.admin.views.columns import Column

NO_COLLECTION = dict.fromkeys(
    ("max_heap_size", "min_bin_vheap_size", "min_heap_size", "fullsweep_after", "minor_gcs"), -1
)
"""The garbage collection of a process, in RabbitMQ's own numbers for an unknown one."""


def always(value: Any) -> Column[Any]:
    """Return a column with the same value for everything."""
    return lambda thing: value


REDUCTIONS: dict[str, Column[Any]] = {"reductions": always(0), "reductions_details": always({"rate": 0.0})}
COLLECTION: dict[str, Column[Any]] = {"garbage_collection": always(NO_COLLECTION)}
