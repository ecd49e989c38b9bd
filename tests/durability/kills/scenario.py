"""The clients' work: publish, consume, settle, each with its ledger, over any number of lives of the broker."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.clients.shorthand import exchange_declare, queue_bind, queue_declare
from harness.clients.wire_client import Client
from tests.durability.kills.adapters.client_adapter import ClientAdapter, Delivery, Publication, Verdict
from tests.durability.kills.queue_contents import inspect_ledger
from tests.durability.ledgers.client_ledger import BODY_BYTES_MAX, Chain, ClientLedger, Transaction

PUBLISHED_AT_ONCE_MAX = 12


@dataclass(frozen=True)
class Way:
    """One way that messages go: how they are published, and the homes of the copies that come of it."""

    exchange: str
    key: str
    homes: tuple[str, ...]
    persistent_part: float = 1.0
    delay_milliseconds_max: int = 0
    priority_max: int | None = None


@dataclass(frozen=True)
class Plan:
    """The queues, exchanges and ways of a scenario. The first chain's dead letters are consumed like its home."""

    chains: tuple[Chain, ...]
    ways: tuple[Way, ...]
    consumed: tuple[str, ...]
    arguments: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Arguments of queues that have some."""
    fanouts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Exchanges, and the queues bound to each."""
    delaying: tuple[str, ...] = ()
    """Those of them that delay."""
    body_bytes_max: int = BODY_BYTES_MAX


def choose_verdict(dice: random.Random) -> Verdict | None:
    """Return a settlement for a delivery; None: keep it."""
    chance = dice.random()
    for limit, verdict in (
        (0.65, Verdict.ACK),
        (0.72, Verdict.ACK_ALL),
        (0.85, Verdict.REJECT),
        (0.93, Verdict.REQUEUE),
    ):
        if chance < limit:
            return verdict
    return None


class Traffic:
    """Messages through the queues of a plan, proofs in between; with transactions, each step is one."""

    def __init__(self, name: str, plan: Plan, dice: random.Random, *, transactional: bool = False) -> None:
        self.name = name
        self.transactional = transactional
        self.proofs = f"{name}.proofs"
        self.ledger = ClientLedger(name, self.proofs, plan.chains, plan.body_bytes_max)
        self.tally = self.ledger.tally
        self._plan = plan
        self._dice = dice
        self._outstanding: list[tuple[Delivery, int]] = []

    def set_up(self, client: Client) -> None:
        """Declare what must be there from now on."""
        for queue in self.ledger.queues:
            client.ask(queue_declare(queue, durable=True, arguments=self._plan.arguments.get(queue)))
        for exchange, queues in self._plan.fanouts.items():
            delays = exchange in self._plan.delaying
            kind, arguments = ("x-delayed-message", {"x-delayed-type": "fanout"}) if delays else ("fanout", {})
            client.ask(exchange_declare(exchange, kind, durable=True, arguments=arguments))
            for queue in queues:
                client.ask(queue_bind(queue, exchange))

    def begin(self, adapter: ClientAdapter) -> None:
        """A connection is there: start to consume."""
        if self.transactional:
            self.ledger.transaction = Transaction()
        for queue in self._plan.consumed:
            adapter.consume(queue)

    def step(self, adapter: ClientAdapter) -> None:
        """Do a little. Raises AssertionError for what the broker must not do."""
        publications = [self._publication() for _ in range(self._dice.randint(0, PUBLISHED_AT_ONCE_MAX))]
        if self._dice.random() < 0.5:
            publications.append(self._proof())
        adapter.publish(publications, self.ledger.confirmed)
        self._settle(adapter, self._take(adapter))
        if self.transactional:
            adapter.commit()
            self.ledger.committed()
        elif self._dice.random() < 0.5:
            adapter.publish([self._proof()], self.ledger.confirmed)

    def rest(self, adapter: ClientAdapter) -> None:
        """Say what proves everything before it, and then nothing more."""
        adapter.publish([self._proof()], self.ledger.confirmed)
        if self.transactional:
            adapter.commit()
            self.ledger.committed()

    def _publication(self) -> Publication:
        way, dice = self._dice.choice(self._plan.ways), self._dice
        persistent = dice.random() < way.persistent_part
        priority = None if way.priority_max is None else dice.randint(0, way.priority_max)
        number = self.ledger.publish(way.homes, persistent=persistent, priority=priority or 0)
        headers = {"x-delay": dice.randint(1, way.delay_milliseconds_max)} if way.delay_milliseconds_max else {}
        return Publication(number, self.ledger.body(number), way.exchange, way.key, persistent, priority, headers)

    def _proof(self) -> Publication:
        number = self.ledger.publish([self.proofs])
        return Publication(number, self.ledger.body(number), "", self.proofs)

    def _take(self, adapter: ClientAdapter) -> list[tuple[Delivery, int]]:
        taken = []
        for delivery in adapter.take():
            number = self.ledger.number_of(delivery.body)
            self.ledger.delivered(delivery.queue, number, delivery.redelivered)
            taken.append((delivery, number))
        return taken

    def _settle(self, adapter: ClientAdapter, taken: list[tuple[Delivery, int]]) -> None:
        verdicts = []
        for delivery, number in taken:
            verdict = choose_verdict(self._dice)
            if self.transactional and verdict is not None:
                verdict = Verdict.ACK
            self._outstanding.append((delivery, number))
            if verdict is not None:
                self._note(verdict, delivery, number)
                verdicts.append((delivery, verdict))
        adapter.settle(verdicts)

    def _note(self, verdict: Verdict, delivery: Delivery, number: int) -> None:
        settled = self._outstanding[:] if verdict is Verdict.ACK_ALL else [(delivery, number)]
        for held, of in settled:
            self._outstanding.remove((held, of))
            if verdict is Verdict.REJECT:
                self.ledger.rejected(held.queue, of)
            elif verdict is Verdict.REQUEUE:
                self.ledger.requeued(held.queue, of)
            else:
                self.ledger.acked(held.queue, of)

    def crashed(self) -> None:
        """The broker was killed, and the connection is not used any more."""
        self._outstanding.clear()
        self.ledger.crashed()

    def inspect(self, client: Client) -> list[str]:
        """Look at everything after a restart: what is wrong. Some is settled, for the next life."""
        return inspect_ledger(client, self.ledger, self._dice)
