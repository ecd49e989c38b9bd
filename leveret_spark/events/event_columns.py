"""Decoding of an event segment into Arrow columns: a record is a run of events, and all runs are expanded at once.

Text is dictionary-encoded here, so that a name is decoded once for each block of some hundred thousand events;
`record_batches` has plain strings.
"""

from __future__ import annotations

import json
import sys
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from leveret_events.segment_blocks import MARK, OFFSETS_END, DamageError, blocks, is_foreign, is_owned
from leveret_events.segment_names import SegmentName

SCHEMA = pa.schema(
    [
        pa.field("node", pa.string(), nullable=False),
        pa.field("boot", pa.int32(), nullable=False),
        pa.field("seq", pa.int64(), nullable=False),
        pa.field("ts", pa.timestamp("us", "UTC"), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("vhost", pa.string()),
        pa.field("exchange", pa.string()),
        pa.field("routing_key", pa.string()),
        pa.field("queue", pa.string()),
        pa.field("connection", pa.string()),
        pa.field("channel", pa.int32()),
        pa.field("consumer_tag", pa.string()),
        pa.field("delivery_tag", pa.int64()),
        pa.field("msg_id", pa.int64()),
        pa.field("position", pa.int64()),
        pa.field("size_bytes", pa.int32()),
        pa.field("redelivered", pa.bool_()),
        pa.field("persistent", pa.bool_()),
        pa.field("reason", pa.string()),
        pa.field("detail", pa.string()),
        pa.field("properties", pa.string()),
    ]
)
"""The table of events. (node, boot, seq) identifies an event; columns that do not apply are null.

`msg_id` is the number that a message got when it was published, `position` its place in the queue: the same number,
unless a route names two. `persistent` of a publish is the publisher's choice, of a route whether the message survives
a restart in that queue. A publish of a dead letter has the queue and the position at which its message died. `detail`
is JSON: details of events without a message, and the number of queues that a publish or a dead letter is routed to.
`properties` is JSON too: those of a publish that the broker is set to record.
"""
COLUMNS = tuple(SCHEMA.names)
BATCH_EVENTS = 1 << 18

KINDS = {
    1: "boot",
    2: "stop",
    3: "queued",
    4: "snapshot",
    5: "declare",
    6: "bind",
    7: "unbind",
    8: "loss",
    9: "policy",
    10: "publish",
    11: "route",
    12: "confirm",
    13: "nack",
    14: "return",
    20: "deliver",
    21: "ack",
    22: "reject",
    23: "requeue",
    24: "expire",
    25: "drop",
    26: "deadletter",
    27: "release",
    28: "purge",
    29: "delete",
}
"""Kinds of events, by their numbers in records."""

UNKNOWN = 0
"""Number that replaces a kind of a later release."""
NONE, LISTED = -1, -2
"""First number of a run whose events have none, and of a run with listed numbers that are not consecutive."""

_TEXTS = ("vhost", "exchange", "routing_key", "queue", "connection", "consumer_tag", "reason", "detail")


class LabelledRun(NamedTuple):
    """Recorded properties: `at` is the number of the first publish among all; names; values, message by message."""

    at: int
    names: Sequence[bytes]
    values: Sequence[bytes | None]


class Run(NamedTuple):
    """Events of one record that differ in consecutive or listed numbers alone."""

    kind: int
    ts: int
    events: int
    vhost: bytes | None = None
    queue: bytes | None = None
    exchange: bytes | None = None
    routing_key: bytes | None = None
    connection: bytes | None = None
    channel: int = NONE
    consumer_tag: bytes | None = None
    reason: str | None = None
    detail: str | None = None
    persistent: int = NONE
    redelivered: int = NONE
    delivery_tag: int = NONE
    msg_id: int = NONE
    position: int = NONE


class Event(NamedTuple):
    """One event, for tests and tools: a row of SCHEMA with its time as a number."""

    node: str
    boot: int
    seq: int
    ts_us: int
    kind: str
    vhost: str | None = None
    exchange: str | None = None
    routing_key: str | None = None
    queue: str | None = None
    connection: str | None = None
    channel: int | None = None
    consumer_tag: str | None = None
    delivery_tag: int | None = None
    msg_id: int | None = None
    position: int | None = None
    size_bytes: int | None = None
    redelivered: bool | None = None
    persistent: bool | None = None
    reason: str | None = None
    detail: str | None = None
    properties: str | None = None


def record_batches(name: SegmentName, data: bytes, schema: pa.Schema = SCHEMA) -> Iterator[pa.RecordBatch]:
    """The events of a sealed segment, ascending; missing numbers are events that were lost. Raises SegmentError.

    `schema` has some of the fields of SCHEMA.
    """
    for batch in encoded_batches(name, data, schema.names):
        arrays = [
            column.dictionary_decode() if pa.types.is_dictionary(column.type) else column for column in batch.columns
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def read_segment(name: SegmentName, data: bytes) -> Iterator[Event]:
    """Decode the records one by one."""
    for batch in record_batches(name, data):
        times = batch.schema.get_field_index("ts")
        columns = [
            (each.cast(pa.int64()) if at == times else each).to_pylist() for at, each in enumerate(batch.columns)
        ]
        yield from map(Event._make, zip(*columns, strict=True))


def encoded_batches(
    name: SegmentName,
    data: bytes,
    columns: Sequence[str] = COLUMNS,
    damaged: list[int] | None = None,
    *,
    after: int = 0,
    until: int = sys.maxsize,
) -> Iterator[pa.RecordBatch]:
    """Decode columns of a segment's events, text dictionary-encoded.

    Blocks without an event in `after` < seq <= `until` are skipped after their checksum. Raises SegmentError, also for
    other contents than the name says. With `damaged`, offsets of damage are appended to it instead, and the events of
    damaged blocks are missing; all of a file that has taken another one's name.
    """
    if data.startswith(MARK) and (not is_owned(data, name.node, name.boot) or is_foreign(data, name.first, name.last)):
        _misnamed(name, damaged)
        return
    decode = msgspec.msgpack.Decoder(list[tuple[Any, ...]]).decode  # tuples take half of the time of lists
    gathered, last = _Runs(name), 0
    for block in blocks(data, damaged):
        if block.first <= last:  # twice, or in the place of another
            _misnamed(name, damaged)
            continue
        last = block.first + block.events - 1
        if block.first > until or block.first + block.events <= after + 1:
            continue
        gathered.begin(block.first, block.events)
        for kind, *values in decode(zlib.decompress(block.payload)):
            gathered.add[kind](*values)
        if gathered.events >= BATCH_EVENTS:
            yield gathered.batch(columns)
            gathered = _Runs(name)
    if gathered.events:
        yield gathered.batch(columns)
    if last < name.last:
        _misnamed(name, damaged)


def _misnamed(name: SegmentName, damaged: list[int] | None) -> None:
    """Note that a segment has other events than its name says. Raises DamageError if there is no list for damage."""
    if damaged is None:
        raise DamageError(f"it has other events than its name says, {name.first} to {name.last} of boot {name.boot}")
    damaged.append(0)


class _Runs:
    """The runs of some blocks."""

    def __init__(self, name: SegmentName) -> None:
        self.events = 0
        self._name = name
        self._blocks: list[tuple[int, int]] = []
        self._runs: list[tuple[Any, ...]] = []
        self._listed: list[int] = []
        """Positions, and message numbers where they are the same, of runs that are LISTED."""
        self._sizes: list[int] = []
        self._redelivered: list[bool] = []
        self._labels: list[LabelledRun] = []
        # Numbers of kinds as in docs/storage-format.md.
        known: dict[int, Callable[..., None]] = {
            1: self._boot,
            2: self._stop,
            3: self._queued,
            4: lambda ts, *_: self._runs.append(Run(4, ts, 1)),
            5: self._declare,
            6: self._bound(6),
            7: self._bound(7),
            8: self._loss,
            9: self._policy,
            10: self._publish,
            11: self._route,
            **{kind: self._numbers(kind) for kind in (12, 13, 14)},
            20: self._deliver,
            21: self._noted(21, "automatic"),
            23: self._noted(23, "abandoned"),
            **{kind: self._died(kind) for kind in (22, 24, 25, 26, 27)},
            28: self._purge,
            29: lambda ts, vhost, queue, below, *_: self._sweep(29, ts, vhost, queue, below, []),
        }
        self.add = defaultdict[int, Callable[..., None]](lambda: self._unknown, known)

    def begin(self, first: int, events: int) -> None:
        """The next records are of a block with these events."""
        self._blocks.append((first, events))
        self.events += events

    # Records, by kind; further values than these are of a later release

    def _unknown(self, ts: int, *_: Any) -> None:
        """A record of a kind that this release does not know."""
        self._runs.append(Run(UNKNOWN, ts, 1))

    def _boot(self, ts: int, node: bytes, before: int, logged: int, known: int, idle: int = 0, *_: Any) -> None:
        detail: dict[str, Any] = {"node": _text(node), "previous_boot": before}
        detail |= {"previous_last": logged, "previous_known": known, "idle_since": bool(idle)}
        self._runs.append(Run(1, ts, 1, detail=json.dumps(detail)))

    def _stop(self, ts: int, complete: int, *_: Any) -> None:
        self._runs.append(Run(2, ts, 1, detail=json.dumps({"complete": bool(complete)})))

    def _loss(self, ts: int, first: int, last: int, *_: Any) -> None:
        self._runs.append(Run(8, ts, 1, detail=json.dumps({"first_batch": first, "last_batch": last})))

    def _declare(
        self,
        ts: int,
        vhost: bytes,
        queue: bytes,
        kind: str,
        durable: int,
        levels: int,
        arguments: dict[str, Any] | None = None,
        policies: Sequence[bytes] = (),
        *_: Any,
    ) -> None:
        detail = {"type": kind, "durable": bool(durable), "max_priority": levels, **_in_force(arguments, policies)}
        self._runs.append(Run(5, ts, 1, vhost, queue, detail=json.dumps(detail)))

    def _policy(
        self, ts: int, vhost: bytes, queue: bytes, arguments: dict[str, Any], policies: Sequence[bytes], *_: Any
    ) -> None:
        self._runs.append(Run(9, ts, 1, vhost, queue, detail=json.dumps(_in_force(arguments, policies))))

    def _bound(self, kind: int) -> Callable[..., None]:
        def add(
            ts: int, vhost: bytes, source: bytes, to: bytes, to_exchange: int, key: bytes, type_: str, *_: Any
        ) -> None:
            detail = {"type": type_, **({"to": _text(to)} if to_exchange else {})}
            queue = None if to_exchange else to
            self._runs.append(Run(kind, ts, 1, vhost, queue, source, key, detail=json.dumps(detail)))

        return add

    def _publish(
        self,
        ts: int,
        vhost: bytes,
        connection: bytes,
        channel: int,
        first: int,
        route: bytes,
        persistent: int,
        sizes: list[int],
        queues: int = NONE,
        died_in: bytes | None = None,
        died_at: Sequence[int] = (),
        routed_before: int = 0,
        expires: int = 0,
        labels: Sequence[bytes] = (),
        labelled: Sequence[bytes | None] = (),
        *_: Any,
    ) -> None:
        if labels:
            self._labels.append(LabelledRun(len(self._sizes), labels, labelled))
        key_at = 1 + route[0]
        names = vhost, died_in, route[1:key_at], route[key_at + 1 :], connection
        # One run of publishes: names and flags are of all, sizes and positions of death are one for each.
        numbers = first, LISTED if died_at else NONE
        self._runs.append(
            (
                10,
                ts,
                len(sizes),
                *names,
                channel,
                None,
                None,
                _queues(queues, routed_before, expires),
                persistent,
                NONE,
                NONE,
                *numbers,
            )
        )
        self._sizes += sizes
        self._listed += died_at

    def _route(
        self, ts: int, vhost: bytes, queue: bytes, number: int, position: int, count: int, kept: int, *_: Any
    ) -> None:
        nothing = None, None, None, NONE, None, None, None
        self._runs.append((11, ts, count, vhost, queue, *nothing, kept, NONE, NONE, number, position))

    def _numbers(self, kind: int) -> Callable[..., None]:
        def add(ts: int, vhost: bytes, connection: bytes, channel: int, runs: list[int], *_: Any) -> None:
            for first, count in zip(runs[::2], runs[1::2], strict=True):
                names = vhost, None, None, None, connection
                self._runs.append((kind, ts, count, *names, channel, None, None, None, NONE, NONE, NONE, first, NONE))

        return add

    def _deliver(
        self,
        ts: int,
        vhost: bytes,
        queue: bytes,
        positions: list[int],
        connection: bytes,
        channel: int,
        consumer_tag: bytes,
        first_tag: int,
        redelivered: int | list[bool],
        *_: Any,
    ) -> None:
        if isinstance(redelivered, list):
            self._redelivered += redelivered
            redelivered = LISTED
        names = vhost, queue, None, None, connection, channel, consumer_tag
        numbers = redelivered, first_tag, LISTED if positions[0] >= OFFSETS_END else NONE, LISTED
        self._runs.append((20, ts, len(positions), *names, None, None, NONE, *numbers))
        self._listed += positions

    def _settled(
        self,
        kind: int,
        ts: int,
        vhost: bytes,
        queue: bytes,
        positions: list[int],
        reason: str | None = None,
        exchange: bytes | None = None,
        queues: int = NONE,
        *_: Any,
    ) -> None:
        names = vhost, queue, exchange, None, None, NONE, None, reason, _queues(queues)
        number = LISTED if positions[0] >= OFFSETS_END else NONE
        self._runs.append((kind, ts, len(positions), *names, NONE, NONE, NONE, number, LISTED))
        self._listed += positions

    def _queued(self, ts: int, vhost: bytes, queue: bytes, steps: list[int], *_: Any) -> None:
        self._settled(3, ts, vhost, queue, list(accumulate(steps)))

    def _noted(self, kind: int, reason: str) -> Callable[..., None]:
        def add(ts: int, vhost: bytes, queue: bytes, positions: list[int], noted: int, *_: Any) -> None:
            self._settled(kind, ts, vhost, queue, positions, reason if noted else None)

        return add

    def _died(self, kind: int) -> Callable[..., None]:
        return lambda ts, vhost, queue, positions, *rest: self._settled(kind, ts, vhost, queue, positions, *rest)

    def _purge(self, ts: int, vhost: bytes, queue: bytes, below: int, kept: list[int], *_: Any) -> None:
        self._sweep(28, ts, vhost, queue, below, kept)

    def _sweep(self, kind: int, ts: int, vhost: bytes, queue: bytes, below: int, kept: list[int]) -> None:
        detail = json.dumps({"below": below, "kept": kept})
        self._runs.append(Run(kind, ts, 1, vhost, queue, detail=detail))

    # Columns

    def batch(self, columns: Sequence[str]) -> pa.RecordBatch:
        """Some columns of all events."""
        made = _Expansion(self._name, self._blocks, self._runs, self._listed, self._sizes, self._redelivered)
        arrays = [made.labelled(self._labels) if name == "properties" else made.column(name) for name in columns]
        fields = [
            pa.field(name, each.type, SCHEMA.field(name).nullable) for name, each in zip(columns, arrays, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


class _Expansion:
    """Runs as columns of numbers, and each column of events from them."""

    def __init__(
        self,
        name: SegmentName,
        parts: list[tuple[int, int]],
        runs: list[tuple[Any, ...]],
        listed: list[int],
        sizes: list[int],
        redelivered: list[bool],
    ) -> None:
        self._name = name
        self._runs = dict(zip(Run._fields, zip(*runs, strict=True), strict=True))
        self._listed = listed
        self._sizes, self._redelivered = sizes, redelivered
        counts = np.array(self._runs["events"], np.int64)
        self._run_of = np.repeat(np.arange(len(counts)), counts)
        self._within = np.arange(len(self._run_of)) - np.repeat(np.cumsum(counts) - counts, counts)
        self._seq = np.concatenate([np.arange(first, first + events) for first, events in parts])

    def column(self, name: str) -> pa.Array:
        """The values of one column."""
        if name in _TEXTS:
            return self._text(name)
        size = len(self._seq)
        match name:
            case "node":
                return pa.DictionaryArray.from_arrays(pa.array(np.zeros(size, np.int32)), [self._name.node])
            case "boot":
                return pa.array(np.full(size, self._name.boot, np.int32))
            case "seq":
                return pa.array(self._seq)
            case "kind":
                codes = self._spread("kind", np.int8)
                return pa.DictionaryArray.from_arrays(pa.array(_KIND_PLACES[codes]), pa.array(KINDS.values()))
            case "ts":
                return pa.array(self._spread("ts", np.int64)).view(pa.timestamp("us", "UTC"))
            case "channel":
                return _nullable(self._spread(name, np.int32))
            case "msg_id" | "position" | "delivery_tag":
                return _nullable(self._numbers(name))
            case "size_bytes":
                values = np.full(size, NONE, np.int32)
                values[self._spread("kind", np.int8) == 10] = self._sizes
                return _nullable(values)
            case "persistent":
                return _flag(self._spread(name, np.int8))
        # `redelivered` is one value for a run of deliveries, or LISTED: one for each.
        values = self._spread(name, np.int8)
        values[values == LISTED] = self._redelivered
        return _flag(values)

    def labelled(self, labels: Sequence[LabelledRun]) -> pa.DictionaryArray:
        """The properties of publishes, as JSON."""
        texts, places = list[str](), np.full(len(self._seq), NONE, np.int32)
        publishes = np.flatnonzero(self._spread("kind", np.int8) == 10)
        for at, names, values in labels:
            width = len(names)
            for number, begin in enumerate(range(0, len(values), width), at):
                pairs = zip(names, values[begin : begin + width], strict=True)
                if given := {str(_text(name)): _text(value) for name, value in pairs if value is not None}:
                    places[publishes[number]] = len(texts)
                    texts.append(json.dumps(given))
        return pa.DictionaryArray.from_arrays(pa.array(places, mask=places == NONE), pa.array(texts, pa.string()))

    def _spread(self, name: str, kind: Any) -> Any:
        return np.array(self._runs[name], kind)[self._run_of]

    def _numbers(self, name: str) -> Any:
        first = np.array(self._runs[name], np.int64)
        values = first[self._run_of]
        values += np.where(values >= 0, self._within, 0)
        if (first == LISTED).any():
            positions = np.array(self._runs["position"], np.int64)[self._run_of] == LISTED
            listed = np.zeros(len(values), np.int64)
            listed[positions] = self._listed
            values = np.where(values == LISTED, listed, values)
        return values

    def _text(self, name: str) -> pa.DictionaryArray:
        """An array of all names once, and which of them each event has."""
        values = self._runs[name]
        names = list(dict.fromkeys(values))
        codes = dict(zip(names, range(len(names)), strict=True))
        places = np.fromiter(map(codes.__getitem__, values), np.int32, len(values))[self._run_of]
        mask = places == codes[None] if None in codes else None
        return pa.DictionaryArray.from_arrays(pa.array(places, mask=mask), pa.array(map(_text, names), pa.string()))


_KIND_PLACES = np.zeros(max(KINDS) + 1, np.int32)
_KIND_PLACES[list(KINDS)] = range(len(KINDS))


def _nullable(values: Any) -> pa.Array:
    return pa.array(values, mask=values == NONE)


def _flag(values: Any) -> pa.Array:
    return pa.array(values == 1, mask=values == NONE)


def _queues(count: int, routed_before: int = 0, expires: int = 0) -> str | None:
    if routed_before or expires:
        marks = {name: True for name, given in (("transaction", routed_before), ("expires", expires)) if given}
        return json.dumps({"queues": count, **marks})
    return None if count == NONE else f'{{"queues": {count}}}'


def _in_force(arguments: dict[str, Any] | None, policies: Sequence[bytes]) -> dict[str, Any]:
    """Arguments in force and names of policies, as JSON has them; nothing of a release that did not record them."""
    if arguments is None:
        return {}
    told = {name: _text(value) if isinstance(value, bytes) else value for name, value in arguments.items()}
    named = dict(zip(("policy", "operator_policy"), map(_text, policies), strict=False))
    return {"arguments": told, **{name: policy for name, policy in named.items() if policy}}


def _text(name: bytes | str | None) -> str | None:
    """A name; bytes that are no UTF-8 keep their places as escapes, so that two names stay two."""
    return name.decode("utf-8", "backslashreplace") if isinstance(name, bytes) else name
