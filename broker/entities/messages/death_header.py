"""The x-death header, and the dead letter published in place of a message that died.

`x-death` is an array of tables, latest first, one per queue and reason with a count. The expiration property moves into
it, so that the dead letter does not expire for the same reason. RabbitMQ on the wire is the model for fields and their
order: 3.10 has the expiration last and sorts the fields of later deaths by name; 4 has it first, and sorts nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

from broker.entities.messages.message import CARRIED, PUBLISHED_DEATHS, BccMessage, Message, copied_to, route_of
from broker.wire.field_tables import INTEGER_KINDS, Field, Table, plain_value, string
from broker.wire.properties import body_size, decode_properties, encode_header
from storage.batch import PERSISTENT

Deaths = list[Field]

COUNT_MAX = (1 << 63) - 1

DEATHS_MAX = 64
"""Most entries of x-death, by queue and reason; a message that would get more is dropped. A dead letter grows with each
entry, and may pass through many queues in one turn."""

REMEMBERED_BYTES_MAX = 1024
"""Size of headers above which only 8 dead letters are cached."""
LONG_BYTES_MAX = 16_384
"""Size of headers above which no dead letters are cached; x-death alone cannot make them as long."""


def alike(messages: Sequence[Message]) -> list[list[Message]]:
    """Return groups of consecutive messages that differ in their bodies only."""
    return [list(group) for _, group in groupby(messages, _what_dead_letters_share)]


class DeathForm(NamedTuple):
    """The form of the headers. `last`: there are x-last-death-*.

    `sorts`: the fields of a death are sorted by name, from the second death on, and the expiration is the last of the
    first one.
    """

    last: bool
    sorts: bool


class DeadLetter(NamedTuple):
    """The common part of the dead letters of alike messages: everything except the body."""

    route: bytes
    header: bytes
    flags: int
    """From the publisher's delivery mode. A quorum queue or stream keeps transient messages; their dead letters are
    transient again."""
    priority: int
    open_keys: tuple[str, ...]
    """The routing key and those of the CC header."""
    bcc_keys: tuple[str, ...]
    headers: Table

    def of(self, dead: Message) -> Message:
        """Return the dead letter of one dead message."""
        message = Message(self.route, self.header, dead.body, self.flags | dead.flags & CARRIED)
        message.priority = self.priority
        return BccMessage.of(message, self.header, self.bcc_keys) if self.bcc_keys else message

    @property
    def keys(self) -> tuple[str, ...]:
        """Every key by which the dead letter is routed."""
        return self.open_keys + self.bcc_keys

    def in_circle(self, queue: str) -> bool:
        """Return whether a dead letter must not enter a queue.

        That is so if it died there before and was rejected nowhere since, or if x-death has more than DEATHS_MAX
        entries.
        """
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
    form: DeathForm,
) -> DeadLetter:
    """Return the dead letter to publish to `exchange` for a message that died in a queue. `now` is in milliseconds."""
    size = len(message.header)
    writer = _write_again if size <= REMEMBERED_BYTES_MAX else _write_long_again if size <= LONG_BYTES_MAX else _write
    bcc_keys, afresh = tuple(message.bcc_keys), bool(message.flags & PUBLISHED_DEATHS)
    return writer(
        message.route, message.header, bcc_keys, queue, reason, now // 1000, exchange, routing_key, form, afresh
    )


_what_dead_letters_share = attrgetter("route", "header", "flags", "bcc_keys")


def _write(
    route: bytes,
    header: bytes,
    bcc_keys: tuple[str, ...],
    queue: str,
    reason: str,
    now: int,
    exchange: str,
    routing_key: str | None,
    form: DeathForm,
    afresh: bool,
) -> DeadLetter:
    """`afresh`: the x-death that is there is not the broker's, and is replaced."""
    dead = Message(route, header, b"", 0)
    properties = decode_properties(header)
    headers = dict(properties.headers or {})
    # As in RabbitMQ, the BCC keys are not in x-death.
    keys = [dead.routing_key, *copied_to(headers)]
    death, before = _death(dead, queue, reason, now, keys), None if afresh else headers.get("x-death")
    if properties.expiration is not None:
        expired = {"original-expiration": string(properties.expiration)}
        death = {**death, **expired} if form.sorts else {**expired, **death}
    headers["x-death"] = Field("A", _counted(before, death, sort=form.sorts))
    for which in (*(["first"] if before is None else []), *(["last"] if form.last else [])):
        headers.update({f"x-{which}-death-{name}": death[name] for name in ("reason", "queue", "exchange")})
    # A dead-letter routing key replaces all keys of the message, so the copies of CC and BCC are not routed again.
    if routing_key is not None:
        headers.pop("CC", None)
    # Without its expiration the dead letter does not expire in the next queue; x-death has the original.
    changes: dict[str, Any] = {"headers": dict(sorted(headers.items())), "expiration": None}
    key = dead.routing_key if routing_key is None else routing_key
    return DeadLetter(
        route_of(exchange, key),
        encode_header(body_size(header), properties._replace(**changes)),
        PERSISTENT if properties.delivery_mode == 2 else 0,
        properties.priority or 0,
        (key, *copied_to(headers)),
        () if routing_key is not None else bcc_keys,
        headers,
    )


_write_again = lru_cache(maxsize=256)(_write)
"""Cached: messages that die in the same second are mostly alike, and so are their dead letters."""
_write_long_again = lru_cache(maxsize=8)(_write)
"""Cached too: long dead letters with many deaths, of which writing one takes up to a millisecond."""


def _deaths(field: Field | None) -> list[Table]:
    """Return the entries of an x-death header, latest first."""
    if field is None or field.kind != "A":
        return []
    found: Any = field.value
    return [entry.value for entry in found if entry.kind == "F"]


def _death(message: Message, queue: str, reason: str, now: int, keys: list[str]) -> Table:
    return {
        "count": Field("l", 1),
        "reason": string(reason),
        "queue": string(queue),
        "time": Field("T", now),
        "exchange": string(message.exchange),
        "routing-keys": Field("A", [string(key) for key in keys]),
    }


def _counted(before: Field | None, death: Table, *, sort: bool) -> Deaths:
    """Return x-death with one more death: an entry of the same queue and reason is counted up and moves to the front.

    Of several entries with one queue and reason, which only a publisher can have written, the latest stays. `sort`:
    only the first death's fields are in the order in which they are written, those of later ones by name.
    """
    history: dict[tuple[str, str], Table] = {}
    for old in _deaths(before):
        history.setdefault(_place(old), old)
    same = history.pop(_place(death), None)
    if same is not None:
        death = {**same, "count": Field("l", min(_count(same) + 1, COUNT_MAX))}
    if sort and before is not None and before.kind == "A":
        death = dict(sorted(death.items()))
    return [Field("F", entry) for entry in (death, *history.values())]


def _place(death: Table) -> tuple[str, str]:
    """Return the queue and reason of an entry, which identify it."""
    return _text(death, "queue"), _text(death, "reason")


def _count(death: Table) -> int:
    """Return the count of an entry; 0 if a publisher has written something else there."""
    field = death.get("count")
    return field.value if field is not None and field.kind in INTEGER_KINDS else 0


def _text(table: Table, name: str) -> str:
    field = table.get(name)
    return plain_value(field) if field is not None and isinstance(field.value, bytes) else ""
