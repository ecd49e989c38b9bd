"""Segments of Leveret's event log, read into events: docs/pipeline.md describes both.

A record in a segment stands for one event or for a run of them. Here each event becomes an `Event` of its own.
"""

from __future__ import annotations

import json
import re
import struct
import zlib
from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import Any, NamedTuple

import msgspec

MARK = b"leveret-events\n\x00"
VERSION = 1

OFFSETS_END = 1 << 40
"""Positions below it are offsets of a stream, which say nothing of the message's number."""

_VERSION = struct.Struct(">H")
_HEAD = struct.Struct(">IIQI")
_CHECKED = struct.Struct(">QI")
_NAME = re.compile(
    r"(?P<node>[A-Za-z0-9._@-]{1,100})-(?P<boot>[0-9]{8})-(?P<first>[0-9]{16})-(?P<last>[0-9]{16})\.events"
)
"""Never a path, because such names come from elsewhere, and files are named after them."""


class SegmentError(ValueError):
    """A file is no segment, one of an unknown version, or damaged; the message says which."""


class SegmentName(NamedTuple):
    """What a sealed segment's name says: the events from `first` to `last` of one boot of a node."""

    node: str
    boot: int
    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.node}-{self.boot:08}-{self.first:016}-{self.last:016}.events"


class Event(NamedTuple):
    """One event. (node, boot, seq) is its identity; what does not apply is None.

    `ts_us` is microseconds since the epoch. `msg_id` is the number a message got when it was published, `position`
    its place in the queue: the same number, save where a route names two. `persistent` says of a publish what its
    publisher asked for, of a route whether the message outlasts a restart in that queue. `detail` is JSON, for what
    concerns no single message.
    """

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


def parse_name(name: str) -> SegmentName | None:
    """What a file's name says of a sealed segment; None for a name of something else."""
    found = _NAME.fullmatch(name)
    return found and SegmentName(found["node"], int(found["boot"]), int(found["first"]), int(found["last"]))


def read_segment(name: SegmentName, data: bytes) -> Iterator[Event]:
    """The events of a sealed segment, ascending. Missing numbers are events that were lost.

    Raises SegmentError.
    """
    for columns in read_columns(name, data):
        yield from map(Event._make, zip(*columns, strict=True))


def read_columns(name: SegmentName, data: bytes) -> Iterator[list[list[Any]]]:
    """The same by columns, in the order of Event's fields: a block at a time, some thousand events.

    Raises SegmentError.
    """
    decode = msgspec.msgpack.Decoder().decode
    for first, events, payload in _blocks(data):
        columns: list[list[Any]] = [[] for _ in Event._fields]
        for kind, ts_us, *values in decode(zlib.decompress(payload)):
            text, expand = _KINDS[kind]
            found = expand(*values)
            count = max([len(value) for value in found.values() if type(value) is list], default=1)
            found |= {"ts_us": ts_us, "kind": text}
            for column, field in zip(columns, Event._fields, strict=True):
                value = found.get(field)
                if type(value) is list:
                    column += value
                else:
                    column += (value,) * count
        columns[0], columns[1] = [name.node] * events, [name.boot] * events
        columns[2] = list(range(first, first + events))
        yield columns


