"""The text of metrics, by the official client library, in pieces.

Its `generate_latest` writes down all there is in one go, which with 10,000 queues is seconds. It is given one part of
a family at a time instead. Every part begins with the lines that name the family: only those of the first one are kept.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

import trio
from prometheus_client import generate_latest
from prometheus_client.metrics_core import Metric

from broker.management.prometheus.metric_groups import Parts

CONTENT_TYPE = "text/plain; version=0.0.4"
PIECE_BYTES = 64 * 1024
_HEAD_LINES = 2


class _Collected:
    """A registry that has one family."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> list[Metric]:
        return [self._metric]


async def exposition(parts: Parts) -> AsyncGenerator[bytes, None]:
    """The text in pieces; others have a turn after each step."""
    before, piece = "", bytearray()
    for part in parts:
        if part is not None:
            written = generate_latest(_Collected(part))
            piece += written.split(b"\n", _HEAD_LINES)[_HEAD_LINES] if part.name == before else written
            before = part.name
        if len(piece) >= PIECE_BYTES:
            yield bytes(piece)
            piece.clear()
        await trio.lowlevel.checkpoint()
    yield bytes(piece)
