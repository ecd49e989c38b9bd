"""Arguments of streams: retention in a declaration; offset and filter in basic.consume.

Reply texts are RabbitMQ 3.10's. Values on which that version crashes (541) get the text of other invalid values.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from broker.wire.amqp_errors import precondition_failed
from broker.wire.field_tables import INTEGER_KINDS, TYPE_NAMES, Field, Table, plain_value
from broker.wire.frames import render_octets

SEGMENT_BYTES = 500_000_000
"""Default segment size, as in RabbitMQ."""

SEGMENT_BYTES_MAX = 3_000_000_000
"""Largest segment size, as in RabbitMQ."""

_UNITS_SECONDS = {
    "Y": 365 * 86_400,
    "M": 30 * 86_400,
    "D": 86_400,
    "h": 3_600,
    "m": 60,
    "s": 1,
}
_INTERVAL = re.compile(r"(\d{1,12})([YMDhms])")


class StreamArguments(NamedTuple):
    """Retention of a stream. None: no limit."""

    max_age_milliseconds: int | None
    max_bytes: int | None
    segment_bytes: int


def parse(declared: Table, policies: Mapping[str, Any]) -> StreamArguments:
    """Return the retention from validated arguments of queue.declare and policies. For streams, policies win."""
    said = {name.removeprefix("x-"): plain_value(field) for name, field in declared.items()} | dict(policies)
    age = said.get("max-age")
    return StreamArguments(
        None if age is None else _milliseconds(age),
        said.get("max-length-bytes"),
        said.get("stream-max-segment-size-bytes", SEGMENT_BYTES),
    )


def interval_milliseconds(field: Field) -> int | None:
    """Return an interval such as `12h` in milliseconds; None if it is invalid."""
    return _milliseconds(plain_value(field)) if field.kind == "S" else None


def _milliseconds(text: str) -> int | None:
    found = _INTERVAL.fullmatch(text)
    length = 0 if found is None else int(found[1]) * _UNITS_SECONDS[found[2]] * 1000
    return length or None


class Start(NamedTuple):
    """The start of a consumer. `kind`: first, last, next, offset, time, or ago.

    `value`: the offset; the time in milliseconds since the epoch; for `ago` the milliseconds before now.
    """

    kind: str
    value: int = 0


def start(arguments: Table, where: str) -> Start:
    """Return the start that `x-stream-offset` of basic.consume names. `where` names the queue in a reply text.

    Raises ChannelException 406 for an invalid value.
    """
    field = arguments.get("x-stream-offset")
    if field is None:
        return Start("next")
    if field.kind in INTEGER_KINDS:
        return Start("offset", int(field.value))
    if field.kind == "T":
        return Start("time", int(field.value) * 1000)
    if field.kind == "S" and field.value in (b"first", b"last", b"next"):
        return Start(field.value.decode())
    ago = interval_milliseconds(field)
    if ago is not None:
        return Start("ago", ago)
    text = f"invalid arg 'x-stream-offset' {where}: {{invalid_stream_offset_arg,{_term(field)}}}"
    raise precondition_failed(text)


class StreamFilter(NamedTuple):
    """A consumer's filter values; `unfiltered`: it accepts messages without a filter value too."""

    values: frozenset[bytes]
    unfiltered: bool


def stream_filter(arguments: Table) -> StreamFilter | None:
    """Return the filter that `x-stream-filter` of basic.consume names, a string or several; None without one."""
    field = arguments.get("x-stream-filter")
    if field is None or field.kind not in ("S", "A"):
        return None
    values = [field] if field.kind == "S" else field.value
    unfiltered = arguments.get("x-stream-match-unfiltered")
    also = unfiltered is not None and unfiltered.value is True
    return StreamFilter(frozenset(value.value for value in values if value.kind == "S"), also)


def _term(field: Field) -> str:
    """Return a value with its type as Erlang prints it; only the type if it is not a string."""
    kind = TYPE_NAMES[field.kind]
    if field.kind != "S":
        return kind
    return f"{{{kind},{render_octets(bytes(field.value))}}}"
