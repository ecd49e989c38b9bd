"""A client that uses every way a message can come and go, for a broker whose disk fails."""

from __future__ import annotations

import random

from broker.wire.methods import (
    BasicAck,
    BasicDeliver,
    ConfirmSelect,
    QueuePurge,
)
from broker.wire.tables import from_python
from tests.faults.promised import (
    BOTH,
    COPY,
    DEAD,
    DELAYING,
    KEPT,
    LATE,
    LOG,
    PRIORITY_MAX,
    PURGED,
    QUORUM,
    RANKED,
    READER,
    WORK,
    body_of,
    priority_of,
)
from tests.support.client import Client, Message
from tests.support.contents import PERSISTENT, TRANSIENT
from tests.support.shorthand import (
    ack,
    consume,
    exchange_declare,
    nack,
    prefetch,
    queue_bind,
    queue_declare,
    queue_delete,
)

SIZES = (20, 300, 5000)
DELAY_MILLISECONDS = 20

AT_LEAST_ONCE = {
    "x-queue-type": "quorum",
    "x-delivery-limit": 1000,
    "x-dead-letter-exchange": "",
    "x-dead-letter-routing-key": "nowhere",
    "x-dead-letter-strategy": "at-least-once",
    "x-overflow": "reject-publish",
}
"""Arguments of a queue whose dead letters stay with it, because nobody takes them."""


class Publisher:
    """Numbers messages over all its connections."""

    def __init__(self, seed: int) -> None:
        self._choose = random.Random(seed)
        self._number = 0
        self._extra = 0

    def connect(self, client: Client) -> None:
        """Declare everything, and start to consume."""
        self._client, self._tag, self._confirmed, self._held = client, 0, 0, list[int]()
        self._unconfirmed: set[int] = set()
        dead_letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": DEAD}
        priorities = {"x-max-priority": PRIORITY_MAX}
        for name in (KEPT, DEAD, COPY, LATE):
            client.ask(queue_declare(name, durable=True))
        client.ask(queue_declare(PURGED, durable=True, arguments=priorities))
        client.ask(queue_declare(WORK, durable=True, arguments=dead_letters))
        client.ask(queue_declare(RANKED, durable=True, arguments={**dead_letters, **priorities}))
        client.ask(queue_declare(QUORUM, durable=True, arguments=AT_LEAST_ONCE))
        client.ask(exchange_declare(BOTH, "fanout", durable=True))
        stream = {"x-queue-type": "stream", "x-stream-max-segment-size-bytes": 2000}
        client.ask(queue_declare(LOG, durable=True, arguments=stream))
        for name in (WORK, COPY, LOG):
            client.ask(queue_bind(name, BOTH))
        client.ask(
            exchange_declare(DELAYING, "x-delayed-message", durable=True, arguments={"x-delayed-type": "fanout"})
        )
        client.ask(queue_bind(LATE, DELAYING))
        client.ask(ConfirmSelect(False))
        client.ask(prefetch(40))
        for name in (WORK, RANKED, QUORUM):
            client.send(consume(name, name))
        client.send(prefetch(65535))
        client.send(consume(LOG, READER, arguments={"x-stream-offset": "first"}))
        for _ in range(5):
            self._hear_one()

    def step(self) -> None:
        """Say several things, then publish what makes them certain, and hear until it is confirmed."""
        for _ in range(self._choose.choice((1, 3, 8))):
            self._publish()
        for _ in range(self._choose.choice((0, 1, 2))):
            self._answer()
        if self._choose.random() < 0.1:
            self._client.send(QueuePurge(PURGED, False))
        if self._choose.random() < 0.08:
            self._use_a_queue_of_its_own()
        self._send("", KEPT, persistent=True)
        self._hear()

    def _publish(self) -> None:
        exchange, key = self._choose.choice(
            (
                ("", WORK),
                ("", RANKED),
                ("", RANKED),
                ("", QUORUM),
                ("", QUORUM),
                ("", PURGED),
                (BOTH, ""),
                (DELAYING, ""),
            )
        )
        persistent = self._choose.random() < 0.8
        self._send(exchange, key, persistent=persistent)

    def _send(self, exchange: str, key: str, *, persistent: bool) -> None:
        self._number += 1
        self._tag += 1
        self._unconfirmed.add(self._tag)
        body = body_of(self._number, self._choose.choice(SIZES))
        properties = (PERSISTENT if persistent else TRANSIENT)._replace(priority=priority_of(self._number))
        if exchange == DELAYING:
            properties = properties._replace(headers=from_python({"x-delay": DELAY_MILLISECONDS}))
        self._client.publish(body, exchange=exchange, key=key, properties=properties)

    def _answer(self) -> None:
        """Acknowledge or reject some of what is held."""
        if not self._held:
            return
        index = self._choose.choice((0, 0, self._choose.randrange(len(self._held))))
        tag, what = self._held.pop(index), self._choose.random()
        if what < 0.2:
            self._client.send(ack(tag, multiple=True))
            self._held = [held for held in self._held if held > tag]
        elif what < 0.7:
            self._client.send(ack(tag))
        else:
            self._client.send(nack(tag, requeue=what < 0.8))

    def _use_a_queue_of_its_own(self) -> None:
        """Declare a queue, publish to it, and delete the one before it."""
        self._extra += 1
        self._client.send(queue_declare(f"extra {self._extra}", durable=True))
        self._send("", f"extra {self._extra}", persistent=True)
        self._client.send(queue_delete(f"extra {self._extra - 1}"))

    def _hear(self) -> None:
        while self._unconfirmed:
            self._hear_one()

    def _hear_one(self) -> None:
        item = self._client.receive()
        if isinstance(item, Message):
            assert isinstance(item.method, BasicDeliver), item
            if item.method.consumer_tag != READER:
                self._held.append(item.method.delivery_tag)
        elif isinstance(item, BasicAck):
            up_to = item.delivery_tag
            self._unconfirmed = {tag for tag in self._unconfirmed if (tag > up_to if item.multiple else tag != up_to)}
        else:
            assert item.NAME.endswith("-ok"), item
