"""Filters that Spark pushes into the source `leveret-events`, as conditions of pyarrow.

Spark applies all of them again, so a filter without a condition here only costs time. A segment has one node and one
boot: conditions on these two alone skip whole segments.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from leveret_events.segment_names import SegmentName

CONDITIONS: dict[str, Callable[[pc.Expression, Any], pc.Expression]] = {
    "EqualTo": operator.eq,
    "GreaterThan": operator.gt,
    "GreaterThanOrEqual": operator.ge,
    "LessThan": operator.lt,
    "LessThanOrEqual": operator.le,
    "In": lambda column, values: column.isin(list(values)),
    "StringStartsWith": pc.starts_with,
    "StringEndsWith": pc.ends_with,
    "StringContains": pc.match_substring,
    "IsNull": lambda column, _: column.is_null(),
    "IsNotNull": lambda column, _: column.is_valid(),
}
"""By the names of Spark's filters."""


def condition(filters: Iterable[Any], columns: Sequence[str]) -> pc.Expression | None:
    """Return the condition of all filters that can be expressed over some columns; None without one."""
    found = [each for each in (_condition(one, columns) for one in filters) if each is not None]
    return reduce(operator.and_, found) if found else None


def segments(names: Sequence[SegmentName], filters: Iterable[Any]) -> list[SegmentName]:
    """Segments that may have rows which meet the filters."""
    wanted = condition(filters, ("node", "boot"))
    if wanted is None or not names:
        return list(names)
    rows = {"node": [name.node for name in names], "boot": [name.boot for name in names]}
    table = pa.table({**rows, "at": range(len(names))})
    return [names[at] for at in table.filter(wanted).column("at").to_pylist()]


def _condition(one: Any, columns: Sequence[str]) -> pc.Expression | None:
    kind = type(one).__name__
    if kind == "Not":
        inner = _condition(one.child, columns)
        return None if inner is None else ~inner
    value = getattr(one, "value", None)
    if kind not in CONDITIONS or one.attribute[0] not in columns or not _comparable(value):
        return None
    return CONDITIONS[kind](pc.field(one.attribute[0]), value)


def _comparable(value: Any) -> bool:
    """Times without a zone are not: the columns have one."""
    if isinstance(value, tuple | list):
        return all(each is not None and _comparable(each) for each in value)
    return value is None or isinstance(value, str | int) or (isinstance(value, datetime) and value.tzinfo is not None)
