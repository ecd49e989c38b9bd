"""Clients that use every way a message can come and go, one thing after the other or in one breath."""

from __future__ import annotations

import random
from collections import deque
from itertools import count
from typing import Protocol

from broker.wire import methods
from broker.wire.field_tables import from_python
from harness.clients.amqp_peer import Message
from harness.clients.contents import PERSISTENT, TRANSIENT
from harness.clients.shorthand import ack, consume, get, nack, prefetch, queue_declare, queue_delete
from harness.clients.wire_client import Client
from tests.durability.ledgers.pipelining_client import PipeliningClient
from tests.durability.ledgers.topology import (
    BOTH,
    CLIENTS,
    COPY,
    DELAYING,
    FADING,
    FETCHED,
    LOG,
    QUORUM,
    RANKED,
    READER,
    SHORT,
    TX_A,
    TX_BOTH,
    TX_WORK,
    WORK,
    body_of,
    declarations,
    full,
    kept,
    priority_of,
    purged,
)

SIZES = (*(20,) * 8, *(300,) * 8, *(5000,) * 3, 12000)
DELAY_MILLISECONDS = 20


class Worker(Protocol):
    """A client of the workload."""

    def connect(self, client: Client) -> None:
        """Begin a life of the broker."""

    def step(self) -> None:
        """Say several things, and wait until they are certain."""


class Publisher:
    """Publishes everywhere, consumes, gets, rejects, purges and deletes."""

    def __init__(self, index: int, choose: random.Random) -> None:
        self._index = index
        self._choose = choose
        self._numbers = count(CLIENTS + index, CLIENTS)
        self._extra = 0

    def connect(self, client: Client) -> None:
        """Declare everything, start to consume, and purge what an earlier life has left in one queue."""
        self._pipeline = pipeline = PipeliningClient(client, self._choose)
        self._tag, self._held = 0, list[int]()
        self._unconfirmed: set[int] = set()
        self._gets = deque[bool]()  # what was asked for: without acknowledgement?
        for method in declarations(self._index):
            client.ask(method)
        client.ask(methods.ConfirmSelect(False))
        client.ask(prefetch(self._choose.choice((3, 20, 40))))
        for name in (WORK, RANKED, QUORUM):
            pipeline.send(consume(name, name))
        pipeline.send(prefetch(65535))
        pipeline.send(consume(LOG, READER, arguments={"x-stream-offset": "first"}))
        pipeline.send(methods.QueuePurge(purged(self._index), False))
        pipeline.flush()

    def step(self) -> None:
        """Say several things, then publish what makes them certain, and hear until it is confirmed."""
        for _ in range(self._choose.choice((1, 3, 8))):
            self._publish()
        for _ in range(self._choose.choice((0, 1, 3, 6))):
            self._answer()
        if self._choose.random() < 0.15:
            self._gets.append(self._choose.random() < 0.4)
            self._pipeline.send(get(FETCHED, no_ack=self._gets[-1]))
        if self._choose.random() < 0.1:
            self._pipeline.send(methods.QueuePurge(self._choose.choice((purged, full))(self._index), False))
        if self._choose.random() < 0.08:
            self._use_a_queue_of_its_own()
        self._send("", kept(self._index), persistent=True)
        while self._unconfirmed:
            self._hear_one()

    def _publish(self) -> None:
        places = [("", name) for name in (WORK, RANKED, RANKED, QUORUM, QUORUM, FETCHED, FADING, SHORT, COPY)]
        places += [("", purged(self._index)), ("", full(self._index)), (BOTH, ""), (BOTH, ""), (DELAYING, "")]
        exchange, key = self._choose.choice(places)
        persistent = self._choose.random() < 0.8
        for _ in range(self._choose.choice((1, 1, 1, 4))):
            self._send(exchange, key, persistent=persistent)

    def _send(self, exchange: str, key: str, *, persistent: bool) -> None:
        number = next(self._numbers)
        self._tag += 1
        self._unconfirmed.add(self._tag)
        properties = (PERSISTENT if persistent else TRANSIENT)._replace(priority=priority_of(number))
        if exchange == DELAYING:
            properties = properties._replace(headers=from_python({"x-delay": DELAY_MILLISECONDS}))
        self._pipeline.publish(exchange, key, properties, body_of(number, self._choose.choice(SIZES)))

    def _answer(self) -> None:
        """Acknowledge or reject some of what is held."""
        if not self._held:
            return
        index = self._choose.choice((0, 0, self._choose.randrange(len(self._held))))
        tag, what = self._held.pop(index), self._choose.random()
        if what < 0.2:
            self._pipeline.send(ack(tag, multiple=True))
            self._held = [held for held in self._held if held > tag]
        elif what < 0.5:
            self._pipeline.send(ack(tag))
        else:
            self._pipeline.send(nack(tag, requeue=what < 0.6))

    def _use_a_queue_of_its_own(self) -> None:
        """Declare a queue, publish to it, and delete the one before it."""
        self._extra += 1
        name = f"extra {self._index} "
        self._pipeline.send(queue_declare(f"{name}{self._extra}", durable=True))
        self._send("", f"{name}{self._extra}", persistent=True)
        self._pipeline.send(queue_delete(f"{name}{self._extra - 1}"))

    def _hear_one(self) -> None:
        item = self._pipeline.receive()
        if isinstance(item, Message):
            assert isinstance(item.method, methods.BasicDeliver | methods.BasicGetOk), item
            if isinstance(item.method, methods.BasicGetOk):
                settled = self._gets.popleft()
            else:
                settled = item.method.consumer_tag == READER
            if not settled:
                self._held.append(item.method.delivery_tag)
        elif isinstance(item, methods.BasicGetEmpty):
            self._gets.popleft()
        elif isinstance(item, methods.BasicAck | methods.BasicNack):
            up_to = item.delivery_tag
            self._unconfirmed = {tag for tag in self._unconfirmed if (tag > up_to if item.multiple else tag != up_to)}
        else:
            assert item.NAME.endswith("-ok"), item


