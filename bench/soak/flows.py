"""Streams of messages at a fixed rate, of every kind: who publishes, through what, to whom, and what is made of it."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from bench.load.unblocked_connection import UnblockedConnection
from bench.soak.accounts import Account, Latencies, Unconfirmed
from broker.wire import methods
from broker.wire.method import Method
from broker.wire.properties import BasicProperties, decode_properties, encode_header
from harness.clients.shorthand import consume, exchange_declare, queue_bind, queue_declare
from harness.clients.wire_client import Client

PREFETCH = 200
UNCONFIRMED_MAX = 2000
NUMBER_DIGITS = 12
DEALS_AT_ONCE = 10
REQUEUED_PART = 0.02

Properties = Callable[[int], BasicProperties]


def persistent(number: int) -> BasicProperties:
    """Nothing but that."""
    return BasicProperties(delivery_mode=2)


@dataclass(frozen=True)
class Sink:
    """A consumer of a queue. Its messages go to the account of this name; None: all are rejected."""

    queue: str
    account: str | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)
    requeues: bool = False
    ordered: bool = False
    works_seconds: float = 0.0
    """Seconds of consuming, then seconds of pause, and so on; 0: always."""


@dataclass(frozen=True)
class Flow:
    """Publishes of one client, in messages a second, and the sinks that they have to reach, each account once."""

    name: str
    rate: float
    sinks: tuple[Sink, ...]
    exchange: str = ""
    key: Callable[[int], str] = str
    kind: str = "fanout"
    exchange_arguments: Mapping[str, Any] = field(default_factory=dict)
    bindings: Mapping[str, str] = field(default_factory=dict)
    """Queues bound to the exchange, and their keys."""
    queues: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Further queues, and arguments of any."""
    properties: Properties = persistent
    body_bytes: int = 512
    transactional: bool = False


class Consumer:
    """Works a sink: settles what comes, and notes it."""

    def __init__(self, sink: Sink, account: Account | None, connection: UnblockedConnection) -> None:
        self.sink = sink
        self.consumed = 0
        self._account = account
        self._connection = connection
        self._dice = random.Random(sink.queue)
        self._working = False
        self._turn_at = 0.0
        connection.heard = self._heard
        connection.say(methods.BasicQos(0, PREFETCH, False))

    def tick(self, now: float) -> None:
        """Begin, or take turns in working and pausing."""
        if not self._working and now >= self._turn_at:
            self._working = True
            self._connection.say(consume(self.sink.queue, "sink", arguments=self.sink.arguments))
        elif self._working and self.sink.works_seconds and now >= self._turn_at + self.sink.works_seconds:
            self._working = False
            self._connection.say(methods.BasicCancel("sink", False))
        else:
            return
        self._turn_at = now if self._working else now + self.sink.works_seconds

    def work_on(self) -> None:
        """No more pauses."""
        self._turn_at = float("inf") if self._working else 0.0

    def _heard(self, method: Method, _header: bytes, body: bytes) -> None:
        if not isinstance(method, methods.BasicDeliver):
            assert method.NAME.endswith("-ok"), method
            return
        number, tag = int(body[:NUMBER_DIGITS]), method.delivery_tag
        if self._account is None:
            self._connection.say(methods.BasicReject(tag, False))
            return
        self._account.see(number, method.redelivered)
        if self.sink.requeues and self._dice.random() < REQUEUED_PART:
            self._connection.say(methods.BasicReject(tag, True))
            return
        self._connection.say(methods.BasicAck(tag, False))
        self._account.settle(number)
        self.consumed += 1


