"""The options of a source that reads streams, under the names that Spark's source for Kafka has.

A boundary is `earliest`, `latest`, an offset, or a time; for all streams, or for each by a JSON object.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from leveret_spark.option_errors import OptionError
from leveret_spark.options import PREFETCH_MAX, Given, queues_of

Boundary = str | int | datetime
"""`earliest`, `latest`, an offset, or the time from which on messages count."""

KAFKA_NUMBERS = {-2: "earliest", -1: "latest"}
"""Numbers of Spark's source for Kafka for `earliest` and `latest` in JSON."""

WORDS = ("earliest", "latest")
MILLISECONDS_MAX = 253_402_300_799_999
PREFETCH = 2000
OFFSETS_MAX = (1 << 63) - 1


@dataclass(frozen=True)
class StreamReading:
    """Streams to read, their boundaries, and limits of a batch."""

    queues: tuple[str, ...]
    starts: Mapping[str, Boundary]
    ends: Mapping[str, Boundary]
    max_messages: int | None
    partitions: int
    prefetch: int
    wait_seconds: float
    fails_on_loss: bool


def stream_reading_of(options: Mapping[str, str], *, batch: bool) -> StreamReading:
    """Read the options of streams; `batch` for a table, which has an end. Raises OptionError."""
    given = Given(options)
    queues = queues_of(given)
    if not batch and (name := next((name for name in ("endingOffsets", "endingTimestamp") if given.has(name)), None)):
        raise OptionError(f"option {name} is for tables: a stream has no end")
    limited = given.has("maxMessagesPerBatch")
    return StreamReading(
        queues=queues,
        starts=_boundaries(given, "starting", queues, "earliest" if batch else "latest"),
        ends=_boundaries(given, "ending", queues, "latest"),
        max_messages=given.number("maxMessagesPerBatch", 0, 1, OFFSETS_MAX) if limited else None,
        partitions=given.number("partitions", len(queues), 1, 10_000),
        prefetch=given.number("prefetch", PREFETCH, 2, PREFETCH_MAX),
        wait_seconds=given.number("batchWaitMilliseconds", 200, 0, 3_600_000) / 1000,
        fails_on_loss=given.flag("failOnDataLoss", True),
    )


def _boundaries(given: Given, which: str, queues: tuple[str, ...], default: str) -> dict[str, Boundary]:
    """A boundary for each stream, from `...Offsets` or `...Timestamp`."""
    offsets, timestamp = f"{which}Offsets", f"{which}Timestamp"
    if given.has(timestamp):
        if given.has(offsets):
            raise OptionError(f"options {offsets} and {timestamp} exclude each other")
        moment = datetime.fromtimestamp(given.number(timestamp, 0, 0, MILLISECONDS_MAX) // 1000, UTC)
        return dict.fromkeys(queues, moment)
    text = given.text(offsets) or default
    if text.lower() in WORDS:
        return dict.fromkeys(queues, text.lower())
    return _each(offsets, text, queues)


def _each(name: str, text: str, queues: tuple[str, ...]) -> dict[str, Boundary]:
    """Parse a JSON object with a boundary for each stream."""
    try:
        values = json.loads(text)
    except ValueError:
        values = None
    if not isinstance(values, dict) or values.keys() != set(queues):
        raise OptionError(f'option {name} is earliest, latest, or JSON such as {{"{queues[0]}": 0}} with every stream')
    return {queue: _boundary(name, value) for queue, value in values.items()}


def _boundary(name: str, value: Any) -> Boundary:
    value = KAFKA_NUMBERS.get(value, value) if isinstance(value, int) else value
    if value in WORDS or (type(value) is int and 0 <= value <= OFFSETS_MAX):
        found: Boundary = value
        return found
    raise OptionError(f"option {name} has an offset, earliest or latest for each stream, not {value!r}")
