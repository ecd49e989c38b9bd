"""Moments as they are shown."""

from __future__ import annotations

from datetime import UTC, datetime


def moment(milliseconds: int) -> str:
    """Return a time as text, in UTC."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + " UTC"
