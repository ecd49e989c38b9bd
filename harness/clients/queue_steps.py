"""Putting messages into queues and taking them out, in ways that leave no race.

RabbitMQ answers queue.declare out of turn: its message count may miss what was published just before. A basic.get waits
its turn, and so does a confirm: `drain` uses the one, `deposit` the other.
"""

from __future__ import annotations

from broker.wire.methods import BasicAck, BasicGetEmpty, BasicGetOk, ConfirmSelect
from broker.wire.properties import BasicProperties
from harness.clients.amqp_peer import Message
from harness.clients.shorthand import get
from harness.clients.wire_client import Client

DEPOSIT_CHANNEL = 99


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