def _blocks(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    if not data.startswith(MARK) or len(data) < len(MARK) + _VERSION.size:
        raise SegmentError("not a segment of an event log")
    (version,) = _VERSION.unpack_from(data, len(MARK))
    if version != VERSION:
        raise SegmentError(f"a segment of format version {version}; this release reads version {VERSION}")
    at = len(MARK) + _VERSION.size
    while at < len(data):
        if at + _HEAD.size > len(data):
            raise SegmentError(f"cut short at byte {at}")
        size, checksum, first, events = _HEAD.unpack_from(data, at)
        payload = data[at + _HEAD.size : at + _HEAD.size + size]
        if len(payload) < size or zlib.crc32(payload, zlib.crc32(_CHECKED.pack(first, events))) != checksum:
            raise SegmentError(f"damaged at byte {at}")
        yield first, events, payload
        at += _HEAD.size + size


# From records to fields of events, by kind: a list has one value for each event, whatever else holds for all of them

Fields = dict[str, Any]


def _boot(node: bytes, before: int, logged: int, known: int) -> Fields:
    detail = {"node": _text(node), "previous_boot": before, "previous_last": logged, "previous_known": known}
    return {"detail": json.dumps(detail)}


def _stop(complete: int) -> Fields:
    return {"detail": json.dumps({"complete": bool(complete)})}


def _snapshot() -> Fields:
    return {}


def _declare(vhost: bytes, queue: bytes, kind: str, durable: int, levels: int) -> Fields:
    detail = json.dumps({"type": kind, "durable": bool(durable), "max_priority": levels})
    return {"vhost": _text(vhost), "queue": _text(queue), "detail": detail}


def _publish(
    vhost: bytes, connection: bytes, channel: int, first: int, route: bytes, persistent: int, sizes: list[int]
) -> Fields:
    key_at = 1 + route[0]
    return {
        **_by(vhost, connection, channel),
        "exchange": _text(route[1:key_at]),
        "routing_key": _text(route[key_at + 1 :]),
        "persistent": bool(persistent),
        "msg_id": list(range(first, first + len(sizes))),
        "size_bytes": sizes,
    }


def _numbers(vhost: bytes, connection: bytes, channel: int, runs: list[int]) -> Fields:
    numbers: list[int] = []
    for first, count in zip(runs[::2], runs[1::2], strict=True):
        numbers += range(first, first + count)
    return {**_by(vhost, connection, channel), "msg_id": numbers}


def _route(vhost: bytes, queue: bytes, number: int, position: int, count: int, kept: int) -> Fields:
    return {
        "vhost": _text(vhost),
        "queue": _text(queue),
        "msg_id": list(range(number, number + count)),
        "position": list(range(position, position + count)),
        "persistent": bool(kept),
    }


def _deliver(
    vhost: bytes,
    queue: bytes,
    positions: list[int],
    connection: bytes,
    channel: int,
    consumer_tag: bytes,
    first_tag: int,
    redelivered: int | list[bool],
) -> Fields:
    return {
        **_settled(vhost, queue, positions),
        "connection": _text(connection),
        "channel": channel,
        "consumer_tag": _text(consumer_tag),
        "delivery_tag": list(range(first_tag, first_tag + len(positions))),
        "redelivered": redelivered if isinstance(redelivered, list) else bool(redelivered),
    }


def _settled(vhost: bytes, queue: bytes, positions: list[int]) -> Fields:
    offsets = positions[0] < OFFSETS_END
    return {
        "vhost": _text(vhost),
        "queue": _text(queue),
        "msg_id": None if offsets else positions,
        "position": positions,
    }


def _queued(vhost: bytes, queue: bytes, steps: list[int]) -> Fields:
    return _settled(vhost, queue, list(accumulate(steps)))


def _acked(vhost: bytes, queue: bytes, positions: list[int], automatic: int) -> Fields:
    return {**_settled(vhost, queue, positions), "reason": "automatic" if automatic else None}


def _requeued(vhost: bytes, queue: bytes, positions: list[int], abandoned: int) -> Fields:
    return {**_settled(vhost, queue, positions), "reason": "abandoned" if abandoned else None}


def _died(vhost: bytes, queue: bytes, positions: list[int], reason: str) -> Fields:
    return {**_settled(vhost, queue, positions), "reason": reason}


def _dead_letter(vhost: bytes, queue: bytes, positions: list[int], reason: str, exchange: bytes) -> Fields:
    return {**_died(vhost, queue, positions, reason), "exchange": _text(exchange)}


def _purge(vhost: bytes, queue: bytes, below: int, kept: list[int]) -> Fields:
    return {"vhost": _text(vhost), "queue": _text(queue), "detail": json.dumps({"below": below, "kept": kept})}


def _delete(vhost: bytes, queue: bytes, below: int) -> Fields:
    return _purge(vhost, queue, below, [])


def _by(vhost: bytes, connection: bytes, channel: int) -> Fields:
    return {"vhost": _text(vhost), "connection": _text(connection), "channel": channel}


def _text(name: bytes) -> str:
    return name.decode("utf-8", "replace")


_KINDS: dict[int, tuple[str, Callable[..., Fields]]] = {
    1: ("boot", _boot),
    2: ("stop", _stop),
    3: ("queued", _queued),
    4: ("snapshot", _snapshot),
    5: ("declare", _declare),
    10: ("publish", _publish),
    11: ("route", _route),
    12: ("confirm", _numbers),
    13: ("nack", _numbers),
    14: ("return", _numbers),
    20: ("deliver", _deliver),
    21: ("ack", _acked),
    22: ("reject", _died),
    23: ("requeue", _requeued),
    24: ("expire", _died),
    25: ("drop", _died),
    26: ("deadletter", _dead_letter),
    27: ("release", _settled),
    28: ("purge", _purge),
    29: ("delete", _delete),
}

KINDS: tuple[Any, ...] = tuple(text for text, _expand in _KINDS.values())
"""All kinds of events."""
