"""Messages, their routing keys and headers, and `QueuedMessage`, a message in one queue."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from broker.entities.scheduling.future import Future
from broker.wire.field_tables import Fields, Table
from broker.wire.properties import decode_properties
from storage.batch import BLIND, PERSISTENT, MessageRecord

_SIZE_BYTES = 4
"""Bytes of the length prefix of each BCC key, and of the trailing total."""

_FLAGS_AT, _PRIORITY_FLAG = 12, 0x08
"""The byte of a content header that says which of its properties are there, and the bit of the priority."""

_LOW_BITS, _HIGH_BITS, _LOW_AT, _HIGH_AT = 0b11111, 0b1111, 3, 11
"""A dead letter's delivery count: five bits of a record's flags from bit 3 on, four more from bit 11 on."""

CARRIED = _LOW_BITS << _LOW_AT | _HIGH_BITS << _HIGH_AT
"""The record flags with the delivery count that a dead letter carries from the queue where it died to the next."""
CARRIED_MAX = 511
"""Larger counts are carried as this."""

PUBLISHED_DEATHS = 1 << 15
"""Record flag: the publisher has written the x-death header, and the broker's replaces it (RabbitMQ 4)."""

SHORT_STRING_BYTES = 255
"""Most bytes of an exchange name or routing key."""


class Message(MessageRecord):
    """A published message. Immutable once published: queues, consumers and the store share it.

    `route`: exchange and routing key as two short strings. `header`: the content header's payload. Both are the bytes
    that the publisher sent, and are delivered unchanged. `expiration`: the publisher's time to live in milliseconds, or
    None. `number`: the event log's; unset if that is off.
    """

    __slots__ = ("expiration", "number", "priority")

    number: int

    def __init__(self, route: bytes, header: bytes, body: bytes, flags: int) -> None:
        super().__init__(route, header, body, flags)
        self.expiration: int | None = None
        self.priority = 0

    def copy(self) -> Message:
        """Return a copy that may be changed until it is published."""
        return self._like_this(Message(self.route, self.header, self.body, self.flags))

    def _like_this(self, copied: Message) -> Message:
        copied.body_id, copied.expiration, copied.priority = self.body_id, self.expiration, self.priority
        if hasattr(self, "number"):
            copied.number = self.number
        return copied

    @property
    def persistent(self) -> bool:
        """Published with delivery mode 2, or kept by a queue that keeps every message."""
        return bool(self.flags & PERSISTENT)

    @property
    def exchange(self) -> str:
        """The exchange to which it was published."""
        return _text(self.route[1 : 1 + self.route[0]])

    @property
    def routing_key(self) -> str:
        """The routing key with which it was published."""
        return _text(self.route[2 + self.route[0] :])

    @property
    def bcc_keys(self) -> list[str]:
        """The routing keys of the BCC header, which is not delivered."""
        return []

    @property
    def given_priority(self) -> int | None:
        """The priority that the publisher gave it; None for none. `priority` is 0 then."""
        return self.priority if self.header[_FLAGS_AT] & _PRIORITY_FLAG else None


class BccMessage(Message):
    """A message published with a BCC header. That is removed, but its keys are kept for a later dead letter."""

    __slots__ = ("_keys",)

    def __init__(self, route: bytes, header: bytes, body: bytes, flags: int, keys: bytes) -> None:
        super().__init__(route, header, body, flags | BLIND)
        self._keys = keys

    def copy(self) -> Message:
        """Return a copy that may be changed until it is published."""
        return self._like_this(BccMessage(self.route, self.header, self.body, self.flags, self._keys))

    @classmethod
    def of(cls, message: Message, header: bytes, keys: Iterable[str]) -> BccMessage:
        """Return a message with another header, and with BCC keys."""
        encoded = (key.encode("utf-8", "surrogateescape") for key in keys)
        joined = b"".join(len(key).to_bytes(_SIZE_BYTES, "big") + key for key in encoded)
        copied = cls(message.route, header, message.body, message.flags, joined)
        copied.expiration, copied.priority = message.expiration, message.priority
        return copied

    @classmethod
    def restored(cls, route: bytes, stored_header: bytes, body: bytes, flags: int) -> BccMessage:
        """Return the message of a stored record."""
        end = len(stored_header) - _SIZE_BYTES
        size = int.from_bytes(stored_header[end:], "big")
        return cls(route, stored_header[: end - size], body, flags, stored_header[end - size : end])

    @property
    def bcc_keys(self) -> list[str]:
        """The routing keys of the BCC header."""
        keys, at = [], 0
        while at < len(self._keys):
            start = at + _SIZE_BYTES
            at = start + int.from_bytes(self._keys[at:start], "big")
            keys.append(_text(self._keys[start:at]))
        return keys

    @property
    def stored_header(self) -> bytes:
        """The header, the keys as AMQP long strings, and the total bytes of the keys."""
        return self.header + self._keys + len(self._keys).to_bytes(_SIZE_BYTES, "big")


def carried_count(flags: int) -> int:
    """Return the delivery count that a message carries from the queue where it died."""
    return flags >> _LOW_AT & _LOW_BITS | (flags >> _HIGH_AT & _HIGH_BITS) << _LOW_BITS.bit_length()


