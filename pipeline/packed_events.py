"""Events of queues packed into arrays, from which latency and throughput are computed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from pipeline.audit.log_coverage import Coverage, Damage, coverage
from pipeline.audit.reduction import NEEDED, SEQ_BITS, Columns, Place, Stretch, Told, codes, is_one_of, numbers
from pipeline.event_parts import Part

SECOND = 1_000_000
WIDTHS = (1, 2, 5, 10, 20, 30, 60)
BINS_MAX = 360
"""Bins of a log at most: the narrowest of WIDTHS, in seconds, that gives no more is taken, or the last one."""
COLUMNS = (*NEEDED, "size_bytes", "reason")
_TIME = pa.timestamp("us", "UTC")
_EPOCH = datetime.fromtimestamp(0, UTC)


class PackedPart(NamedTuple):
    """The events of a part."""

    node: str
    places: list[Place]
    rows: pa.Table
    told: list[Told]
    stretches: list[Stretch]
    damage: Damage | None


@dataclass(frozen=True)
class QueueEvents:
    """The events of a node in their order. `place` is an index into `places`; -1 there and elsewhere: none."""

    node: str
    places: list[Place]
    coverage: Coverage
    told: list[Told]
    width: int
    """Microseconds of a bin."""
    kind: Any
    moment: Any
    us: Any
    place: Any
    position: Any
    msg_id: Any
    size: Any
    redelivered: Any
    noted: Any
    """True if the event has a reason."""

    @property
    def boot(self) -> Any:
        """The boots of the events."""
        return self.moment >> SEQ_BITS

    @property
    def bin(self) -> Any:
        """The bins of the events, numbered from the epoch on."""
        return self.us // self.width

    def of(self, *kinds: str) -> Any:
        """True for events of some kinds."""
        return is_one_of(self.kind, kinds)

    def names(self, place: Any) -> dict[str, Any]:
        """Build columns of a table: node, and the virtual hosts and queues of places."""
        vhosts, queues = (pa.array([each[at] for each in self.places] or [""], pa.string()) for at in (0, 1))
        at = pa.array(place, mask=place < 0)
        return {"node": pa.repeat(pa.scalar(self.node), len(place)), "vhost": vhosts.take(at), "queue": queues.take(at)}


def packed(part: Part) -> PackedPart:
    """Pack the events of a part. Raises OSError, and SegmentError for a segment of an unknown version."""
    damaged, tables, places = list[int](), list[pa.Table](), dict[Place, int]()
    told, stretches = list[Told](), list[Stretch]()
    for batch in part.batches(COLUMNS, damaged):
        events = Columns(batch)
        told += events.told()
        stretches += events.stretches()
        tables.append(_rows(events, batch, places))
    name = part.name
    damage = Damage(name.node, str(name), name.boot, name.first, name.last) if damaged else None
    return PackedPart(
        name.node, list(places), pa.concat_tables(tables) if tables else pa.table({}), told, stretches, damage
    )


def merged(parts: Iterable[PackedPart]) -> list[QueueEvents]:
    """Merge the events of all parts, by node."""
    of_nodes = defaultdict[str, list[PackedPart]](list)
    for part in parts:
        of_nodes[part.node].append(part)
    stretches = [each for of_node in of_nodes.values() for part in of_node for each in part.stretches]
    width = bin_seconds(stretches) * SECOND
    return [_merged(node, of_nodes[node], width) for node in sorted(of_nodes)]


def bin_seconds(stretches: Sequence[Stretch]) -> int:
    """Return the width of bins in seconds for a whole log."""
    first, last = (choose((each[at] for each in stretches), default=0) for choose, at in ((min, 3), (max, 4)))
    return next((width for width in WIDTHS if (last - first) <= BINS_MAX * width * SECOND), WIDTHS[-1])


def table(columns: dict[str, Any], schema: pa.Schema) -> pa.Table:
    """Build a table of a schema from arrays."""
    return pa.table([pa.array(columns[field.name]).cast(field.type) for field in schema], schema=schema)


def times(microseconds: Any) -> pa.Array:
    """Convert microseconds since the epoch to times."""
    return pa.array(microseconds).cast(_TIME)


def micros(time: datetime | None) -> int | None:
    """Convert a time to microseconds since the epoch."""
    return None if time is None else int((time - _EPOCH) / timedelta(microseconds=1))


def between(begin: Any, width: int, since: int | None, until: int | None) -> Any:
    """True for bins, by their begins in microseconds, from that of `since` to before `until`."""
    low = np.full(len(begin), True) if since is None else begin >= since // width * width
    return low if until is None else low & (begin < until)


def _rows(events: Columns, batch: pa.RecordBatch, places: dict[Place, int]) -> pa.Table:
    used, at = np.unique(events.place, return_inverse=True)
    found = [-1 if code < 0 else places.setdefault(events.place_of(int(code)), len(places)) for code in used]
    return pa.table(
        {
            "kind": events.kind,
            "moment": events.moment,
            "us": events.ts,
            "place": np.array(found, np.int32)[at],
            "position": events.position,
            "msg_id": events.msg_id,
            "size": numbers(batch.column("size_bytes"), 0),
            "redelivered": numbers(batch.column("redelivered").cast(pa.int8()), 0) > 0,
            "noted": codes(batch.column("reason")) >= 0,
        }
    )


def _merged(node: str, parts: list[PackedPart], width: int) -> QueueEvents:
    places: dict[Place, int] = {}
    tables = []
    for part in parts:
        numbers = np.array([places.setdefault(place, len(places)) for place in part.places] + [-1], np.int32)
        at = part.rows.schema.get_field_index("place")
        tables.append(part.rows.set_column(at, "place", pa.array(numbers[part.rows.column(at).to_numpy()])))
    told = sorted(one for part in parts for one in part.told)
    stretches = [one for part in parts for one in part.stretches]
    damaged = [part.damage for part in parts if part.damage is not None]
    rows = pa.concat_tables(tables)
    order = np.argsort(rows.column("moment").to_numpy(), kind="stable")
    columns = {name: rows.column(name).to_numpy()[order] for name in rows.column_names}
    return QueueEvents(node, list(places), coverage(node, stretches, told, damaged), told, width, **columns)
