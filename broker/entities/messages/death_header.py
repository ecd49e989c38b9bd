"""What becomes of a message that dies in a queue with a dead-letter exchange.

The message is published again, with a note of where and why it died: the `x-death` header, an array of
tables, latest first, one per queue and reason with a count. The time to live goes from the properties into
that note, so that the message does not die of it again. RabbitMQ 3.10 on the wire is the model for fields and
their order; the headers `x-last-death-...` are 3.13's.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

from broker.entities.messages.message import BccMessage, Message, copied_to, route_of
from broker.wire.field_tables import INTEGER_KINDS, Field, Table, plain_value, string
from broker.wire.properties import BasicProperties, body_size, decode_properties, encode_header
from storage.batch import PERSISTENT

Deaths = list[Field]

COUNT_MAX = (1 << 63) - 1

DEATHS_MAX = 64
"""In how many ways a message may have died, by queue and reason: its dead letter grows with each, and one that falls
from queue to queue does so in one turn. Then it is gone."""

REMEMBERED_BYTES_MAX = 1024
"""Of longer headers few dead letters are remembered."""
LONG_BYTES_MAX = 16_384
"""Of longer headers than this, which is more than deaths alone can make, none is."""


def alike(messages: Sequence[Message]) -> list[list[Message]]:
    """Messages in order, those side by side that differ in their bodies only together."""
    return [list(group) for _, group in groupby(messages, _what_letters_share)]


class DeadLetter(NamedTuple):
    """What the dead letters of alike messages have in common: all but the body."""

    route: bytes
    header: bytes
    flags: int
    """As the publisher said. Some queues keep what was published as transient; its dead letter is transient again."""
    priority: int
    open_keys: tuple[str, ...]
    blind_keys: tuple[str, ...]
    headers: Table

    def of(self, dead: Message) -> Message:
        """The message to publish in place of a dead one."""
        message = Message(self.route, self.header, dead.body, self.flags)
        message.priority = self.priority
        return BccMessage.of(message, self.header, self.blind_keys) if self.blind_keys else message

    @property
    def keys(self) -> tuple[str, ...]:
        """Every key the dead letter is routed by."""
        return self.open_keys + self.blind_keys

    def in_circle(self, queue: str) -> bool:
        """It would come back to a queue it has died in, unrejected on the way; or it died too often."""
        history = _deaths(self.headers.get("x-death"))
        names = [_text(death, "queue") for death in history]
        if queue not in names:
            return len(history) > DEATHS_MAX
        circle = history[: names.index(queue) + 1]
        return all(_text(death, "reason") != "rejected" for death in circle)


def write(
    message: Message,
    queue: str,
    reason: str,
    now: int,
    exchange: str,
    routing_key: str | None,
    *,
    last_deaths: bool = True,
) -> DeadLetter:
    """The dead letter to publish to `exchange` for a message that died in a queue. `now` is in milliseconds.

    `last_deaths`: with the headers x-last-death-*.
    """
    size = len(message.header)
    writer = _write_again if size <= REMEMBERED_BYTES_MAX else _write_long_again if size <= LONG_BYTES_MAX else _write
    blind_keys = tuple(message.blind_keys)
    return writer(
        message.route, message.header, blind_keys, queue, reason, now // 1000, exchange, routing_key, last_deaths
    )


_what_letters_share = attrgetter("route", "header", "flags", "blind_keys")


def _write(
    route: bytes,
    header: bytes,
    blind_keys: tuple[str, ...],
    queue: str,
    reason: str,
    now: int,
    exchange: str,
    routing_key: str | None,
    last_deaths: bool,
) -> DeadLetter:
    dead = Message(route, header, b"", 0)
    properties = decode_properties(header)
    headers = dict(properties.headers or {})
    keys = [dead.routing_key, *copied_to(headers)]
    death, before = _death(dead, properties, queue, reason, now, keys), headers.get("x-death")
    headers["x-death"] = Field("A", _counted(before, death))
    for which in (*(["first"] if before is None else []), *(["last"] if last_deaths else [])):
        headers.update({f"x-{which}-death-{name}": death[name] for name in ("reason", "queue", "exchange")})
    if routing_key is not None:
        headers.pop("CC", None)
    changes: dict[str, Any] = {"headers": dict(sorted(headers.items())), "expiration": None}
    key = dead.routing_key if routing_key is None else routing_key
    return DeadLetter(
        route_of(exchange, key),
        encode_header(body_size(header), properties._replace(**changes)),
        PERSISTENT if properties.delivery_mode == 2 else 0,
        properties.priority or 0,
        (key, *copied_to(headers)),
        () if routing_key is not None else blind_keys,
        headers,
    )


_write_again = lru_cache(maxsize=256)(_write)
"""Messages that die together are mostly alike, and so are their letters, second by second."""
_write_long_again = lru_cache(maxsize=8)(_write)
"""The same where many deaths have made the letters long, and writing one takes up to a millisecond."""


def _deaths(field: Field | None) -> list[Table]:
    """The deaths in an x-death header, latest first."""
    if field is None or field.kind != "A":
        return []
    found: Any = field.value
    return [entry.value for entry in found if entry.kind == "F"]


def _death(message: Message, properties: BasicProperties, queue: str, reason: str, now: int, keys: list[str]) -> Table:
    death: Table = {
        "count": Field("l", 1),
        "reason": string(reason),
        "queue": string(queue),
        "time": Field("T", now),
        "exchange": string(message.exchange),
        "routing-keys": Field("A", [string(key) for key in keys]),
    }
    if properties.expiration is not None:
        death["original-expiration"] = string(properties.expiration)
    return death


def _counted(before: Field | None, death: Table) -> Deaths:
    """The deaths with one more among them: the same queue and reason counts on, and moves to the front.

    Of several with one queue and reason, which only a publisher can have written, the latest stays. Only a
    message's first death has its fields in the order they are written in; RabbitMQ sorts the later ones.
    """
    history: dict[tuple[str, str], Table] = {}
    for old in _deaths(before):
        history.setdefault(_place(old), old)
    same = history.pop(_place(death), None)
    if same is not None:
        death = {**same, "count": Field("l", min(_count(same) + 1, COUNT_MAX))}
    if before is not None and before.kind == "A":
        death = dict(sorted(death.items()))
    return [Field("F", entry) for entry in (death, *history.values())]


def _place(death: Table) -> tuple[str, str]:
    """Queue and reason."""
    return _text(death, "queue"), _text(death, "reason")


def _count(death: Table) -> int:
    """How often it says; publishers may have written what they like there."""
    field = death.get("count")
    return field.value if field is not None and field.kind in INTEGER_KINDS else 0


def _text(table: Table, name: str) -> str:
    field = table.get(name)
    return plain_value(field) if field is not None and isinstance(field.value, bytes) else ""
