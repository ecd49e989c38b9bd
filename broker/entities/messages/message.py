"""A message, what routing asks of it, and its place in a queue."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from broker.entities.scheduling.future import Future
from broker.wire.field_tables import Fields, Table
from broker.wire.properties import decode_properties
from storage.batch import BLIND, PERSISTENT

_SIZE_BYTES = 4
"""Of the size before each blind key, and of that behind all of them."""

SHORT_STRING_BYTES = 255
"""Names of exchanges and routing keys are no longer."""


class Message:
    """What was published. Never changed afterwards: queues, consumers and the store share it.

    `route` is exchange and routing key as two short strings, `header` the content header's payload: both stay
    the bytes the publisher sent, and go out again as they are. `expiration` is the publisher's time to live
    in milliseconds, None without one. `number` is the event log's; unset where events are not recorded.
    """

    __slots__ = ("body", "body_id", "expiration", "flags", "header", "number", "priority", "route")

    number: int

    def __init__(self, route: bytes, header: bytes, body: bytes, flags: int) -> None:
        self.route = route
        self.header = header
        self.body = body
        self.flags = flags
        self.body_id = 0
        self.expiration: int | None = None
        self.priority = 0

    def copy(self) -> Message:
        """One that may be changed before it is published."""
        return self._like_this(Message(self.route, self.header, self.body, self.flags))

    def _like_this(self, copied: Message) -> Message:
        copied.body_id, copied.expiration, copied.priority = self.body_id, self.expiration, self.priority
        if hasattr(self, "number"):
            copied.number = self.number
        return copied

    @property
    def persistent(self) -> bool:
        """Published with delivery mode 2."""
        return bool(self.flags & PERSISTENT)

    @property
    def exchange(self) -> str:
        """The exchange it was published to."""
        return _text(self.route[1 : 1 + self.route[0]])

    @property
    def routing_key(self) -> str:
        """The routing key it was published with."""
        return _text(self.route[2 + self.route[0] :])

    @property
    def blind_keys(self) -> list[str]:
        """The BCC header's routing keys, which are not delivered."""
        return []

    @property
    def stored_header(self) -> bytes:
        """The header as it is stored, for messages whose flags say that it is more than the header."""
        return self.header


class BccMessage(Message):
    """A message with a BCC header, which is no longer in it: its keys count again when it becomes a dead letter."""

    __slots__ = ("_keys",)

    def __init__(self, route: bytes, header: bytes, body: bytes, flags: int, keys: bytes) -> None:
        super().__init__(route, header, body, flags | BLIND)
        self._keys = keys

    def copy(self) -> Message:
        """One that may be changed before it is published."""
        return self._like_this(BccMessage(self.route, self.header, self.body, self.flags, self._keys))

    @classmethod
    def of(cls, message: Message, header: bytes, keys: Iterable[str]) -> BccMessage:
        """The message with another header, and with blind keys."""
        encoded = (key.encode("utf-8", "surrogateescape") for key in keys)
        joined = b"".join(len(key).to_bytes(_SIZE_BYTES, "big") + key for key in encoded)
        copied = cls(message.route, header, message.body, message.flags, joined)
        copied.expiration, copied.priority = message.expiration, message.priority
        return copied

    @classmethod
    def restored(cls, route: bytes, stored_header: bytes, body: bytes, flags: int) -> BccMessage:
        """The message as the store gives it back."""
        end = len(stored_header) - _SIZE_BYTES
        size = int.from_bytes(stored_header[end:], "big")
        return cls(route, stored_header[: end - size], body, flags, stored_header[end - size : end])

    @property
    def blind_keys(self) -> list[str]:
        """The keys of the BCC header."""
        keys, at = [], 0
        while at < len(self._keys):
            start = at + _SIZE_BYTES
            at = start + int.from_bytes(self._keys[at:start], "big")
            keys.append(_text(self._keys[start:at]))
        return keys

    @property
    def stored_header(self) -> bytes:
        """The header, the keys as AMQP long strings, and how many bytes those are."""
        return self.header + self._keys + len(self._keys).to_bytes(_SIZE_BYTES, "big")


