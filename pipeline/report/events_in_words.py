"""The history of a copy in words: a step for each event, for stops and kills in between, and for its end."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from pipeline.audit.reduction import SEQ_BITS
from pipeline.report.wording import name, size

Row = dict[str, Any]
SHOWN = 24
"""Steps that are shown; of more, the first and the last."""


class Step(NamedTuple):
    """One step, and its style: in, sure, out, end, broker, or wrong."""

    at: datetime | None
    look: str
    words: str


def steps(copy: Row, events: Sequence[Row], boots: Sequence[Row]) -> list[Step]:
    """Return all steps of a copy, a row of the table found. `events` are in their order."""
    mine = {boot["boot"]: boot for boot in boots if boot["node"] == copy["node"]}
    told, ended = list[Step](), False
    for before, event in zip([None, *events], events, strict=False):
        if before is not None:
            told += _ends(mine, before["moment"] >> SEQ_BITS, event["moment"] >> SEQ_BITS)
        look, words = WORDS.get(event["kind"], OTHER)
        twice = before is not None and before["kind"] == event["kind"] == "deliver"
        told.append(Step(event["ts"], "wrong" if (ended or twice) and copy["violations"] else look, words(event)))
        ended = ended or look == "end"
    if copy["absent"] is not None and copy["how"] is None:
        if events:
            told += _ends(mine, events[-1]["moment"] >> SEQ_BITS, copy["absent"] >> SEQ_BITS)
        told.append(_absent(copy["absent"], mine))
    elif copy["verdict"] == "lost":
        told.append(Step(None, "wrong", copy["evidence"]))
    if len(told) <= SHOWN:
        return told
    half, left = SHOWN // 2, len(told) - SHOWN
    return [*told[:half], Step(None, "broker", f"{left:,} more"), *told[-half:]]


def _ends(boots: dict[int, Row], first: int, last: int) -> Iterator[Step]:
    """Yield the ends of boots between an event of one and an event of another."""
    for number in range(first, last):
        boot = boots.get(number)
        if boot is None:
            yield Step(None, "broker", f"boot {number} has no log")
        else:
            yield Step(boot["last_ts"], "broker", f"broker {boot['end']} (boot {number}, last event {boot['last']:,})")


def _absent(moment: int, boots: dict[int, Row]) -> Step:
    number = moment >> SEQ_BITS
    boot = boots.get(number)
    stop = boot is not None and boot["stopped"] == moment
    what = f"absent: not among what the {'stop' if stop else 'start'} of boot {number} recorded"
    at = None if boot is None else boot["last_ts"] if stop else boot["first_ts"]
    return Step(at, "wrong", what)


def _publish(event: Row) -> str:
    by = "the broker itself" if not event["connection"] else f"connection {name(event['connection'])}"
    exchange = f"exchange '{name(event['exchange'])}'" if event["exchange"] else "the default exchange"
    route = f"published by {by} to {exchange} with key '{name(event['routing_key'])}'"
    return ", ".join([route, *about(event)])


def about(message: Row) -> list[str]:
    """Tell which message it is: its size, and the properties that the broker recorded."""
    told = [] if message["size_bytes"] is None else [size(message["size_bytes"])]
    return told + [f"{key} '{name(value)}'" for key, value in json.loads(message["properties"] or "{}").items()]


def _deliver(event: Row) -> str:
    to = f"consumer '{name(event['consumer_tag'])}'" if event["consumer_tag"] else "a basic.get"
    mark = "as redelivered" if event["redelivered"] else "as new"
    return f"delivered {mark} to {to} of {name(event['connection'])}, channel {event['channel']}"


def _with_reason(words: str) -> Any:
    return lambda event: words if event["reason"] is None else f"{words} ({event['reason']})"


WORDS: dict[str, tuple[str, Any]] = {
    "publish": ("in", _publish),
    "route": (
        "in",
        lambda event: f"into {'a' if event['queue'] is None else 'the'} queue, position {event['position']}",
    ),
    "confirm": ("sure", lambda _: "confirmed"),
    "nack": ("wrong", lambda _: "refused (nack)"),
    "return": ("wrong", lambda _: "returned: it reached no queue"),
    "queued": ("sure", lambda event: f"there, in the record of boot {event['moment'] >> SEQ_BITS}"),
    "deliver": ("out", _deliver),
    "requeue": ("in", _with_reason("back in the queue")),
    "ack": ("end", _with_reason("acknowledged")),
    "reject": ("end", lambda _: "rejected"),
    "expire": ("end", lambda _: "expired"),
    "drop": ("end", _with_reason("dropped")),
    "release": ("end", lambda _: "released"),
    "deadletter": ("broker", lambda event: f"dead letter to exchange '{name(event['exchange'])}'"),
    "purge": ("end", lambda _: "queue purged"),
    "delete": ("end", lambda _: "queue deleted"),
}
"""Style and text of each kind of event."""
OTHER = "broker", lambda event: f"event {event['kind']!r}, of a later release"
