"""The contents of an open transaction: publishes and settlements kept until tx.commit (`methods/tx_methods.py`)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

from broker.entities.messages.message import QueuedMessage
from broker.entities.scheduling.future import Future
from broker.entities.scheduling.pending_batches import PendingBatches
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

    __slots__ = ("_commits", "bytes", "publishes", "refused", "replies", "settled", "settlements")

    def __init__(self) -> None:
        self.bytes = 0  # approximate memory of the publishes
        self.publishes: list[Callable[[], int]] = []
        """Each puts one message into its queues and returns their number, at least 1."""
        self.replies: list[Callable[[], None]] = []
        """Each delivers one direct reply that waits for the commit, as in RabbitMQ from 4.2 on."""
        self.settlements: list[Settlement] = []
        self.settled: dict[int, QueuedMessage] = {}
        """The deliveries of all settlements, by tag: they count as unacknowledged until the commit."""
        self.refused = False
        self._commits: deque[tuple[int, Future[None]]] = deque()
        """Commits that are not on disk: the batch of each, and the future that is resolved then."""

    def on_disk(self, batches: PendingBatches) -> Future[None]:
        """Return a future that is resolved when the open batch is on disk.

        The waiter is always this object, so the commit policy knows one client that commits again and again.
        """
        committed: Future[None] = Future()
        self._commits.append((batches.wait(self), committed))
        return committed

    def stored(self, batch: int) -> None:
        """Resolve the futures of commits in batches up to this one, which is on disk."""
        while self._commits and self._commits[0][0] <= batch:
            _batch, committed = self._commits.popleft()
            committed.resolve(None)

    def clear(self) -> None:
        """Begin the next transaction."""
        self.bytes = 0
        self.publishes = []
        self.replies = []
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
