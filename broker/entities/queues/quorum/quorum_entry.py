"""A message in a quorum queue, its delivery counts, and the headers that show them."""

from __future__ import annotations

from broker.entities.messages.message import Message, OriginQueue, QueuedMessage
from broker.wire.field_tables import Field, Table
from broker.wire.properties import decode_properties, encode_header


class QuorumEntry(QueuedMessage):
    """A message in a quorum queue.

    `deliveries` counts its deliveries, `uncounted` those of them that do not count for the delivery limit: negative if
    it counted before it came here, as a dead letter. While `message` has the counts in its headers, `original` is the
    message without. `read_back`: it was read from disk and not delivered since.
    """

    __slots__ = ("deliveries", "original", "read_back", "uncounted")

    def __init__(self, queue: OriginQueue, position: int, message: Message | None, size: int, expires_at: int) -> None:
        super().__init__(queue, position, message, size, expires_at)
        self.deliveries = 0
        self.uncounted = 0
        self.original: Message | None = None
        self.read_back = False

    def hand_out(self) -> int:
        """Count one more delivery; return the count."""
        self.deliveries += 1
        self.read_back = False
        return self.deliveries

    def uncount(self) -> None:
        """Have the last delivery not count for the delivery limit."""
        self.uncounted += 1

    def show(self, counts: Table) -> None:
        """Put counts among the headers of the message."""
        self.original = self.original or self.message
        if self.original is not None and counts:
            self.message = _counted(self.original, counts)

    def with_counts(self, counts: Table) -> Message | None:
        """Return the message with counts among its headers; None without content."""
        published = self.original or self.message
        return published if published is None or not counts else _counted(published, counts)

    def conceal(self) -> None:
        """Restore the message as it was published."""
        if self.original is not None:
            self.message, self.original = self.original, None

    def failures(self, reason: str) -> int:
        """Return the delivery count with which it dies."""
        return self.deliveries - self.uncounted

    def another(self, position: int, size: int, expires_at: int) -> QueuedMessage:
        """Return another message of the same `kind`, without content."""
        entry = QuorumEntry(self.queue, position, None, size, expires_at)
        entry.deliveries, entry.uncounted = self.deliveries, self.uncounted
        return self._alike(entry)

    def again(self, position: int) -> QuorumEntry:
        """Return the message at another position of its queue, redelivered, with its counts."""
        entry = QuorumEntry(self.queue, position, self.message, self.size, self.expires_at)
        entry.deliveries, entry.uncounted, entry.level = self.deliveries, self.uncounted, self.level
        entry.redelivered = True
        return entry

    def release(self) -> None:
        """Drop the content from memory if it is on disk, where it can be read again."""
        super().release()
        if self.message is None:
            self.original = None


def _counted(message: Message, counts: Table) -> Message:
    """Return a message with counts among its headers, sorted as RabbitMQ does when it adds one."""
    properties = decode_properties(message.header)
    headers: dict[str, Field] = {**(properties.headers or {}), **counts}
    counted = message.copy()
    counted.header = encode_header(len(message.body), properties._replace(headers=dict(sorted(headers.items()))))
    return counted
