"""Churn: connections, channels, queues, exchanges, bindings, consumers, names that never come again."""

from __future__ import annotations

import threading

from bench.load.measured_broker import Target
from broker.wire.methods import BasicAck, BasicCancel, BasicDeliver, ConfirmSelect, QueueDeclareOk
from harness.clients.contents import PERSISTENT
from harness.clients.shorthand import (
    ack,
    consume,
    exchange_declare,
    exchange_delete,
    queue_bind,
    queue_declare,
    queue_delete,
)
from harness.clients.wire_client import Client

ROUNDS_PER_SECOND = 5.0
CHANNELS = 4
KINDS: tuple[tuple[str, dict[str, object]], ...] = (
    ("fanout", {}),
    ("topic", {}),
    ("headers", {}),
    ("x-consistent-hash", {}),
    ("x-delayed-message", {"x-delayed-type": "fanout"}),
)
TYPES: tuple[dict[str, object], ...] = (
    {},
    {"x-max-priority": 5},
    {"x-queue-type": "quorum"},
    {"x-queue-type": "stream"},
    {"x-message-ttl": 60_000, "x-expires": 600_000, "x-max-length": 10},
)


class Churn(threading.Thread):
    """One round after the other until told to stop; `failure` is what went wrong."""

    def __init__(self, target: Target) -> None:
        super().__init__(daemon=True)
        self.rounds = 0
        self.failure: BaseException | None = None
        self._target = target
        self._done = threading.Event()

    def run(self) -> None:
        try:
            while not self._done.wait(1 / ROUNDS_PER_SECOND):
                self._round()
                self.rounds += 1
        except BaseException as error:
            self.failure = error

    def stop(self) -> None:
        """End with the round that is on."""
        self._done.set()
        self.join()

    def _round(self) -> None:
        """A connection, channels on it, everything declared, used and deleted; then the socket is just dropped."""
        number = self.rounds
        client = Client.connect(self._target.address)
        for channel in range(2, 2 + CHANNELS):
            client.open_channel(channel)
        answer: QueueDeclareOk = client.ask(queue_declare(exclusive=True))
        self._through(client, answer.queue, "")
        self._definitions(client, number)
        for channel in range(2, 2 + CHANNELS - number % 2):
            client.close_channel(channel)
        client.close()

    def _definitions(self, client: Client, number: int) -> None:
        queue, exchange = f"churn.{number}.q", f"churn.{number}.x"
        kind, exchange_arguments = KINDS[number % len(KINDS)]
        arguments = TYPES[number % len(TYPES)]
        client.ask(queue_declare(queue, durable=True, arguments=arguments))
        client.ask(exchange_declare(exchange, kind, durable=True, arguments=exchange_arguments))
        client.ask(queue_bind(queue, exchange, "1"))
        if arguments.get("x-queue-type") != "stream":
            self._through(client, queue, exchange)
        client.ask(queue_delete(queue))
        client.ask(exchange_delete(exchange))

    def _through(self, client: Client, queue: str, exchange: str) -> None:
        """A confirmed message through a queue, consumed and acknowledged, on a channel of its own."""
        channel = 2 + CHANNELS
        client.open_channel(channel)
        client.ask(ConfirmSelect(False), channel=channel)
        client.publish(
            b"x" * 100, exchange=exchange, key="1" if exchange else queue, properties=PERSISTENT, channel=channel
        )
        client.expect(BasicAck, channel=channel)
        client.ask(consume(queue, "c"), channel=channel)
        message = client.expect_message(BasicDeliver, channel=channel)
        client.send(ack(message.method.delivery_tag), channel=channel)
        client.ask(BasicCancel("c", False), channel=channel)
        client.close_channel(channel)