class Publisher:
    """Publishes a flow at its rate, with confirms or in transactions."""

    def __init__(
        self, flow: Flow, accounts: list[Account], connection: UnblockedConnection, latencies: Latencies, began: float
    ) -> None:
        self.flow = flow
        self.published = 0
        self._accounts = accounts
        self._connection = connection
        self._unconfirmed = Unconfirmed(latencies)
        self._began = began
        self._filler = b"x" * (flow.body_bytes - NUMBER_DIGITS)
        self._committing = False
        connection.heard = self._heard
        connection.say(methods.TxSelect() if flow.transactional else methods.ConfirmSelect(False))

    @property
    def unconfirmed(self) -> int:
        """Number of publishes without an answer."""
        return len(self._unconfirmed) + self._committing

    def tick(self, now: float) -> None:
        """Publish what is due."""
        due = int((now - self._began) * self.flow.rate) - self.published
        if self.flow.transactional:
            if self._committing or due < DEALS_AT_ONCE:
                return
            self._committing = True
        for _ in range(min(due, UNCONFIRMED_MAX - self.unconfirmed)):
            self._publish(now)
        if self.flow.transactional:
            self._connection.say(methods.TxCommit())

    def _publish(self, now: float) -> None:
        number = self.published
        self.published += 1
        for account in self._accounts:
            account.expect(number)
        if not self.flow.transactional:
            self._unconfirmed.add(now)
        header = encode_header(self.flow.body_bytes, self.flow.properties(number))
        body = b"%0*d" % (NUMBER_DIGITS, number) + self._filler
        self._connection.publish(self.flow.exchange, self.flow.key(number), header, body)

    def _heard(self, method: Method, _header: bytes, _body: bytes) -> None:
        if isinstance(method, methods.BasicAck):
            self._unconfirmed.confirm(method.delivery_tag, method.multiple, time.monotonic())
        elif isinstance(method, methods.TxCommitOk):
            self._committing = False
        else:
            assert method.NAME.endswith("-ok"), method


class Requests:
    """A client that asks, with answers over a direct reply or a queue of its own; each answer must come once."""

    def __init__(
        self, name: str, rate: float, connection: UnblockedConnection, queue: str, account: Account, began: float
    ) -> None:
        self.published = 0
        self.unconfirmed = 0
        self._rate = rate
        self._connection = connection
        self._queue = queue
        self._account = account
        self._began = began
        connection.heard = self._heard
        self._reply_to = "amq.rabbitmq.reply-to"
        if name:
            self._reply_to = name
            connection.say(queue_declare(name, exclusive=True))
        connection.say(consume(self._reply_to, "answers", no_ack=True))

    def tick(self, now: float) -> None:
        """Ask what is due."""
        for _ in range(int((now - self._began) * self._rate) - self.published):
            self._account.expect(self.published)
            properties = BasicProperties(reply_to=self._reply_to, correlation_id=str(self.published))
            body = b"%0*d" % (NUMBER_DIGITS, self.published)
            self._connection.publish("", self._queue, encode_header(len(body), properties), body)
            self.published += 1

    def _heard(self, method: Method, _header: bytes, body: bytes) -> None:
        if isinstance(method, methods.BasicDeliver):
            self._account.settle(int(body))
        else:
            assert method.NAME.endswith("-ok"), method


class Server:
    """Answers requests."""

    def __init__(self, connection: UnblockedConnection, queue: str) -> None:
        self._connection = connection
        connection.heard = self._heard
        connection.say(methods.BasicQos(0, PREFETCH, False), consume(queue, "server"))

    def _heard(self, method: Method, header: bytes, body: bytes) -> None:
        if not isinstance(method, methods.BasicDeliver):
            assert method.NAME.endswith("-ok"), method
            return
        asked = decode_properties(header)
        answer = encode_header(len(body), BasicProperties(correlation_id=asked.correlation_id))
        self._connection.publish("", asked.reply_to or "", answer, body)
        self._connection.say(methods.BasicAck(method.delivery_tag, False))


def declare(client: Client, flow: Flow) -> None:
    """Everything that a flow needs."""
    for queue in dict.fromkeys([*flow.queues, *flow.bindings, *(sink.queue for sink in flow.sinks)]):
        client.ask(queue_declare(queue, durable=True, arguments=flow.queues.get(queue)))
    if flow.exchange:
        arguments = flow.exchange_arguments
        client.ask(exchange_declare(flow.exchange, flow.kind, durable=True, arguments=arguments))
        for queue, key in flow.bindings.items():
            client.ask(queue_bind(queue, flow.exchange, key))
