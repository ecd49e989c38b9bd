"""Operations that a scenario asks of any client library."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

RETRY_SECONDS = 0.02
PATIENCE_SECONDS = 300.0
"""Seconds after which an answer counts as never coming: longer than any trouble lasts."""


@dataclass(frozen=True)
class Publication:
    """A message to be published, and the number that its scenario knows it by."""

    number: int
    body: bytes
    exchange: str
    key: str
    persistent: bool = True
    priority: int | None = None
    headers: Mapping[str, Any] = field(default_factory=dict)


class Delivery(NamedTuple):
    """A message that was delivered; `handle` is the library's own."""

    queue: str
    body: bytes
    redelivered: bool
    headers: Mapping[str, Any]
    handle: Any


class Verdict(enum.Enum):
    """A consumer's settlement of a delivery."""

    ACK = enum.auto()
    ACK_ALL = enum.auto()
    """This one and all before it on the channel."""
    REJECT = enum.auto()
    REQUEUE = enum.auto()


class ClientAdapter(Protocol):
    """One connection with one channel. Everything raises one of `lost` when the broker is gone."""

    lost: tuple[type[BaseException], ...]

    def connect(self, given_up: Callable[[], bool]) -> None:
        """Connect, trying again by the library's own means until it can; raises one of `lost` once this is given up.

        It may be called again when the connection is lost, but not after it has failed itself.
        """

    def publish(self, publications: Sequence[Publication], confirmed: Callable[[int], None]) -> None:
        """Publish in order, return when all are confirmed; in a transaction, when all are sent."""

    def consume(self, queue: str) -> None: ...

    def take(self) -> list[Delivery]:
        """Return deliveries that have come, after a short wait."""

    def settle(self, verdicts: Sequence[tuple[Delivery, Verdict]]) -> None:
        """Send these in order."""

    def commit(self) -> None:
        """End the transaction, and begin the next."""

    def close(self) -> None:
        """Let go of everything, whatever state it is in. Raises nothing."""
