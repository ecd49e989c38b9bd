"""Events reduced to what an audit keeps of them: a row for each copy and for each message of a batch.

A copy is a message in a queue. Rows are minima, maxima and sums within one boot, so rows of further batches are
combined by the same operations (`copy_verdicts`), and a batch can be reduced wherever it is read. A *moment* is `boot
<< 40 | seq` and orders the events of a node.
"""

from __future__ import annotations

import json
import math
import zlib
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leveret_events.segment_blocks import OFFSETS_END
from leveret_spark.events.event_columns import KINDS

SEQ_BITS = 40
NEVER = 1 << 62
"""A moment behind all others, and a time."""

CODES = {name: code for code, name in KINDS.items()}
ENDS = ("ack", "reject", "expire", "drop", "release")
OF_COPIES = (*ENDS, "route", "deliver", "requeue", "queued", "deadletter", "publish")
"""Kinds that concern copies. A publish has queue and position if it is of a dead letter: where its message died."""
ANSWERS = ("confirm", "nack", "return")
OF_MESSAGES = ("publish", "route", *ANSWERS)
SETTLEMENTS = ("ack", "reject", "requeue")
"""Kinds by which a consumer's client, or the end of its channel, settles a delivery."""
OF_BOOTS = ("boot", "stop", "snapshot", "declare", "policy", "purge", "delete")
REASONS = ("", "rejected", "expired", "maxlen", "delivery_limit")
"""Reasons of a death, by their number in the columns `end_reason` and `dead_reason`; 0: any other."""
NEEDED = (
    *("boot", "seq", "ts", "kind", "vhost", "queue", "channel", "msg_id", "position", "redelivered", "persistent"),
    "detail",
)
"""The columns of events that all jobs look at."""
AUDITED = (*NEEDED, "exchange", "routing_key", "connection", "reason", "size_bytes", "properties")
TAKEN = ("expire", "drop", "release")
"""Kinds by which the broker takes a message out of its queue, which must not happen while a consumer has it."""
NOWHERE = -1
"""In place of the number of an exchange: none."""
CHANNEL_FACTOR = 0x9E3779B1
"""Spreads numbers of channels over the bits of a connection's."""
NAME_NUMBER_MAX = (1 << 31) - 1
ROUTES_MAX = 1 << 14
"""Routes of a batch that are kept; with more, none are: each message has its own, which takes too much memory."""

Place = tuple[str, str]
"""Virtual host and queue."""


class Told(NamedTuple):
    """An event of a boot or of a whole queue."""

    moment: int
    kind: str
    place: Place
    detail: dict[str, Any]


class Bound(NamedTuple):
    """A queue was bound to an exchange of a type; or is no longer, if this `ends` it. No exchange: in all its vhost."""

    moment: int
    ends: bool
    vhost: str
    exchange: str
    type: str
    queue: str
    key: str


class Route(NamedTuple):
    """Exchange and routing key to which clients published."""

    vhost: str
    exchange: str
    key: str


class Stretch(NamedTuple):
    """Consecutive events of a boot, with the earliest and the latest time in microseconds since the epoch."""

    boot: int
    first: int
    last: int
    first_us: int
    last_us: int


class Reduced(NamedTuple):
    """The reduction of some events of one node.

    The column `place` of `copies` is an index into `places`, the column `route` of `messages` one into `routes`.
    """

    node: str
    places: list[Place]
    copies: pa.Table
    messages: pa.Table
    routes: list[Route]
    bound: list[Bound]
    told: list[Told]
    stretches: list[Stretch]


