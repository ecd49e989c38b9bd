"""What the API calls message_stats: counters in groups, each with its rate and its samples."""

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
"""The rate and the samples of a column; None where rates are not kept."""


def message_stats(counted: Mapping[str, int], details: Details) -> dict[str, Any]:
    """Counters as the API shows them; `counted` has them by name, but for deliver_get, which is a sum of others."""
    shown: dict[str, Any] = {}
    values = with_deliver_get(counted)
    for group in GROUPS:
        names = [name for name in group if name in values]
        if any(map(values.__getitem__, names)):
            shown |= with_details({name: values[name] for name in names}, details)
    return shown


def with_deliver_get(counted: Mapping[str, int]) -> Mapping[str, int]:
    """Counters with the sum of deliveries, if they have deliveries."""
    if "deliver" not in counted:
        return counted
    return {**counted, "deliver_get": sum(map(counted.__getitem__, DELIVERIES))}


def with_details(values: Mapping[str, Any], details: Details) -> dict[str, Any]:
    """Each value, and beside it its details."""
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
