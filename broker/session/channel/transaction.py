"""A channel in tx mode: publishes and settlements kept until tx.commit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

from broker.entities.messages.message import QueuedMessage
from broker.session.channel.old_deliveries import Taken


class Settlement(NamedTuple):
    """Deliveries that are settled at the commit, or some in each turn, and how."""

    how: Callable[[list[QueuedMessage]], None]
    entries: Taken

    def settle(self, messages: int) -> int:
        """Settle so many of them, the first that are left; how many that were."""
        some = self.entries.first(messages)
        self.how(some)
        return len(some)


class Transaction:
    """What the channel has asked for since the last commit or rollback.

    Publishes were checked when they came (RabbitMQ reports errors at once), so that a commit cannot fail on them, save
    where a queue that is full refuses one: `refused` says so.
    """

    __slots__ = ("bytes", "publishes", "refused", "settled", "settlements")

    def __init__(self) -> None:
        self.bytes = 0  # what the publishes take, roughly
        self.publishes: list[Callable[[], int]] = []
        """Each puts one message into queues, and says into how many, 1 at least."""
        self.settlements: list[Settlement] = []
        self.settled: dict[int, QueuedMessage] = {}
        self.refused = False

    def clear(self) -> None:
        """Start over."""
        self.bytes = 0
        self.publishes = []
        self.settlements = []
        self.settled = {}
        self.refused = False


class Leaving(Protocol):
    """Deliveries that are settled or given back, some in each turn."""

    def values(self) -> Iterator[QueuedMessage]:
        """Those that are left."""


def unfinished(transaction: Transaction | None, settling: Sequence[Leaving]) -> Iterator[QueuedMessage]:
    """Deliveries that were settled in a transaction, or are being settled, and are out until then."""
    if transaction is not None:
        yield from transaction.settled.values()
    for leaving in settling:
        yield from leaving.values()
