"""What rows show of the past: where it is kept, and which samples of it are asked for."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, NamedTuple

from broker.management.columns import ABSENT
from broker.management.statistics.history import History
from broker.management.statistics.windows import Ages


class Past(NamedTuple):
    """The history, and the windows that a request has asked for."""

    history: History
    ages: Ages


def moment(milliseconds: int | None) -> Any:
    """A time as RabbitMQ writes it: `2026-11-23T08:48:05.870+00:00`. ABSENT for None."""
    if milliseconds is None:
        return ABSENT
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")
