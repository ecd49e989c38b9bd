"""Messages of a stopped broker's store as rows: the columns of the source `amqp`, and what only the store knows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import pyarrow as pa

from leveret_spark.amqp.content_header import PROPERTIES_AT, properties_of
from leveret_spark.amqp.headers import headers_to_json
from leveret_spark.amqp.received_message import PROPERTIES
from leveret_spark.queues.message_columns import ARROW_SCHEMA, TIMESTAMP_SECONDS_MAX, array_of, microseconds
from storage.batch import PERSISTENT
from storage.messages.offline_reader import Found, header_of

TIME = pa.timestamp("us", "UTC")
SCHEMA = pa.schema(
    [
        pa.field("vhost", pa.string()),
        pa.field("queue", pa.string()),
        pa.field("position", pa.int64()),
        pa.field("msg_id", pa.int64()),
        pa.field("body", pa.binary()),
        pa.field("exchange", pa.string()),
        pa.field("routing_key", pa.string()),
        *(ARROW_SCHEMA.field(name) for name in PROPERTIES),
        pa.field("size_bytes", pa.int32()),
        pa.field("persistent", pa.bool_()),
        pa.field("delivered", pa.bool_()),
        pa.field("delivery_count", pa.int32()),
        pa.field("published_at", TIME),
        pa.field("expires_at", TIME),
        pa.field("due_at", TIME),
        pa.field("dead_letter", pa.string()),
        pa.field("queue_id", pa.int64()),
        pa.field("lane", pa.int32()),
        pa.field("segment", pa.int64()),
        pa.field("shared_body", pa.int64()),
        pa.field("damage", pa.string()),
    ]
)
"""One row for each message, and one for each place where messages cannot be read: that has `damage`, and no body."""

BATCH_ROWS = 2000
BATCH_BYTES = 16 << 20

LAST_MILLISECOND = TIMESTAMP_SECONDS_MAX * 1000
DEATHS = (None, "rejected", "expired", "maxlen", "delivery_limit")
"""Why a letter that waits for its queue died, by the number in its flags."""

DEATH_SHIFT, DEATH_MASK = 8, 7
PROPERTIES_CACHED = 4096


class Owner(NamedTuple):
    """Whose messages a lane has: a queue, or the exchange (type `delay`) in which delayed messages wait."""

    vhost: str
    name: str
    type: str


def record_batches(found: Iterator[Found], owners: Mapping[int, Owner]) -> Iterator[pa.RecordBatch]:
    """Rows of SCHEMA. An orphaned message, of a queue that does not exist, has no vhost and no queue."""
    rows: list[tuple[Any, ...]] = []
    size = 0
    for each in found:
        rows.append(_row(each, owners.get(each.queue_id)))
        size += 0 if each.message is None else len(each.message.body)
        if len(rows) >= BATCH_ROWS or size >= BATCH_BYTES:
            yield _batch(rows)
            rows, size = [], 0
    if rows:
        yield _batch(rows)


def _batch(rows: Sequence[tuple[Any, ...]]) -> pa.RecordBatch:
    arrays = [array_of(values, field.type) for values, field in zip(zip(*rows, strict=True), SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _row(found: Found, owner: Owner | None) -> tuple[Any, ...]:
    vhost, queue = (None, None) if owner is None else (plain(owner.vhost), plain(owner.name))
    if found.message is None:
        assert found.damage is not None
        return _damaged(found, found.damage.position, found.damage.reason, vhost, queue)
    message, damage = found.message, None
    stream = owner is not None and owner.type == "stream"
    try:
        properties = _properties(header_of(message)[PROPERTIES_AT:])
    except ValueError as error:
        properties, damage = NO_PROPERTIES, str(error)
    key_at = 1 + message.route[0]
    return (
        vhost,
        queue,
        message.position,
        None if stream else message.position,
        message.body,
        message.route[1:key_at],
        message.route[key_at + 1 :],
        *properties,
        len(message.body),
        bool(message.flags & PERSISTENT),
        None if stream else found.delivered,
        max(message.delivery_count, int(found.delivered)) if owner is not None and owner.type == "quorum" else None,
        _time(message.expires_at) if stream else None,
        None if stream else _time(message.expires_at),
        _time(found.due_at),
        _death(message.flags),
        found.queue_id,
        found.lane,
        found.segment,
        message.body_id or None,
        damage,
    )


def _damaged(found: Found, position: int, reason: str, vhost: str | None, queue: str | None) -> tuple[Any, ...]:
    values = {
        "vhost": vhost,
        "queue": queue,
        "position": position,
        "queue_id": found.queue_id,
        "lane": found.lane,
        "segment": found.segment,
        "damage": reason,
    }
    return tuple(values.get(name) for name in SCHEMA.names)


NO_PROPERTIES = (None,) * len(PROPERTIES)


@lru_cache(PROPERTIES_CACHED)
def _properties(encoded: bytes) -> tuple[Any, ...]:
    """What PROPERTIES names, as columns have it. Raises ValueError."""
    values = dict(zip(PROPERTIES, properties_of(bytes(PROPERTIES_AT) + encoded), strict=True))
    values["headers"] = headers_to_json(values["headers"])
    values["timestamp"] = microseconds(values["timestamp"])
    return tuple(values.values())


def _time(milliseconds: int) -> int | None:
    return milliseconds * 1000 if 0 < milliseconds <= LAST_MILLISECOND else None


def _death(flags: int) -> str | None:
    number = flags >> DEATH_SHIFT & DEATH_MASK
    return DEATHS[number] if number < len(DEATHS) else None


def plain(name: str) -> str:
    """A name from the definitions as text: what is no UTF-8 is shown with escapes."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
