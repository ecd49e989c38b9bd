"""Messages of a stopped broker's store as rows: the columns of the source `amqp`, and those of the store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from leveret_spark.amqp.received_message import PROPERTIES, TIMESTAMP_SECONDS_MAX
from pipeline.stopped_store.stored_values import plain, properties_of
from storage.batch import PERSISTENT, unpacked_counts
from storage.offline.offline_reader import Found, header_of

COLUMNS = (
    "vhost",
    "queue",
    "position",
    "msg_id",
    "body",
    "exchange",
    "routing_key",
    *PROPERTIES,
    "size_bytes",
    "persistent",
    "delivered",
    "delivery_count",
    "published_at",
    "expires_at",
    "due_at",
    "dead_letter",
    "queue_id",
    "lane",
    "segment",
    "shared_body",
    "damage",
)
"""Columns of a row: one for each message, and one with `damage` and no body for each unreadable record."""
TIMES = ("timestamp", "published_at", "expires_at", "due_at")
"""Columns in microseconds since the epoch."""

Row = tuple[Any, ...]
"""Values of COLUMNS; None for a missing one."""

EPOCH = datetime.fromtimestamp(0, UTC)
LAST_MILLISECOND = TIMESTAMP_SECONDS_MAX * 1000
DEATHS = (None, "rejected", "expired", "maxlen", "delivery_limit")
"""Reasons of waiting dead letters, by the number in their flags."""

DEATH_SHIFT, DEATH_MASK = 8, 7


class Owner(NamedTuple):
    """The owner of a lane's messages: a queue, or the exchange (type `delay`) of delayed messages."""

    vhost: str
    name: str
    type: str


def rows(found: Iterator[Found], owners: Mapping[int, Owner]) -> Iterator[Row]:
    """Convert each to a row. A message of a queue that does not exist has no vhost and no queue."""
    return (_row(each, owners.get(each.queue_id)) for each in found)


def readable(row: Row) -> dict[str, Any]:
    """Convert a row to a dict by column, with times as datetimes."""
    values = dict(zip(COLUMNS, row, strict=True))
    return values | {name: EPOCH + timedelta(microseconds=values[name]) for name in TIMES if values[name] is not None}


def _deliveries(found: Found) -> int:
    assert found.message is not None
    return max(unpacked_counts(found.message.delivery_count).all, int(found.delivered))


def _row(found: Found, owner: Owner | None) -> tuple[Any, ...]:
    vhost, queue = (None, None) if owner is None else (plain(owner.vhost), plain(owner.name))
    if found.message is None:
        assert found.damage is not None
        return _damaged(found, found.damage.position, found.damage.reason, vhost, queue)
    message, damage = found.message, None
    stream = owner is not None and owner.type == "stream"
    try:
        properties = properties_of(header_of(message))
    except ValueError as error:
        properties, damage = NO_PROPERTIES, str(error)
    key_at = 1 + message.route[0]
    return (
        vhost,
        queue,
        message.position,
        None if stream else message.position,
        message.body,
        message.route[1:key_at].decode("utf-8", "backslashreplace"),
        message.route[key_at + 1 :].decode("utf-8", "backslashreplace"),
        *properties,
        len(message.body),
        bool(message.flags & PERSISTENT),
        None if stream else found.delivered,
        _deliveries(found) if owner is not None and owner.type == "quorum" else None,
        _time(message.expires_at) if stream else None,  # in a stream this field is the time of publishing
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
    return tuple(values.get(name) for name in COLUMNS)


NO_PROPERTIES = (None,) * len(PROPERTIES)


def _time(milliseconds: int) -> int | None:
    return milliseconds * 1000 if 0 < milliseconds <= LAST_MILLISECOND else None


def _death(flags: int) -> str | None:
    number = flags >> DEATH_SHIFT & DEATH_MASK
    return DEATHS[number] if number < len(DEATHS) else None
