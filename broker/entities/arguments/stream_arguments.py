"""Arguments of streams: of a declaration how long it may become, of basic.consume where to begin.

Reply texts are RabbitMQ 3.10's. Where that version crashes over a value (541), the text is what it says of others.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from broker.wire.amqp_errors import precondition_failed
from broker.wire.field_tables import INTEGER_KINDS, TYPE_NAMES, Field, Table, plain_value

SEGMENT_BYTES = 500_000_000
"""A segment's size where the declaration names none; RabbitMQ's own default."""

SEGMENT_BYTES_MAX = 3_000_000_000
"""No segment may be larger; RabbitMQ's own bound."""

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
    """How much of a stream is kept. None: no limit."""

    max_age_milliseconds: int | None
    max_bytes: int | None
    segment_bytes: int


def parse(declared: Table, policies: Mapping[str, Any]) -> StreamArguments:
    """What arguments of queue.declare and what policies say, both checked. Of streams, policies win."""
    said = {name.removeprefix("x-"): plain_value(field) for name, field in declared.items()} | dict(policies)
    age = said.get("max-age")
    return StreamArguments(
        None if age is None else _milliseconds(age),
        said.get("max-length-bytes"),
        said.get("stream-max-segment-size-bytes", SEGMENT_BYTES),
    )


def interval_milliseconds(field: Field) -> int | None:
    """How long an interval such as `12h` is; None for what is none."""
    return _milliseconds(plain_value(field)) if field.kind == "S" else None


def _milliseconds(text: str) -> int | None:
    found = _INTERVAL.fullmatch(text)
    length = 0 if found is None else int(found[1]) * _UNITS_SECONDS[found[2]] * 1000
    return length or None


class Start(NamedTuple):
    """Where a consumer begins: at `first`, `last` or `next`, at an offset, at a time, or so long ago.

    `value` is the offset, the time in milliseconds since the epoch, or the milliseconds that have passed since.
    """

    kind: str
    value: int = 0


def start(arguments: Table, where: str) -> Start:
    """Where `x-stream-offset` of basic.consume says to begin. `where` names the queue in a reply text.

    Raises ChannelException 406 for what says nothing.
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
    """The filter values a consumer asks for, and whether it takes messages without one as well."""

    values: frozenset[bytes]
    unfiltered: bool


def stream_filter(arguments: Table) -> StreamFilter | None:
    """What `x-stream-filter` of basic.consume asks for: a string or several; None where it asks for nothing."""
    field = arguments.get("x-stream-filter")
    if field is None or field.kind not in ("S", "A"):
        return None
    values = [field] if field.kind == "S" else field.value
    unfiltered = arguments.get("x-stream-match-unfiltered")
    also = unfiltered is not None and unfiltered.value is True
    return StreamFilter(frozenset(value.value for value in values if value.kind == "S"), also)


def _term(field: Field) -> str:
    """A value with its type, as Erlang writes them; of what is no text only the type."""
    kind = TYPE_NAMES[field.kind]
    if field.kind != "S":
        return kind
    return f'{{{kind},<<"{plain_value(field)}">>}}'