def carrying(message: Message, count: int) -> Message:
    """Return a message that carries a delivery count: itself if it does."""
    if carried_count(message.flags) == (count := min(count, CARRIED_MAX)):
        return message
    copied = message.copy()
    high = count >> _LOW_BITS.bit_length()
    copied.flags = copied.flags & ~CARRIED | (count & _LOW_BITS) << _LOW_AT | high << _HIGH_AT
    return copied


def route_of(exchange: str, routing_key: str) -> bytes:
    """Return exchange and routing key as two short strings.

    Raises ValueError if either is longer than 255 bytes.
    """
    names = exchange.encode("utf-8", "surrogateescape"), routing_key.encode("utf-8", "surrogateescape")
    return b"".join(bytes((len(name),)) + name for name in names)


def headers_of(message: Message) -> Table:
    """Return a message's headers, an empty table if it has none."""
    return decode_properties(message.header).headers or {}


def keys_of(message: Message) -> list[str]:
    """Return every key by which a message is routed: its routing key and those of CC and BCC."""
    return [message.routing_key, *copied_to(headers_of(message)), *message.bcc_keys]


def copied_to(headers: Fields) -> list[str]:
    """Return the routing keys of the header CC; values that are not strings are skipped."""
    field = headers.get("CC")
    values: Any = field.value if field is not None and field.kind == "A" else []
    return [_text(value.value) for value in values if value.kind == "S"]


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


class OriginQueue(Protocol):
    """A queue as its messages use it: what settles and requeues them."""

    name: str
    durable: bool
    stored_up_to: int
    """All its puts up to this position are on disk."""
    returned_last: bool
    """A requeued message goes behind those requeued before, not to its former position."""

    @property
    def may_time_out(self) -> bool:
        """The consumer timeout applies to its deliveries."""

    @property
    def consumer_timeout(self) -> int | None:
        """The queue's own consumer timeout in milliseconds; 0: none, None: the default applies."""

    def settle(self, entries: Sequence[QueuedMessage]) -> None:
        """Settle acknowledged messages."""

    def requeue(self, entries: Sequence[QueuedMessage], *, abandoned: bool = False, rejected: bool = False) -> None:
        """Requeue delivered messages; `abandoned`: their channel has ended; `rejected`: by basic.reject."""

    def expect(self, back: Future[None]) -> None:
        """Deliver nothing until `back` is settled, when a requeue over several turns is complete."""

    def reject(self, entries: Sequence[QueuedMessage]) -> None:
        """Reject delivered messages without requeue."""


class Receiver(Protocol):
    """A consumer as its unacknowledged messages use it."""

    tag: str
    arguments: Table
    unacked: int

    def settled(self, count: int = 1) -> None:
        """Note that messages of this consumer were acknowledged or returned."""


class QueuedMessage:
    """A message in one queue, from the publish until it is settled.

    `message` is None while its content is on disk only. `stored`: it was put into the store; `persistent`: it survives
    a restart there. `consumer` is set while a consumer's delivery is unacknowledged. `level`: the message's priority,
    set only in queues with priorities.
    """

    __slots__ = (
        "consumer",
        "expires_at",
        "level",
        "message",
        "persistent",
        "position",
        "queue",
        "redelivered",
        "size",
        "stored",
    )

    deliveries = 0
    """Number of deliveries. Only quorum queues count them."""
    uncounted = 0
    """Deliveries that do not count for a delivery limit."""
    read_back = False
    """A quorum queue has read it from disk, and not delivered it since."""

    def __init__(self, queue: OriginQueue, position: int, message: Message | None, size: int, expires_at: int) -> None:
        self.queue = queue
        self.position = position
        self.message = message
        self.size = size
        self.expires_at = expires_at
        self.persistent = False
        self.stored = False
        self.redelivered = False
        self.consumer: Receiver | None = None
        self.level = 0

    def hand_out(self) -> int:
        """Count one more delivery; return the count, 0 if deliveries are not counted."""
        return 0

    def uncount(self) -> None:
        """Have the last delivery not count for a delivery limit, if deliveries are counted."""

    def show(self, counts: Table) -> None:
        """Put delivery counts among the headers of the message, if deliveries are counted."""

    def conceal(self) -> None:
        """Restore the message as it was published."""

    def failures(self, reason: str) -> int:
        """Return the delivery count with which it dies for a reason: of classic queues, rejections count."""
        carried = 0 if self.message is None else carried_count(self.message.flags)
        return carried + (reason == "rejected")

    @property
    def kind(self) -> tuple[object, ...]:
        """Everything except content, position, size and expiry time; equal kinds are packed together."""
        counts = self.deliveries, self.uncounted
        return self.queue, self.consumer, self.persistent, self.stored, self.redelivered, counts, self.level

    def another(self, position: int, size: int, expires_at: int) -> QueuedMessage:
        """Return another message of the same `kind`, without content."""
        return self._alike(QueuedMessage(self.queue, position, None, size, expires_at))

    def _alike(self, entry: QueuedMessage) -> QueuedMessage:
        entry.persistent, entry.stored, entry.redelivered = self.persistent, self.stored, self.redelivered
        entry.consumer, entry.level = self.consumer, self.level
        return entry

    def release(self) -> None:
        """Drop the content from memory if it is on disk, where it can be read again."""
        if self.stored and self.position <= self.queue.stored_up_to:
            self.message = None
