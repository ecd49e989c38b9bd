"""The contents of an open transaction: publishes and settlements kept until tx.commit (`methods/tx_methods.py`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

from broker.entities.messages.message import QueuedMessage
from broker.session.channel.packed_deliveries import Taken


class Settlement(NamedTuple):
    """Deliveries to be settled, at a commit or some in each turn, and the function that settles or requeues them."""

    how: Callable[[list[QueuedMessage]], None]
    entries: Taken

    def settle(self, messages: int) -> int:
        """Settle the first of those that are left, at most `messages`; return their number."""
        some = self.entries.first(messages)
        self.how(some)
        return len(some)


class Transaction:
    """The publishes and settlements of a channel since the last commit or rollback.

    Publishes are checked when they arrive, as in RabbitMQ, so a commit does not fail on them, except that a full queue
    may refuse one (overflow reject-publish): then `refused` is set.
    """

    __slots__ = ("bytes", "publishes", "refused", "settled", "settlements")

    def __init__(self) -> None:
        self.bytes = 0  # approximate memory of the publishes
        self.publishes: list[Callable[[], int]] = []
        """Each puts one message into its queues and returns their number, at least 1."""
        self.settlements: list[Settlement] = []
        self.settled: dict[int, QueuedMessage] = {}
        """The deliveries of all settlements, by tag: they count as unacknowledged until the commit."""
        self.refused = False

    def clear(self) -> None:
        """Begin the next transaction."""
        self.bytes = 0
        self.publishes = []
        self.settlements = []
        self.settled = {}
        self.refused = False


class Leaving(Protocol):
    """Deliveries that are being settled or requeued, some in each turn."""

    def values(self) -> Iterator[QueuedMessage]:
        """Return the deliveries that are left."""


def unfinished(transaction: Transaction | None, settling: Sequence[Leaving]) -> Iterator[QueuedMessage]:
    """Yield deliveries that count as unacknowledged still: settled in an open transaction, or being settled."""
    if transaction is not None:
        yield from transaction.settled.values()
    for leaving in settling:
        yield from leaving.values()