class Groups:
    """Rows sorted by some keys, stably, and grouped by equal ones."""

    def __init__(self, *keys: Any) -> None:
        self.order = _order(keys)
        self._group(tuple(key[self.order] for key in keys))

    def _group(self, keys: tuple[Any, ...]) -> None:
        new = np.zeros(len(self.order), bool)
        new[:1] = True
        for key in keys:
            new[1:] |= key[1:] != key[:-1]
        self.starts = np.flatnonzero(new)
        sizes = np.diff(np.append(self.starts, len(new)))
        self.of_rows = np.repeat(np.arange(len(self.starts)), sizes)
        """Group of each row."""
        # Most groups have one row where reduced batches are merged: only the others are worth an operation on groups.
        self._larger = np.flatnonzero(sizes > 1)
        self._rows = np.flatnonzero(sizes[self.of_rows] > 1)
        self._ends = np.append(0, np.cumsum(sizes[self._larger])[:-1])[: len(self._larger)]

    def __len__(self) -> int:
        return len(self.starts)

    def min(self, values: Any) -> Any:
        """Return the minimum of each group."""
        return self._merged(np.minimum, values)

    def max(self, values: Any) -> Any:
        """Return the maximum of each group."""
        return self._merged(np.maximum, values)

    def sum(self, values: Any) -> Any:
        """Return the sum of each group, as 32-bit integers."""
        if values.dtype == bool:
            return np.bincount(self.of_rows[values], minlength=len(self)).astype(np.int32)
        return self._merged(np.add, values.astype(np.int32))

    def total(self, values: Any) -> Any:
        """Return the sum of each group, in the type of the values."""
        return self._merged(np.add, values)

    def first(self, where: Any, values: Any, otherwise: int) -> Any:
        """Return the value of the first chosen row of each group."""
        rows = np.flatnonzero(where)[::-1]
        return self._last_of(rows, values, otherwise)

    def last(self, where: Any, values: Any, otherwise: int) -> Any:
        """Return the value of the last chosen row of each group."""
        return self._last_of(np.flatnonzero(where), values, otherwise)

    def _last_of(self, rows: Any, values: Any, otherwise: int) -> Any:
        """Return the value of the last one of some rows in each group: numpy lets that stay, if it sets one twice."""
        found = np.full(len(self), otherwise, values.dtype)
        found[self.of_rows[rows]] = values[rows]
        return found

    def _merged(self, merge: Any, values: Any) -> Any:
        found = values[self.starts]
        if len(self._larger):
            found[self._larger] = merge.reduceat(values[self._rows], self._ends)
        return found


class Sorted(Groups):
    """Groups of rows that are in order already."""

    def __init__(self, *keys: Any) -> None:
        self.order = np.arange(len(keys[0]))
        self._group(keys)


def _order(keys: tuple[Any, ...]) -> Any:
    """Sort rows by some keys, the first one first; as one number, if they are small enough together."""
    if not len(keys[0]):
        return np.zeros(0, np.int64)
    lows, highs = ([int(pick(key)) for key in keys] for pick in (np.min, np.max))
    widths = [high - low + 1 for low, high in zip(lows, highs, strict=True)]
    if math.prod(widths) >= NEVER:
        return np.lexsort(keys[::-1])
    one = np.zeros(len(keys[0]), np.int64)
    for key, low, width in zip(keys, lows, widths, strict=True):
        one = one * width + (key - low)
    return np.argsort(one, kind="stable")


def reduced(node: str, batch: pa.RecordBatch) -> Reduced:
    """Reduce a batch of events, ascending and of one boot, text dictionary-encoded, with the columns AUDITED."""
    events = Columns(batch)
    copies, places = events.copies()
    messages, routes = events.messages()
    return Reduced(node, places, copies, messages, routes, events.bound(), events.told(), events.stretches())


def is_of_boot(batch: pa.RecordBatch, boot: int) -> bool:
    """Return whether events can be a boot's: a message gets its number from the boot in which it is published.

    Earlier segments do not say whose they are.
    """
    published = pc.equal(batch.column("kind"), "publish")
    boots = pc.shift_right(batch.column("msg_id").filter(published), SEQ_BITS)
    return not len(boots) or bool(pc.any(pc.equal(boots, boot)).as_py())


def numbers(column: Any, otherwise: int = -1) -> Any:
    """Convert an Arrow column to an array, nulls to `otherwise`."""
    return pc.fill_null(column, otherwise).to_numpy(zero_copy_only=False)


def name_number(name: str | None) -> int:
    """Return a number for a name: the same wherever and whenever it is read. Two names hardly ever have the same."""
    return zlib.crc32((name or "").encode()) & NAME_NUMBER_MAX


def codes(column: pa.DictionaryArray) -> Any:
    """Return the dictionary index of each row of a column; -1 for null."""
    return numbers(column.indices)


def _few(counts: Any) -> Any:
    """Return counts as bytes: rules ask for more than one, not for how many."""
    return np.minimum(counts, 255).astype(np.uint8)


def is_one_of(kinds: Any, names: tuple[str, ...]) -> Any:
    """True where a kind has one of the names."""
    table = np.zeros(1 << 8, bool)
    table[[CODES[name] for name in names]] = True
    return table[kinds]