def route_of(exchange: str, routing_key: str) -> bytes:
    """Exchange and routing key as two short strings.

    Raises ValueError when either is longer than 255 bytes.
    """
    names = exchange.encode("utf-8", "surrogateescape"), routing_key.encode("utf-8", "surrogateescape")
    return b"".join(bytes((len(name),)) + name for name in names)


def headers_of(message: Message) -> Table:
    """A message's headers; empty without any."""
    return decode_properties(message.header).headers or {}


def keys_of(message: Message) -> list[str]:
    """Every key a message is routed by: its own and those copied to, openly or blindly."""
    return [message.routing_key, *copied_to(headers_of(message)), *message.blind_keys]


def copied_to(headers: Fields) -> list[str]:
    """The routing keys that the header CC names; what is none of that is passed over."""
    field = headers.get("CC")
    values: Any = field.value if field is not None and field.kind == "A" else []
    return [_text(value.value) for value in values if value.kind == "S"]


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


class OriginQueue(Protocol):
    """A queue, as its messages know it: where they come back to."""

    name: str
    durable: bool
    stored_up_to: int
    """Everything that it gave to the store up to this position is on disk."""
    returned_last: bool
    """A message that comes back stands behind those that did before, not where it was."""

    @property
    def may_time_out(self) -> bool:
        """Its deliveries have to be acknowledged in some time."""

    @property
    def consumer_timeout(self) -> int | None:
        """How long a delivery of it may be unacknowledged, in milliseconds; 0: for ever, None: it does not say."""

    def settle(self, entries: Sequence[QueuedMessage]) -> None:
        """Delivered messages are acknowledged."""

    def requeue(self, entries: Sequence[QueuedMessage], *, abandoned: bool = False) -> None:
        """Delivered messages come back, given back or `abandoned` by a channel that has ended."""

    def expect(self, back: Future[None]) -> None:
        """Messages come back, some in each turn: nothing is delivered before all have, when `back` is settled."""

    def reject(self, entries: Sequence[QueuedMessage]) -> None:
        """Delivered messages are not wanted, here or anywhere."""


class Receiver(Protocol):
    """A consumer, as the messages that are out with it know it."""

    tag: str
    arguments: Table
    unacked: int

    def settled(self, count: int = 1) -> None:
        """Messages it held are acknowledged or given back."""


class QueuedMessage:
    """One message's place in one queue, from the publish until it is settled.

    `message` is None while it is only on disk. `stored` says that the position has been given to the store,
    `persistent` that it survives a restart there. `consumer` is set while a consumer's delivery is unsettled.
    `level` is the priority the message has here; only queues with priorities set it.
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
    """How often it was handed out. Only quorum queues count, and say so in the message."""

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
        """It goes out once more; how often it has by now, 0 where that is not counted."""
        return 0

    def show(self, count: int, headers: Iterable[str]) -> None:
        """Have the message say how often it was handed out before, where that is counted."""

    def conceal(self) -> None:
        """Have the message be as it was published."""

    @property
    def kind(self) -> tuple[object, ...]:
        """What it shares with others of its kind: all but position, size and time to live, while it has no content."""
        return self.queue, self.consumer, self.persistent, self.stored, self.redelivered, self.deliveries, self.level

    def another(self, position: int, size: int, expires_at: int) -> QueuedMessage:
        """Another one of its kind, without its content."""
        return self._alike(QueuedMessage(self.queue, position, None, size, expires_at))

    def _alike(self, entry: QueuedMessage) -> QueuedMessage:
        entry.persistent, entry.stored, entry.redelivered = self.persistent, self.stored, self.redelivered
        entry.consumer, entry.level = self.consumer, self.level
        return entry

    def release(self) -> None:
        """Let the content go from memory if it is on disk: it can be read again."""
        if self.stored and self.position <= self.queue.stored_up_to:
            self.message = None
