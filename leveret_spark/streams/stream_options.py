"""The options of a source that reads streams, under the names that Spark's source for Kafka has.

A boundary is `earliest`, `latest`, an offset, or a time; for all streams, or for each by a JSON object.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

from leveret_spark.option_errors import OptionError
from leveret_spark.options import PREFETCH_MAX, Broker, Given
from leveret_spark.streams.offset_commits import OffsetCommits, commits_of
from leveret_spark.streams.stream_names import StreamNames, names_of

Boundary = str | int | datetime
"""`earliest`, `latest`, an offset, or the time from which on messages count."""

KAFKA_NUMBERS = {-2: "earliest", -1: "latest"}
"""Numbers of Spark's source for Kafka for `earliest` and `latest` in JSON."""

WORDS = ("earliest", "latest")
MILLISECONDS_MAX = 253_402_300_799_999
PREFETCH = 2000
OFFSETS_MAX = (1 << 63) - 1
BYTES_MAX = 1 << 50
DELAY = "15m"
UNITS = {"ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
INTERVAL = re.compile(r"(\d{1,12})\s*(ms|s|m|min|h|d)")


class Boundaries(NamedTuple):
    """The begin or the end: the same in all streams, or one for each.

    `without`: the boundary of a stream that has no message at the time or later; None: an error.
    """

    option: str
    all: Boundary | None
    each: Mapping[str, Boundary]
    without: str | None

    def of(self, queues: tuple[str, ...]) -> dict[str, Boundary]:
        """Return the boundary of each stream. Raises OptionError where the streams are not those that have one."""
        if self.all is not None:
            return dict.fromkeys(queues, self.all)
        if self.each.keys() != set(queues):
            example = queues[0] if queues else "clicks"
            raise OptionError(
                f'option {self.option} is JSON such as {{"{example}": 0}} with every stream, and no other'
            )
        return dict(self.each)


@dataclass(frozen=True)
class StreamFilter:
    """Filter values of messages to read; `unfiltered`: those without a value, too."""

    values: tuple[str, ...]
    unfiltered: bool


@dataclass(frozen=True)
class StreamReading:
    """Streams to read, their boundaries, and limits of a batch."""

    names: StreamNames
    starts: Boundaries
    ends: Boundaries
    max_messages: int | None
    max_bytes: int | None
    min_messages: int
    delay_seconds: float
    partitions: int | None
    part_messages: int | None
    filter: StreamFilter | None
    prefetch: int
    wait_seconds: float
    fails_on_loss: bool
    commits: OffsetCommits | None


def stream_reading_of(options: Mapping[str, str], broker: Broker, *, batch: bool) -> StreamReading:
    """Read the options of streams; `batch` for a table, which has an end. Raises OptionError."""
    given = Given(options)
    names = names_of(given, broker)
    starts = _boundaries(given, "starting", "earliest" if batch else "latest")
    ends = _boundaries(given, "ending", "latest")
    if batch:
        _refuse_word(starts, "latest", "which is for streaming queries: a table would be empty")
        _refuse_word(ends, "earliest", "before which there is nothing")
    for boundaries in (starts, ends):
        if names.fixed:
            boundaries.of(names.fixed)
    most, least = _limit(given, "maxMessagesPerBatch", OFFSETS_MAX), _limit(given, "minOffsetsPerTrigger", OFFSETS_MAX)
    if most and least and least > most:
        name = given.said("maxMessagesPerBatch")
        raise OptionError(f"option minOffsetsPerTrigger is at most {name}, which is {most}, not {least}")
    return StreamReading(
        names=names,
        starts=starts,
        ends=ends,
        max_messages=most,
        max_bytes=_limit(given, "maxBytesPerBatch", BYTES_MAX),
        min_messages=least or 0,
        delay_seconds=_seconds(given, "maxTriggerDelay", DELAY),
        partitions=_limit(given, "partitions", 10_000),
        part_messages=_limit(given, "maxRecordsPerPartition", OFFSETS_MAX),
        filter=_filter(given),
        prefetch=given.number("prefetch", PREFETCH, 2, PREFETCH_MAX),
        wait_seconds=given.number("batchWaitMilliseconds", 200, 0, 3_600_000) / 1000,
        fails_on_loss=given.flag("failOnDataLoss", True),
        commits=commits_of(given, broker),
    )


def _limit(given: Given, name: str, most: int) -> int | None:
    return given.number(name, 0, 1, most) if given.has(name) else None


def _seconds(given: Given, name: str, default: str) -> float:
    text = (given.text(name) or default).strip().lower()
    found = INTERVAL.fullmatch(text)
    if found is None:
        raise OptionError(f"option {name} is a time such as 15m, 30s or 500ms, not {text!r}")
    return int(found[1]) * UNITS[found[2]]


def _filter(given: Given) -> StreamFilter | None:
    unfiltered = given.flag("streamFilterUnfiltered", False)
    if not given.has("streamFilter"):
        if given.has("streamFilterUnfiltered"):
            raise OptionError("option streamFilterUnfiltered goes with streamFilter")
        return None
    values = tuple(filter(None, (value.strip() for value in (given.text("streamFilter") or "").split(","))))
    if not values:
        raise OptionError("option streamFilter has filter values, separated by commas")
    return StreamFilter(values, unfiltered)


def _boundaries(given: Given, which: str, default: str) -> Boundaries:
    """The boundaries of one of `...Offsets`, `...Timestamp`, and `...OffsetsByTimestamp`."""
    offsets, timestamp, by_timestamp = f"{which}Offsets", f"{which}Timestamp", f"{which}OffsetsByTimestamp"
    said = [name for name in (offsets, timestamp, by_timestamp) if given.has(name)]
    if len(said) > 1:
        raise OptionError(f"options {said[0]} and {said[1]} exclude each other")
    without = _without(given, which, said)
    if given.has(timestamp):
        moment = _moment(given.number(timestamp, 0, 0, MILLISECONDS_MAX))
        return Boundaries(timestamp, moment, {}, without)
    if given.has(by_timestamp):
        times = _object(by_timestamp, given.text(by_timestamp) or "", '{"clicks": 1764357483000}')
        return Boundaries(by_timestamp, None, {queue: _time(by_timestamp, at) for queue, at in times.items()}, without)
    text = given.text(offsets) or default
    if text.lower() in WORDS:
        return Boundaries(offsets, text.lower(), {}, "latest")
    each = _object(offsets, text, '{"clicks": 0}')
    return Boundaries(offsets, None, {queue: _boundary(offsets, value) for queue, value in each.items()}, "latest")


def _without(given: Given, which: str, said: list[str]) -> str | None:
    """The boundary where a stream has no message at the time or later: Kafka's strategy at the start, else the end."""
    strategy = "startingOffsetsByTimestampStrategy"
    if which == "ending":
        return "latest"
    if given.has(strategy) and (not said or said[0] == "startingOffsets"):
        raise OptionError(f"option {strategy} goes with startingTimestamp or startingOffsetsByTimestamp")
    return None if given.choice(strategy, "error", ("error", "latest")) == "error" else "latest"


def _moment(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds // 1000, UTC)


def _time(name: str, value: Any) -> datetime:
    if type(value) is not int or not 0 <= value <= MILLISECONDS_MAX:
        raise OptionError(f"option {name} has milliseconds since 1970 for each stream, not {value!r}")
    return _moment(value)


def _object(name: str, text: str, example: str) -> dict[str, Any]:
    """Parse a JSON object with a value for each stream; one of Kafka's with the partition 0 of each, too."""
    try:
        values = json.loads(text)
    except ValueError:
        values = None
    if not isinstance(values, dict):
        words = "earliest, latest, or " if name.endswith("Offsets") else ""
        raise OptionError(f"option {name} is {words}JSON such as {example} with every stream")
    return {queue: value["0"] if isinstance(value, dict) and value.keys() == {"0"} else value
            for queue, value in values.items()}  # fmt: skip


def _boundary(name: str, value: Any) -> Boundary:
    value = KAFKA_NUMBERS.get(value, value) if isinstance(value, int) else value
    if value in WORDS or (type(value) is int and 0 <= value <= OFFSETS_MAX):
        found: Boundary = value
        return found
    raise OptionError(f"option {name} has an offset, earliest or latest for each stream, not {value!r}")


def _refuse_word(boundaries: Boundaries, word: str, why: str) -> None:
    if word in (boundaries.all, *boundaries.each.values()):
        raise OptionError(f"option {boundaries.option} is {word}, {why}")
