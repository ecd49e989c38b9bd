"""The text of metrics in pieces, computed in short steps.

The official client library writes families, one at a time. Lines that a group has written itself are passed on.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

from prometheus_client import generate_latest
from prometheus_client.metrics_core import Metric

from broker.admin.short_steps import in_steps
from broker.management.prometheus.metric_groups import Parts

CONTENT_TYPE = "text/plain; version=0.0.4"
PIECE_BYTES = 64 * 1024


class _Collected:
    """A registry of the client library with one family."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> list[Metric]:
        return [self._metric]


async def exposition(parts: Parts) -> AsyncGenerator[bytes, None]:
    """Return the text in pieces of about PIECE_BYTES."""
    piece = bytearray()
    async for part in in_steps(parts):
        if isinstance(part, str):
            piece += part.encode()
        elif part is not None:
            piece += generate_latest(_Collected(part))
        if len(piece) >= PIECE_BYTES:
            yield bytes(piece)
            piece.clear()
    yield bytes(piece)
