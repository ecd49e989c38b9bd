"""A queue with any combination of limits, priorities and dead letters, against the rules that the model goes by.

tests/models holds the broker's core against those rules; here they are held against what clients see, of RabbitMQ
3.10.8 too. Time plays no part in it.
"""

from __future__ import annotations

import random
from bisect import insort
from typing import Any

import pytest

from broker.entities.arguments.personality import Series
from broker.wire.methods import BasicAck, BasicGetEmpty, BasicGetOk, BasicNack, ConfirmSelect, QueuePurge
from broker.wire.properties import BasicProperties
from harness.clients.amqp_peer import Message
from harness.clients.queue_steps import drain_messages
from harness.clients.shorthand import ack, get, nack, queue_declare
from harness.clients.wire_client import Client
from harness.waiting import eventually
from tests.conformance import Made
from tests.models.random_walk import Step, take_steps
from tests.models.test_limits_model import Item, Rules, combination

STEPS = 60


class Walker:
    """A client, its queue, and the rules that say what it must see."""

    def __init__(
        self, client: Client, queue: str, dead_letter_queue: str, chance: random.Random, series: Series
    ) -> None:
        self.client = client
        self.queue, self.dead_letter_queue = queue, dead_letter_queue
        self.chance = chance
        arguments = combination(chance)
        arguments.pop("message_ttl", None)
        if "dead_letter_exchange" in arguments:
            arguments["dead_letter_routing_key"] = dead_letter_queue
        self.rules = Rules(arguments)
        if series >= (4, 0) and "max_priority" in arguments:  # 0 counts as 1
            self.rules.highest = max(1, self.rules.highest)
        self.serial = 0
        self.tags: list[int] = []
        client.ask(ConfirmSelect(False))
        client.ask(queue_declare(dead_letter_queue, exclusive=True))
        table = {"x-" + name.replace("_", "-"): value for name, value in arguments.items()}
        client.ask(queue_declare(queue, exclusive=True, arguments=table))

    def publish(self) -> None:
        """One message, confirmed or refused."""
        self.serial += 1
        priority, size = self.chance.choice((0, 0, 1, 2, 3, 9, 255)), self.chance.choice((0, 20, 150))
        body = b"%d." % self.serial + b"x" * size
        item = Item(-min(priority, self.rules.highest), self.serial, len(body), 0, True)
        properties = BasicProperties(priority=priority)
        self.client.publish(body, key=self.queue, properties=properties)
        self.client.expect(BasicNack if self.rules.refuses(item.size) else BasicAck)
        self.rules.publish(item, 0)

    def take(self) -> None:
        """The next message, or none."""
        self.client.send(get(self.queue))
        found = self.client.receive()
        if not self.rules.ready:
            assert isinstance(found, BasicGetEmpty), found
            return
        assert isinstance(found, Message), f"{found} instead of {self.rules.ready[0]}"
        assert isinstance(found.method, BasicGetOk)
        item = self.rules.ready.pop(0)
        assert serial_of(found) == item.serial
        assert found.method.message_count == len(self.rules.ready)
        self.rules.held.append(item)
        self.tags.append(found.method.delivery_tag)

    def answer(self, what: str) -> None:
        """Acknowledge, reject or give back one of those taken."""
        if not self.tags:
            return
        index = self.chance.randrange(len(self.tags))
        item, tag = self.rules.held.pop(index), self.tags.pop(index)
        if what == "ack":
            self.client.send(ack(tag))
            return
        self.client.send(nack(tag, requeue=what == "requeue"))
        if what == "requeue":
            insort(self.rules.ready, item)
            self.rules.shorten()
        else:
            self.rules.drop_exhausted(item, "rejected")

    def purge(self) -> None:
        """Drop what is ready."""
        assert self.client.ask(QueuePurge(self.queue, False)).message_count == len(self.rules.ready)
        self.rules.ready.clear()

    def end(self) -> None:
        """Everything that is left, and every dead letter."""
        while self.rules.ready:
            self.take()
        self.take()
        dead_lettered = self.rules.dead_lettered
        eventually(lambda: self._dead_letter_count() == len(dead_lettered), f"{len(dead_lettered)} dead letters")
        assert [
            (serial_of(dead_letter), reason_of(dead_letter))
            for dead_letter in drain_messages(self.client, self.dead_letter_queue)
        ] == dead_lettered

    def _dead_letter_count(self) -> int:
        count: int = self.client.ask(queue_declare(self.dead_letter_queue, passive=True)).message_count
        return count


def serial_of(message: Message) -> int:
    return int(message.body.split(b".", 1)[0])


def reason_of(dead_letter: Message) -> str:
    headers: Any = dead_letter.properties.headers
    reason: bytes = headers["x-death"].value[0].value["reason"].value
    return reason.decode()


@pytest.mark.parametrize("seed", range(15))
def test_walks(client: Client, name: Made, series: Series, seed: int) -> None:
    chance = random.Random(seed)
    walker = Walker(client, name(), name("dead"), chance, series)
    steps: list[Step] = [
        (12, walker.publish),
        (8, walker.take),
        (2, lambda: walker.answer("ack")),
        (5, lambda: walker.answer("requeue")),
        (2, lambda: walker.answer("reject")),
        (1, walker.purge),
    ]
    take_steps(chance, steps, STEPS, check=lambda: None)
    walker.end()
