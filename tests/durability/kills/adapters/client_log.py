"""A client's actions and observations by connection, to hold the broker's event log against.

A logging adapter stands between a scenario and its client adapter. The log itself names the connection: the first
publish over each goes nowhere, with the connection's name as its routing key. From there on publishes are counted as
the channel counts them, and deliveries and settlements have their tags.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.durability.kills.adapters.client_adapter import ClientAdapter, Delivery, Publication, Verdict

STAMP = "x-leveret-message-id"
GREETING = "connection "


class Sent(NamedTuple):
    """A message that was handed to the library: the scenario's number of it, and what the log must say of it."""

    number: int
    exchange: str
    routing_key: str
    size: int
    persistent: bool


class Seen(NamedTuple):
    """A delivery that has come. `position` is what the broker has stamped on it."""

    queue: str
    position: int
    redelivered: bool


class Settled(NamedTuple):
    """A settlement that the client was about to send, and the number of its publishes before."""

    tag: int
    verdict: Verdict
    behind: int


@dataclass
class ConnectionLog:
    """One connection of a client. Publishes are numbered from 1; the greeting before them has no number."""

    name: str
    client: str
    published: list[Sent] = field(default_factory=list)
    confirmed: set[int] = field(default_factory=set)
    delivered: dict[int, Seen] = field(default_factory=dict)
    settled: list[Settled] = field(default_factory=list)


class LoggingAdapter:
    """An adapter that writes down what another one does: what goes out before it goes, what comes when it comes."""

    def __init__(
        self, adapter: ClientAdapter, name: str, connections: list[ConnectionLog], *, transactional: bool
    ) -> None:
        self.adapter = adapter
        self.lost = adapter.lost
        self._name = name
        self._connections = connections
        self._transactional = transactional
        self._log = ConnectionLog("", name)
        self._uncommitted: list[Settled] = []
        self._open: list[int] = []

    def connect(self, given_up: Callable[[], bool]) -> None:
        self.adapter.connect(given_up)
        self._log = ConnectionLog(f"{GREETING}{len(self._connections)} {self._name}", self._name)
        self._connections.append(self._log)
        self._uncommitted, self._open = [], []
        self.adapter.publish([Publication(0, b"", "", self._log.name, persistent=False)], lambda number: None)

    def publish(self, publications: Sequence[Publication], confirmed: Callable[[int], None]) -> None:
        log, places = self._log, dict[int, int]()
        for one in publications:
            log.published.append(Sent(one.number, one.exchange, one.key, len(one.body), one.persistent))
            places[one.number] = len(log.published)

        def note(number: int) -> None:
            log.confirmed.add(places[number])
            confirmed(number)

        self.adapter.publish(publications, note)

    def take(self) -> list[Delivery]:
        taken = self.adapter.take()
        for delivery in taken:
            tag = _tag(delivery)
            seen = Seen(delivery.queue, int(delivery.headers[STAMP]), delivery.redelivered)
            assert tag not in self._log.delivered, f"{self._log.name}: delivery tag {tag} came twice"
            self._log.delivered[tag] = seen
            self._open.append(tag)
        return taken

    def settle(self, verdicts: Sequence[tuple[Delivery, Verdict]]) -> None:
        noted = self._uncommitted if self._transactional else self._log.settled
        for delivery, verdict in verdicts:
            tag = _tag(delivery)
            tags = [one for one in self._open if one <= tag] if verdict is Verdict.ACK_ALL else [tag]
            for one in tags:
                self._open.remove(one)
                noted.append(Settled(one, verdict, len(self._log.published)))
        self.adapter.settle(verdicts)

    def commit(self) -> None:
        """Settlements of the transaction come behind its publishes."""
        count = len(self._log.published)
        self._log.settled += [one._replace(behind=count) for one in self._uncommitted]
        self._uncommitted = []
        self.adapter.commit()
        self._log.confirmed |= set(range(1, count + 1))

    def consume(self, queue: str) -> None:
        self.adapter.consume(queue)

    def close(self) -> None:
        self.adapter.close()


def _tag(delivery: Delivery) -> int:
    """Libraries hand over a delivery tag, or a message that has one."""
    return int(getattr(delivery.handle, "delivery_tag", delivery.handle))