class Columns:
    """The columns of a batch as arrays."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch
        names = batch.column("kind").dictionary.to_pylist()
        self.kind = np.array([CODES.get(name, 0) for name in names], np.uint8)[codes(batch.column("kind"))]
        self.seq = numbers(batch.column("seq"))
        self.boot = numbers(batch.column("boot")).astype(np.int64)
        self.moment = (self.boot << SEQ_BITS) + self.seq
        self._holes = np.cumsum(np.diff(self.moment, prepend=self.moment[:1]) > 1)
        self.ts = numbers(batch.column("ts").cast(pa.int64()))
        self.msg_id = numbers(batch.column("msg_id"))
        self.position = numbers(batch.column("position"))
        vhosts, queues = batch.column("vhost"), batch.column("queue")
        self._queues, self._vhosts = queues.dictionary.to_pylist(), vhosts.dictionary.to_pylist()
        queue = codes(queues)
        self.place = np.where(queue < 0, -1, codes(vhosts) * len(self._queues) + queue)

    def place_of(self, code: int) -> Place:
        """Return the place of a number in the column `place`."""
        vhost, queue = divmod(code, len(self._queues))
        return self._vhosts[vhost], self._queues[queue]

    def copies(self) -> tuple[pa.Table, list[Place]]:
        """Return a row for each copy, and the places that their numbers refer to."""
        # Offsets of streams are no copies: their messages are not consumed for good, and not judged.
        found = np.flatnonzero(is_one_of(self.kind, OF_COPIES) & (self.position >= OFFSETS_END))
        groups = Groups(self.place[found], self.position[found])
        rows = found[groups.order]
        kind, moment, ts = self.kind[rows], self.moment[rows], self.ts[rows]
        redelivered = numbers(self._batch.column("redelivered").cast(pa.int8()))[rows]
        persistent = numbers(self._batch.column("persistent").cast(pa.int8()))[rows]
        routed, delivered, ended = (kind == CODES["route"], kind == CODES["deliver"], is_one_of(kind, ENDS))
        new, dead, reason = delivered & (redelivered == 0), kind == CODES["deadletter"], self._reasons()[rows]
        # A death and the publish of its dead letter are recorded behind the copy's end, and do not show that it lives.
        letter = kind == CODES["publish"]
        heard, exchange = ~dead & ~letter, self._named("exchange", rows, dead | letter)
        used, place = np.unique(self.place[rows[groups.starts]], return_inverse=True)
        columns = {
            "place": place.astype(np.int32),
            "position": self.position[rows[groups.starts]],
            "msg_id": groups.first(routed, self.msg_id[rows], -1),
            "routed": groups.first(routed, moment, NEVER),
            "routes": _few(groups.sum(routed)),
            "kept": groups.max(np.where(routed, persistent, -1)),
            "first_deliver_us": groups.first(delivered, ts, NEVER),
            "deliveries": groups.sum(delivered),
            "acks": groups.sum(kind == CODES["ack"]),
            "new": groups.sum(new),
            "first_new": groups.first(new, moment, NEVER),
            "last_new": groups.last(new, moment, -1),
            "first_again": groups.first(delivered, np.where(new, NEVER, moment), NEVER),
            "last_delivered": groups.last(delivered, moment, -1),
            "end": groups.first(ended, moment, NEVER),
            "end_kind": groups.first(ended, kind, 0).astype(np.uint8),
            "end_reason": groups.first(ended, reason, 0).astype(np.uint8),
            "ended": groups.last(ended, moment, -1),
            "ends": groups.sum(ended),
            "first": groups.first(heard, moment, NEVER),
            "first_kind": groups.first(heard, kind, 0).astype(np.uint8),
            "last": groups.last(heard, moment, -1),
            "last_kind": groups.last(heard, kind, 0).astype(np.uint8),
            "queued": groups.last(kind == CODES["queued"], moment, -1),
            "deaths": groups.sum(dead),
            "due": groups.sum(dead & (self._routed_to()[rows] > 0)),
            "died": groups.last(dead, moment, -1),
            "dead_reason": groups.first(dead, reason, 0).astype(np.uint8),
            "dead_to": groups.first(dead, exchange, NOWHERE),
            "dead_letters": groups.sum(letter),
            "letter": groups.last(letter, moment, -1),
            "letter_to": groups.first(letter, exchange, NOWHERE),
            "letter_key": groups.first(letter, self._named("routing_key", rows, letter), NOWHERE),
            **_holding(groups, kind, heard, self._holes[rows]),
        }
        return pa.table(columns), [self.place_of(int(code)) for code in used]

    def messages(self) -> tuple[pa.Table, list[Route]]:
        """Return a row for each message with a publish, route or answer, and the routes of publishes."""
        found = np.flatnonzero(is_one_of(self.kind, OF_MESSAGES))
        groups = Groups(self.msg_id[found])
        rows = found[groups.order]
        kind, ts = self.kind[rows], self.ts[rows]
        published, confirmed, answered = (kind == CODES["publish"], kind == CODES["confirm"], is_one_of(kind, ANSWERS))
        came = (kind == CODES["route"]) & (self.position[rows] == self.msg_id[rows])
        parties, talked = self._parties()[rows], published | answered
        own = published & (numbers(self._batch.column("channel"))[rows] == 0)
        route, routes = self._routes(rows, published & ~own & ~self._in_transaction()[rows])
        table = pa.table(
            {
                "msg_id": self.msg_id[rows[groups.starts]],
                "publish_us": groups.first(published, ts, NEVER),
                "published": groups.first(published, self.moment[rows], NEVER),
                "confirmed": groups.first(confirmed, self.moment[rows], NEVER),
                "confirm_us": groups.first(confirmed, ts, NEVER),
                "own": groups.sum(own) > 0,
                "queues": groups.max(np.where(published, self._routed_to()[rows], -1)),
                "persistent": groups.max(
                    np.where(published, numbers(self._batch.column("persistent").cast(pa.int8()))[rows], -1)
                ),
                "routes": groups.sum(kind == CODES["route"]),
                "arrivals": groups.sum(came),
                "arrived": groups.first(came, self.moment[rows], NEVER),
                "routed_last": groups.last(came, self.moment[rows], -1),
                "route": groups.max(route),
                "publishes": _few(groups.sum(published)),
                "confirms": _few(groups.sum(confirmed)),
                "nacks": _few(groups.sum(kind == CODES["nack"])),
                "returns": _few(groups.sum(kind == CODES["return"])),
                "answered": groups.first(answered, self.moment[rows], NEVER),
                "party_low": groups.min(np.where(talked, parties, NAME_NUMBER_MAX)).astype(np.int32),
                "party_high": groups.max(np.where(talked, parties, -1)).astype(np.int32),
                "expires": groups.max(published & self._detail("expires", False)[rows]),
                "size_bytes": groups.max(
                    np.where(published, numbers(self._batch.column("size_bytes"))[rows], -1)
                ).astype(np.int32),
                "properties": self._properties(rows, groups.last(published, np.arange(len(rows)), -1)),
            }
        )
        return table, routes

    def _routes(self, rows: Any, chosen: Any) -> tuple[Any, list[Route]]:
        """Number the routes of chosen rows, -1 for others; returns also the routes."""
        columns = [self._batch.column(name) for name in ("vhost", "exchange", "routing_key")]
        parts = [codes(column)[rows].astype(np.int64) for column in columns]
        chosen = chosen & (parts[1] >= 0) & (parts[2] >= 0)
        shape = [max(len(column.dictionary), 1) for column in columns]
        used, number = np.unique(np.ravel_multi_index([part[chosen] for part in parts], shape), return_inverse=True)
        found = np.full(len(rows), -1, np.int32)
        if len(used) > ROUTES_MAX:
            return found, []
        found[chosen] = number
        at = np.unravel_index(used, shape)
        names = (column.dictionary.take(pa.array(part)).to_pylist() for column, part in zip(columns, at, strict=True))
        return found, [Route(*each) for each in zip(*names, strict=True)]

    def _routed_to(self) -> Any:
        """Number of queues that publishes and dead letters are routed to; -1: unknown."""
        return self._detail("queues", -1)

    def _in_transaction(self) -> Any:
        """True for publishes that were routed before their transaction was committed."""
        return self._detail("transaction", False)

    def _detail(self, name: str, otherwise: Any) -> Any:
        details = self._batch.column("detail")
        values = [json.loads(detail or "{}").get(name, otherwise) for detail in details.dictionary.to_pylist()]
        return np.array([*values, otherwise])[codes(details)]

    def _properties(self, rows: Any, published: Any) -> pa.Array:
        """Recorded properties of messages, by the last publish of each among `rows`; -1: none."""
        column = self._batch.column("properties")
        if column.null_count == len(column):
            return pa.nulls(len(published), pa.string())
        at = rows[np.maximum(published, 0)] if len(rows) else published
        return pc.cast(column.take(pa.array(at, mask=published < 0)), pa.string())

    def _reasons(self) -> Any:
        """Number of each event's reason in REASONS."""
        names = self._batch.column("reason").dictionary.to_pylist()
        known = [REASONS.index(name) if name in REASONS else 0 for name in names]
        return np.array([*known, 0], np.uint8)[codes(self._batch.column("reason"))]

    def _named(self, column: str, rows: Any, chosen: Any) -> Any:
        """Number of the names in a column of chosen rows, the same in every batch; NOWHERE for others."""
        names = self._batch.column(column)
        used, at = np.unique(codes(names)[rows[chosen]], return_inverse=True)
        known = names.dictionary.take(pa.array(used, mask=used < 0)).to_pylist()
        found = np.full(len(rows), NOWHERE, np.int32)
        found[chosen] = np.array([*map(name_number, known)], np.int32)[at]
        return found

    def _parties(self) -> Any:
        """Number of each event's connection and channel, the same in every batch."""
        names = self._batch.column("connection").dictionary.to_pylist()
        connections = np.array([*map(name_number, names), 0])[codes(self._batch.column("connection"))]
        channels = numbers(self._batch.column("channel"), 0).astype(np.int64)
        return connections ^ (channels * CHANNEL_FACTOR & NAME_NUMBER_MAX)

    def bound(self) -> list[Bound]:
        """List the bindings of queues that began or ended."""
        rows = np.flatnonzero(is_one_of(self.kind, ("bind", "unbind")))
        names = ("vhost", "exchange", "detail", "queue", "routing_key")
        columns = (self._batch.column(name).take(pa.array(rows)).to_pylist() for name in names)
        found = zip(self.moment[rows].tolist(), self.kind[rows].tolist(), *columns, strict=True)
        return [
            Bound(moment, kind == CODES["unbind"], vhost, exchange, json.loads(detail)["type"], queue, key)
            for moment, kind, vhost, exchange, detail, queue, key in found
            if queue is not None
        ]

    def told(self) -> list[Told]:
        """List the events of boots and whole queues."""
        rows = np.flatnonzero(is_one_of(self.kind, OF_BOOTS))
        details = self._batch.column("detail").take(pa.array(rows)).to_pylist()
        return [
            Told(int(self.moment[row]), KINDS[int(self.kind[row])], self._told_of(int(row)), json.loads(detail or "{}"))
            for row, detail in zip(rows, details, strict=True)
        ]

    def _told_of(self, row: int) -> Place:
        return ("", "") if self.place[row] < 0 else self.place_of(int(self.place[row]))

    def stretches(self) -> list[Stretch]:
        """List the stretches of consecutive events."""
        if not len(self.seq):
            return []
        starts = np.append(0, np.flatnonzero(np.diff(self.moment) != 1) + 1)
        ends = np.append(starts[1:], len(self.seq)) - 1
        times = np.minimum.reduceat(self.ts, starts), np.maximum.reduceat(self.ts, starts)
        columns = self.boot[starts], self.seq[starts], self.seq[ends], *times
        return [Stretch(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]


def _holding(groups: Groups, kind: Any, heard: Any, holes: Any) -> dict[str, Any]:
    """Columns on who had a copy: its first and last *move*, a delivery, settlement or end, and how many there were;
    whether two moves in a row must not be: two deliveries (`held`), a settlement of what was given back before
    (`unheld`), an end by the broker of what a consumer had (`taken`). `holes` counts the gaps before each event: moves
    with one between them are not in a row. `torn`: there is one between the first event and the first move.
    """
    delivered = kind == CODES["deliver"]
    moves = delivered | is_one_of(kind, ENDS) | is_one_of(kind, SETTLEMENTS)
    relevant = np.flatnonzero(moves)
    group, mine, torn = groups.of_rows[relevant], kind[relevant], holes[relevant]
    before, after = mine[:-1], mine[1:]
    follows = (group[1:] == group[:-1]) & (torn[1:] == torn[:-1])
    pairs = {
        "held": (before == CODES["deliver"]) & (after == CODES["deliver"]),
        "unheld": (before == CODES["requeue"]) & is_one_of(after, SETTLEMENTS),
        "taken": (before == CODES["deliver"]) & is_one_of(after, TAKEN),
    }
    found: dict[str, Any] = {}
    for name, chosen in pairs.items():
        found[name] = np.zeros(len(groups), bool)
        found[name][group[1:][follows & chosen]] = True
    return {
        "move_first": groups.first(moves, kind, 0).astype(np.uint8),
        "move_last": groups.last(moves, kind, 0).astype(np.uint8),
        "turns": groups.sum(moves),
        "torn": groups.first(heard, holes, 0) != groups.first(moves, holes, 0),
        **found,
    }
