"""Made-up histories of a broker: events as rows, in the order in which they are told."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any

import pyarrow as pa

from leveret_events.segment_names import SegmentName, node_name
from leveret_spark.events.event_columns import SCHEMA, Event
from pipeline.event_parts import Part, exported_name, parts_of
from pipeline.export import MANIFEST, MANIFEST_FORMAT
from pipeline.file_target import Target

EPOCH = datetime(2026, 11, 21, tzinfo=UTC)
EPOCH_US = int(EPOCH.timestamp()) * 1_000_000
BOOT_BITS = 40
PUBLISHER = {"connection": "127.0.0.1:5", "channel": 1}
NO_ARGUMENTS: dict[str, Any] = {}


class History:
    """Events of one broker. Each function tells events; times go on by a millisecond with each."""

    def __init__(self, node: str) -> None:
        self.node = node
        self.events: list[Event] = []
        self.boot = 0
        self.clock_us = 0
        self._seq = 0
        self._number = 0

    def start(self, *, known: int | None = None, after: int = 1, idle: bool = False) -> None:
        """A boot begins, `after` boots behind the last. `known` is the last event that is known to have been on disk.

        `idle`: the boots between have left nothing on disk.
        """
        previous, last = self.boot, self._seq
        self.boot, self._seq, self._number = self.boot + after, 0, 0
        known = last if known is None else known
        detail: dict[str, Any] = {"node": self.node, "previous_boot": previous, "previous_last": last}
        detail |= {"previous_known": known, "idle_since": idle}
        self.tell("boot", detail=json.dumps(detail))

    def recorded(self, *positions: int, queue: str = "q") -> None:
        """All that is in one queue at the start; nothing is in others."""
        for position in positions:
            self.tell("queued", queue=queue, msg_id=position, position=position)
        self.tell("snapshot")

    def stop(self, *positions: int, queue: str = "q", complete: bool = True) -> None:
        """The orderly end, with what is in one queue."""
        for position in positions:
            self.tell("queued", queue=queue, msg_id=position, position=position)
        self.tell("stop", detail=json.dumps({"complete": complete}))

    def declare(
        self, queue: str = "q", *, max_priority: int = 0, kind: str = "classic", arguments: Any = NO_ARGUMENTS
    ) -> None:
        """A queue exists; `arguments` None: as an earlier release has recorded it."""
        detail = {"type": kind, "durable": True, "max_priority": max_priority, "arguments": arguments}
        detail = {name: value for name, value in detail.items() if value is not None}
        self.tell("declare", queue=queue, detail=json.dumps(detail))

    def policy(self, queue: str = "q", **arguments: Any) -> None:
        """The arguments in force have changed."""
        named = {name.replace("_", "-"): value for name, value in arguments.items()}
        self.tell("policy", queue=queue, detail=json.dumps({"arguments": named}))

    def bind(
        self, key: str, *, kind: str = "topic", queue: str = "q", exchange: str = "orders", ends: bool = False
    ) -> None:
        """A queue is bound to an exchange, or is no longer."""
        bound = {"exchange": exchange, "routing_key": key, "detail": json.dumps({"type": kind})}
        self.tell("unbind" if ends else "bind", queue=queue, **bound)

    def publish(self, *queues: str, confirmed: bool = True, kept: bool = True, **told: Any) -> int:
        """A message is published into queues, and confirmed; its number. `told` is what the publish says otherwise."""
        self._number += 1
        number = self.boot << BOOT_BITS | self._number
        sent = {**PUBLISHER, "exchange": "orders", "routing_key": "eu", "size_bytes": 1}
        routed = json.dumps({"queues": max(len(queues), 1)})
        self.tell("publish", msg_id=number, persistent=kept, **{"detail": routed, **sent, **told})
        for queue in queues or ("q",):
            self.tell("route", queue=queue, msg_id=number, position=number, persistent=kept)
        if confirmed:
            self.answer(number)
        return number

    def answer(self, number: int, kind: str = "confirm", **told: Any) -> None:
        """A publish is confirmed, refused or returned."""
        self.tell(kind, msg_id=number, **{**PUBLISHER, **told})

    def of(self, kind: str, position: int, queue: str = "q", **fields: Any) -> None:
        """Something happens to a message in a queue."""
        self.tell(kind, queue=queue, msg_id=position, position=position, **fields)

    def deliver(self, position: int, queue: str = "q", *, redelivered: bool = False) -> None:
        self.of("deliver", position, queue, redelivered=redelivered, delivery_tag=1, consumer_tag="c")

    def consume(self, position: int, queue: str = "q") -> None:
        """A message is delivered and acknowledged."""
        self.deliver(position, queue)
        self.of("ack", position, queue)

    def reject(
        self, position: int, queue: str = "q", *, queues: int = 1, kind: str = "reject", reason: str = "rejected"
    ) -> None:
        """A message is rejected, or dies otherwise; `queues` queues are to have its dead letter."""
        self.of(kind, position, queue, reason=reason)
        detail = json.dumps({"queues": queues})
        self.of("deadletter", position, queue, reason=reason, exchange="", detail=detail)

    def die(self, position: int, queue: str, to: str, kind: str = "reject", reason: str = "rejected") -> int:
        """A message is rejected, and published again as a dead letter; the number of that."""
        self.reject(position, queue, kind=kind, reason=reason)
        return self.dead_letter(position, queue, to)

    def dead_letter(self, position: int, queue: str, to: str, *, exchange: str = "") -> int:
        """The dead letter of a message is published; its number."""
        self._number += 1
        number = self.boot << BOOT_BITS | self._number
        told: dict[str, Any] = {
            "connection": "",
            "channel": 0,
            "exchange": exchange,
            "routing_key": to,
            "size_bytes": 1,
        }
        told |= {"queue": queue, "position": position, "detail": '{"queues": 1}'}
        self.tell("publish", msg_id=number, persistent=True, **told)
        self.tell("route", queue=to, msg_id=number, position=number, persistent=True)
        return number

    def move(self, position: int, queue: str = "q") -> int:
        """A message goes back to the end of a quorum queue; its new place."""
        self._number += 1
        number = self.boot << BOOT_BITS | self._number
        self.tell("route", queue=queue, msg_id=position, position=number, persistent=True)
        return number

    def lose(self, events: int) -> None:
        """Leave `events` events unwritten."""
        self._seq += events

    def wait(self, seconds: float) -> None:
        """Time passes, or the clock is set back."""
        self.clock_us += round(seconds * 1_000_000)

    def tell(self, kind: str, **fields: Any) -> None:
        self._seq += 1
        self.events.append(Event(self.node, self.boot, self._seq, EPOCH_US + self.clock_us, kind, vhost="/", **fields))
        self.clock_us += 1000


def begun(node: str, *, kind: str = "classic") -> History:
    """A broker in its first boot, with one empty queue."""
    history = History(node)
    history.start()
    history.declare(kind=kind)
    history.recorded()
    return history


def export_of(directory: Path, histories: Iterable[History]) -> list[Part]:
    """An export of several brokers' events, as a job reads them."""
    target, files = Target(str(directory)), []
    for history in histories:
        for boot, events in groupby(history.events, attrgetter("boot")):
            columns = zip(*events, strict=True)
            arrays = [pa.array(values).cast(field.type) for values, field in zip(columns, SCHEMA, strict=True)]
            rows = pa.Table.from_arrays(arrays, schema=SCHEMA)
            numbers = rows.column("seq").to_pylist()
            name = exported_name(SegmentName(node_name(history.node), boot, numbers[0], numbers[-1]))
            target.put_table(name, rows)
            files.append({"file": name})
    target.put(MANIFEST, json.dumps({"format": MANIFEST_FORMAT, "files": files}).encode())
    return parts_of(str(directory))
