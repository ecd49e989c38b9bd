"""Segments of Leveret's event log, read into events: docs/pipeline.md describes both.

A record in a segment stands for one event or for a run of them. Here each event becomes an `Event` of its own.
"""

from __future__ import annotations

import json
import re
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
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
_NAME = re.compile(r"(?P<node>.+)-(?P<boot>\d{8})-(?P<first>\d{16})-(?P<last>\d{16})\.events")


class SegmentError(ValueError):
    """A file is no segment, one of an unknown version, or damaged; the message says which."""


class SegmentName(NamedTuple):
    """What a sealed segment's name says: the events from `first` to `last` of one boot of a node."""

    node: str
    boot: int
    first: int
    last: int


class Event(NamedTuple):
    """One event. (node, boot, seq) is its identity; what does not apply is None.

    `ts_us` is microseconds since the epoch. `msg_id` is the number a message got when it was published, `position`
    its place in the queue: the same number, save where a route names two. `detail` is JSON, for what concerns no
    single message.
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
    decode = msgspec.msgpack.Decoder().decode
    for first, payload in _blocks(data):
        base, seq = Event(name.node, name.boot, 0, 0, ""), first
        for kind, ts_us, *values in decode(zlib.decompress(payload)):
            text, expand = _KINDS[kind]
            for event in expand(base._replace(ts_us=ts_us, kind=text), *values):
                yield event._replace(seq=seq)
                seq += 1


def _blocks(data: bytes) -> Iterator[tuple[int, bytes]]:
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
        yield first, payload
        at += _HEAD.size + size


# From records to events, by kind


def _boot(base: Event, node: bytes, before: int, logged: int, known: int) -> Iterator[Event]:
    detail = {"node": _text(node), "previous_boot": before, "previous_last": logged, "previous_known": known}
    yield base._replace(detail=json.dumps(detail))


def _stop(base: Event, complete: int) -> Iterator[Event]:
    yield base._replace(detail=json.dumps({"complete": bool(complete)}))


def _snapshot(base: Event) -> Iterator[Event]:
    yield base


def _publish(
    base: Event,
    vhost: bytes,
    connection: bytes,
    channel: int,
    first: int,
    route: bytes,
    persistent: int,
    sizes: list[int],
) -> Iterator[Event]:
    key_at = 1 + route[0]
    base = _by(base, vhost, connection, channel)._replace(
        exchange=_text(route[1:key_at]), routing_key=_text(route[key_at + 1 :]), persistent=bool(persistent)
    )
    for number, size in enumerate(sizes, first):
        yield base._replace(msg_id=number, size_bytes=size)


def _numbers(base: Event, vhost: bytes, connection: bytes, channel: int, runs: list[int]) -> Iterator[Event]:
    base = _by(base, vhost, connection, channel)
    for first, count in zip(runs[::2], runs[1::2], strict=True):
        for number in range(first, first + count):
            yield base._replace(msg_id=number)


def _route(base: Event, vhost: bytes, queue: bytes, number: int, position: int, count: int) -> Iterator[Event]:
    base = base._replace(vhost=_text(vhost), queue=_text(queue))
    for offset in range(count):
        yield base._replace(msg_id=number + offset, position=position + offset)


def _deliver(
    base: Event,
    vhost: bytes,
    queue: bytes,
    positions: list[int],
    connection: bytes,
    channel: int,
    consumer_tag: bytes,
    first_tag: int,
    redelivered: int | list[bool],
) -> Iterator[Event]:
    again = [bool(redelivered)] * len(positions) if isinstance(redelivered, int) else redelivered
    base = base._replace(connection=_text(connection), channel=channel, consumer_tag=_text(consumer_tag))
    for tag, event in enumerate(_settled(base, vhost, queue, positions), first_tag):
        yield event._replace(delivery_tag=tag, redelivered=again[tag - first_tag])


def _settled(base: Event, vhost: bytes, queue: bytes, positions: Sequence[int]) -> Iterator[Event]:
    base = base._replace(vhost=_text(vhost), queue=_text(queue))
    for position in positions:
        yield base._replace(msg_id=None if position < OFFSETS_END else position, position=position)


def _queued(base: Event, vhost: bytes, queue: bytes, steps: list[int]) -> Iterator[Event]:
    return _settled(base, vhost, queue, list(accumulate(steps)))


def _acked(base: Event, vhost: bytes, queue: bytes, positions: list[int], automatic: int) -> Iterator[Event]:
    return _settled(base._replace(reason="automatic" if automatic else None), vhost, queue, positions)


def _requeued(base: Event, vhost: bytes, queue: bytes, positions: list[int], abandoned: int) -> Iterator[Event]:
    return _settled(base._replace(reason="abandoned" if abandoned else None), vhost, queue, positions)


def _died(base: Event, vhost: bytes, queue: bytes, positions: list[int], reason: str) -> Iterator[Event]:
    return _settled(base._replace(reason=reason), vhost, queue, positions)


def _dead_letter(
    base: Event, vhost: bytes, queue: bytes, positions: list[int], reason: str, exchange: bytes
) -> Iterator[Event]:
    return _settled(base._replace(reason=reason, exchange=_text(exchange)), vhost, queue, positions)


def _purge(base: Event, vhost: bytes, queue: bytes, below: int, kept: list[int]) -> Iterator[Event]:
    detail = json.dumps({"below": below, "kept": kept})
    yield base._replace(vhost=_text(vhost), queue=_text(queue), detail=detail)


def _delete(base: Event, vhost: bytes, queue: bytes, below: int) -> Iterator[Event]:
    return _purge(base, vhost, queue, below, [])


def _by(base: Event, vhost: bytes, connection: bytes, channel: int) -> Event:
    return base._replace(vhost=_text(vhost), connection=_text(connection), channel=channel)


def _text(name: bytes) -> str:
    return name.decode("utf-8", "replace")


_KINDS: dict[int, tuple[str, Callable[..., Iterator[Event]]]] = {
    1: ("boot", _boot),
    2: ("stop", _stop),
    3: ("queued", _queued),
    4: ("snapshot", _snapshot),
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
