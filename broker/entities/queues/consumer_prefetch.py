"""One consumer and its credit: its prefetch count less its unacknowledged messages, limited by its channel."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from broker.entities.messages.message import QueuedMessage
    from broker.entities.queues.queue import Queue
    from broker.wire.field_tables import Table

UNLIMITED: Final = 1 << 32
"""Credit of a consumer without a limit."""


class Outlet(Protocol):
    """The channel behind a consumer."""

    client_name: str
    """The name of its connection, as its client has given it."""

    def room(self) -> int:
        """Return how many more messages the channel can send now: 0 while its connection's output is full."""

    prefetch_all: int
    """Limit on the unacknowledged messages of all its consumers together; 0: none. With a limit the channel chooses
    the next consumer when messages are settled."""

    def allowance(self) -> int:
        """Return how many more unacknowledged messages all its consumers together may have."""

    def deliver(self, consumer: Consumer, entries: Sequence[QueuedMessage]) -> None:
        """Send messages to the client. They are within the consumer's credit."""

    def unacked_of(self, queue: Queue) -> Iterable[QueuedMessage]:
        """Return the unacknowledged messages of a queue on this channel."""

    def cancelled(self, consumer: Consumer) -> None:
        """Send basic.cancel: the queue is deleted, and its consumer with it."""


class Consumer:
    """One subscription: a tag on a channel, and its prefetch count, 0 for no limit.

    `waiting`: it is in its queue's rotation. A consumer without credit leaves the rotation until `resume`.
    """

    __slots__ = (
        "arguments",
        "ended",
        "exclusive",
        "no_ack",
        "outlet",
        "prefetch",
        "priority",
        "queue",
        "tag",
        "unacked",
        "waiting",
    )

    def __init__(
        self,
        queue: Queue,
        outlet: Outlet,
        tag: str,
        *,
        no_ack: bool,
        exclusive: bool,
        prefetch: int,
        priority: int,
        arguments: Table,
    ) -> None:
        self.queue = queue
        self.outlet = outlet
        self.tag = tag
        self.no_ack = no_ack
        self.exclusive = exclusive
        self.prefetch = prefetch
        self.priority = priority
        self.arguments = arguments
        self.unacked = 0
        self.waiting = False
        self.ended = False

    def credit(self) -> int:
        """Return how many messages it may be given now."""
        room = self.outlet.room()
        if self.no_ack:
            return room if self.outlet.allowance() > 0 else 0
        own = self.prefetch - self.unacked if self.prefetch else UNLIMITED
        return min(room, own, self.outlet.allowance())

    def give(self, entries: Sequence[QueuedMessage]) -> None:
        """Deliver messages to the client, and settle them now if the consumer does not acknowledge."""
        if self.no_ack:
            self.outlet.deliver(self, entries)
            self.queue.finish(entries)
            return
        self.unacked += len(entries)
        size = 0
        for entry in entries:
            entry.consumer = self
            size += entry.size
        self.queue.await_ack(self.outlet, entries, size)
        self.outlet.deliver(self, entries)

    def settled(self, count: int = 1) -> None:
        """Note that messages of this consumer were acknowledged or returned."""
        self.unacked -= count
        if not (self.waiting or (self.outlet.prefetch_all and not self.ended)):
            self.resume()

    def resume(self) -> None:
        """Enter the rotation again, because there may be credit, unless the subscription has ended."""
        self.queue.consumers.enlist(self)