class Transactor:
    """Publishes and settles in transactions; some are rolled back."""

    def __init__(self, index: int, choose: random.Random) -> None:
        self._index = index
        self._choose = choose
        self._numbers = count(CLIENTS + index, CLIENTS)

    def connect(self, client: Client) -> None:
        """Declare everything, and start to consume."""
        self._pipeline = PipeliningClient(client, self._choose)
        self._held, self._settled = list[int](), list[int]()
        for method in declarations(self._index):
            client.ask(method)
        client.ask(methods.TxSelect())
        client.ask(prefetch(30))
        self._pipeline.send(consume(TX_WORK, TX_WORK))

    def step(self) -> None:
        """One transaction."""
        for _ in range(self._choose.choice((0, 1, 3, 6))):
            exchange, key = self._choose.choice(((TX_BOTH, ""), (TX_BOTH, ""), ("", TX_A), ("", TX_WORK)))
            properties = PERSISTENT if self._choose.random() < 0.85 else TRANSIENT
            body = body_of(next(self._numbers), self._choose.choice(SIZES))
            self._pipeline.publish(exchange, key, properties, body)
        for _ in range(self._choose.choice((0, 1, 3))):
            self._settle()
        commits = self._choose.random() < 0.8
        self._pipeline.send(methods.TxCommit() if commits else methods.TxRollback())
        while not isinstance(item := self._pipeline.receive(), methods.TxCommitOk | methods.TxRollbackOk):
            if isinstance(item, Message):
                self._held.append(item.method.delivery_tag)
        if not commits:
            self._held = sorted(self._held + self._settled)
        self._settled.clear()

    def _settle(self) -> None:
        if self._held:
            tag = self._held.pop(self._choose.choice((0, self._choose.randrange(len(self._held)))))
            self._settled.append(tag)
            self._pipeline.send(ack(tag) if self._choose.random() < 0.7 else nack(tag, requeue=False))
