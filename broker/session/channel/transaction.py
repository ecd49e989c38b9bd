"""A channel in tx mode: publishes and settlements kept until tx.commit."""

from __future__ import annotations

from collections.abc import Callable

from broker.entities.messages.message import Entry


class Transaction:
    """What the channel has asked for since the last commit or rollback.

    Publishes were checked when they came (RabbitMQ reports errors at once), so that a commit cannot fail on them, save
    where a queue that is full refuses one: `refused` says so.
    """

    __slots__ = ("bytes", "publishes", "refused", "settled", "settlements")

    def __init__(self) -> None:
        self.bytes = 0  # what the publishes take, roughly
        self.publishes: list[Callable[[], object]] = []
        self.settlements: list[Callable[[], object]] = []
        self.settled: dict[int, Entry] = {}
        self.refused = False

    def clear(self) -> None:
        """Start over."""
        self.bytes = 0
        self.publishes = []
        self.settlements = []
        self.settled = {}
        self.refused = False
