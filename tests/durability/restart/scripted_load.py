"""The scripted client under load, on one queue: it publishes and consumes over one channel, and keeps a ledger."""

from __future__ import annotations

import random

from broker.wire.methods import BasicAck, BasicDeliver, ConfirmSelect
from harness.clients.contents import PERSISTENT, TRANSIENT
from harness.clients.shorthand import ack, consume, nack, prefetch, queue_declare
from harness.clients.wire_client import Client, Message
from tests.durability.kills.queue_contents import inspect_ledger
from tests.durability.ledgers.client_ledger import PREFETCH, Chain, ClientLedger


class ScriptedLoad:
    """What one client does to its queue, over any number of starts of the broker."""

    def __init__(self, queue: str) -> None:
        self._queue = queue
        self._dice = random.Random(queue)
        self._ledger = ClientLedger(queue, f"{queue}.proofs", [Chain(queue)])
        self._unconfirmed: dict[int, int] = {}
        self._tag = 0

    def set_up(self, client: Client) -> None:
        """Declare the queues."""
        for queue in self._ledger.queues:
            client.ask(queue_declare(queue, durable=True))

    def begin(self, client: Client) -> None:
        """Start publishing and consuming on channel 1 of a new connection."""
        self._unconfirmed.clear()
        self._tag = 0
        client.ask(ConfirmSelect(False))
        client.ask(prefetch(PREFETCH))
        client.ask(consume(self._queue, "c"))

    def step(self, client: Client) -> int:
        """Publish some, take in what has come; return how many this connection has had confirmed."""
        for _ in range(self._dice.randint(1, 20)):
            self._publish(client, self._queue, persistent=self._dice.random() < 0.8)
        self._publish(client, self._ledger.proofs.home, persistent=True)
        for item in [client.receive(), *client.arrived()]:
            if isinstance(item, BasicAck):
                self._confirm(item)
            else:
                assert isinstance(item, Message), item
                self._settle(client, item)
        return self._tag - len(self._unconfirmed)

    def inspect(self, client: Client) -> None:
        """After a kill: hold the whole queue against the ledger, and settle a part of it before the next start."""
        self._ledger.crashed()
        problems = inspect_ledger(client, self._ledger, self._dice)
        assert problems == []

    def _publish(self, client: Client, queue: str, *, persistent: bool) -> None:
        number = self._ledger.publish([queue], persistent=persistent)
        self._tag += 1
        self._unconfirmed[self._tag] = number
        client.publish(self._ledger.body(number), key=queue, properties=PERSISTENT if persistent else TRANSIENT)

    def _confirm(self, confirm: BasicAck) -> None:
        tags = [confirm.delivery_tag]
        if confirm.multiple:
            tags = [tag for tag in self._unconfirmed if tag <= confirm.delivery_tag]
        for tag in tags:
            self._ledger.confirmed(self._unconfirmed.pop(tag))

    def _settle(self, client: Client, message: Message) -> None:
        assert isinstance(message.method, BasicDeliver)
        number, tag, chance = self._ledger.number_of(message.body), message.method.delivery_tag, self._dice.random()
        self._ledger.delivered(self._queue, number, message.method.redelivered)
        if chance < 0.85:
            self._ledger.acked(self._queue, number)
            client.send(ack(tag))
        elif chance < 0.95:
            self._ledger.requeued(self._queue, number)
            client.send(nack(tag))
