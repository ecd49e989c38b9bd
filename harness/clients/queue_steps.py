"""Putting messages into queues and taking them out, in ways that leave no race.

RabbitMQ answers queue.declare out of turn: its message count may miss what was published just before. A basic.get waits
its turn, and so does a confirm: `drain` uses the one, `deposit` the other.
"""

from __future__ import annotations

from broker.wire.methods import BasicAck, BasicDeliver, BasicGetEmpty, BasicGetOk, ConfirmSelect
from broker.wire.properties import BasicProperties
from harness.clients.amqp_peer import Message
from harness.clients.shorthand import get, queue_declare
from harness.clients.wire_client import Client

DEPOSIT_CHANNEL = 99


def numbered(count: int) -> list[bytes]:
    """Return `count` bodies, each its number."""
    return [b"%d" % number for number in range(count)]


def bodies(messages: list[Message]) -> list[bytes]:
    """The body of each message."""
    return [message.body for message in messages]


def ready(client: Client, queue: str, *, channel: int = 1) -> int:
    """Messages not delivered. The queue answers behind its own deliveries: `arrived` is complete after this."""
    return int(client.ask(queue_declare(queue, passive=True), channel=channel).message_count)


def fetch(client: Client, queue: str, count: int = 1, *, channel: int = 1) -> list[Message]:
    """Get `count` messages, which are there, and leave them unacknowledged."""
    for _ in range(count):
        client.send(get(queue), channel=channel)
    return [client.expect_message(BasicGetOk, channel=channel) for _ in range(count)]


def deliveries(client: Client, count: int, *, channel: int = 1) -> list[Message]:
    """Await `count` deliveries."""
    return [client.expect_message(BasicDeliver, channel=channel) for _ in range(count)]


def drain(client: Client, queue: str, *, channel: int = 1) -> list[bytes]:
    """Take every message out of a queue, acknowledged, and return the bodies in order."""
    return [message.body for message in drain_messages(client, queue, channel=channel)]


def drain_messages(client: Client, queue: str, *, channel: int = 1) -> list[Message]:
    """Take every message out of a queue, acknowledged, and return them in order."""
    messages: list[Message] = []
    while True:
        client.send(get(queue, no_ack=True), channel=channel)
        item = client.receive(channel=channel)
        if isinstance(item, BasicGetEmpty):
            return messages
        assert isinstance(item, Message), f"expected a message, got {item}"
        assert isinstance(item.method, BasicGetOk), f"expected basic.get-ok, got {item}"
        messages.append(item)


def deposit(
    client: Client, *bodies: bytes, key: str, exchange: str = "", properties: BasicProperties | None = None
) -> None:
    """Publish on a channel of its own, in confirm mode; return when the messages are in their queues."""
    client.open_channel(DEPOSIT_CHANNEL)
    client.ask(ConfirmSelect(False), channel=DEPOSIT_CHANNEL)
    for body in bodies:
        client.publish(body, exchange=exchange, key=key, properties=properties, channel=DEPOSIT_CHANNEL)
    confirmed: set[int] = set()
    while len(confirmed) < len(bodies):
        ack = client.expect(BasicAck, channel=DEPOSIT_CHANNEL)
        confirmed |= set(range(1, ack.delivery_tag + 1)) if ack.multiple else {ack.delivery_tag}
    client.close_channel(DEPOSIT_CHANNEL)
