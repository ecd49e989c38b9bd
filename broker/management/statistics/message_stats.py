"""message_stats of the API: counters in groups, each with its rate and samples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

DELIVERIES = ("deliver", "deliver_no_ack", "get", "get_no_ack")

GROUPS = (
    ("publish", "confirm", "return_unroutable", "drop_unroutable"),
    (*DELIVERIES, "get_empty", "deliver_get", "redeliver", "ack"),
    ("publish_in", "publish_out"),
    ("disk_reads", "disk_writes"),
)
"""Counters that are shown together, as soon as one of them is not 0."""

Details = Callable[[str], Mapping[str, Any] | None]
"""Returns the rate and the samples of a column; None where no rates are kept."""


def message_stats(counted: Mapping[str, int], details: Details) -> dict[str, Any]:
    """Return the counters in the form of the API. deliver_get, a sum of others, is added."""
    shown: dict[str, Any] = {}
    values = with_deliver_get(counted)
    for group in GROUPS:
        names = [name for name in group if name in values]
        if any(map(values.__getitem__, names)):
            shown |= with_details({name: values[name] for name in names}, details)
    return shown


def with_deliver_get(counted: Mapping[str, int]) -> Mapping[str, int]:
    """Return the counters with deliver_get, if they have deliveries."""
    if "deliver" not in counted:
        return counted
    return {**counted, "deliver_get": sum(map(counted.__getitem__, DELIVERIES))}


def with_details(values: Mapping[str, Any], details: Details) -> dict[str, Any]:
    """Return each value followed by its details."""
    shown: dict[str, Any] = {}
    for name, value in values.items():
        shown[name] = value
        detail = details(name)
        if detail is not None:
            shown[f"{name}_details"] = detail
    return shown


def columns_of(name: str) -> Iterable[str]:
    """The columns whose sum is shown under a name."""
    return DELIVERIES if name == "deliver_get" else (name,)
