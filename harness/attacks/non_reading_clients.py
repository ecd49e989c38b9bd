"""Attacks by who does not read: answers, deliveries, confirms and returns pile up for him."""

from __future__ import annotations

from broker.wire.field_tables import from_python
from broker.wire.frames import method_frame
from broker.wire.methods import (
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicNack,
    ConfirmSelect,
    ConfirmSelectOk,
    QueueDeclare,
    QueueDeclareOk,
)
from harness.attacks.attack import Flood
from harness.attacks.raw_connection import NOTHING, RawConnection
from harness.clients.amqp_peer import publish_frames

MIB = 1 << 20


def fresh(connection: RawConnection, name: str, *, durable: bool = False, **arguments: object) -> None:
    """Declare a queue that goes by itself some time after the attack."""
    table = from_python({"x-expires": 60_000} | {"x-" + key.replace("_", "-"): arguments[key] for key in arguments})
    connection.ask(QueueDeclareOk, QueueDeclare(name, False, durable, False, False, False, table))


class NonReadingConsumer(Flood):
    """Consumes without acknowledgements what it publishes itself, and never reads a delivery."""

    never_reads = True

    def prepare(self, connection: RawConnection) -> bytes:
        fresh(connection, "hostile.unread", max_length_bytes=64 * MIB)
        connection.ask(BasicConsumeOk, BasicConsume("hostile.unread", "", False, True, False, False, NOTHING))
        return publish_frames(bytes(60_000), key="hostile.unread") * 20


class NonReadingRequester(Flood):
    """A hundred thousand questions, none of whose answers is read."""

    never_reads = True

    def prepare(self, connection: RawConnection) -> bytes:
        fresh(connection, "hostile.asked")
        return method_frame(1, QueueDeclare("hostile.asked", True, False, False, False, False, NOTHING)) * 10_000


class NonReadingGetter(Flood):
    """Gets the largest messages and gives them back, thousands of times in one piece, and reads none."""

    never_reads = True

    def prepare(self, connection: RawConnection) -> bytes:
        fresh(connection, "hostile.large", max_length=1)
        connection.tell(publish_frames(bytes(self.scaled(100 * MIB)), key="hostile.large"))
        connection.ask(QueueDeclareOk, QueueDeclare("hostile.large", True, False, False, False, False, NOTHING))
        again = BasicGet("hostile.large", False), BasicNack(0, True, True)
        return b"".join(method_frame(1, method) for method in again) * 3000


class NonReadingPublisher(Flood):
    """Publishes and never reads a confirm."""

    never_reads = True

    def prepare(self, connection: RawConnection) -> bytes:
        fresh(connection, "hostile.confirmed", durable=True, max_length=1000)
        connection.ask(ConfirmSelectOk, ConfirmSelect(False))
        return publish_frames(bytes(100), key="hostile.confirmed", delivery_mode=2) * 1000


class ReturnsUnread(Flood):
    """Publishes what nobody takes, wants it back, and never reads it."""

    never_reads = True

    def prepare(self, connection: RawConnection) -> bytes:
        return publish_frames(bytes(4000), key="hostile.nobody", mandatory=True) * 60


class DirectRepliesUnread(Flood):
    """One connection waits for direct replies and never reads; another sends them as fast as it can."""

    def begin(self) -> None:
        asker, responder = self.open(window=4096), self.open()
        fresh(asker, "hostile.requests")
        asker.ask(BasicConsumeOk, BasicConsume("amq.rabbitmq.reply-to", "", False, True, False, False, NOTHING))
        asker.tell(publish_frames(b"?", key="hostile.requests", reply_to="amq.rabbitmq.reply-to"))
        address = self._address(asker, responder)
        self.data = publish_frames(bytes(100_000), key=address) * 10

    def _address(self, asker: RawConnection, responder: RawConnection) -> str:
        """The address that the request carries: it is read off the message."""
        asker.ask(QueueDeclareOk, QueueDeclare("hostile.requests", True, False, False, False, False, NOTHING))
        responder.tell(method_frame(1, BasicGet("hostile.requests", True)))
        data = b""
        while b"amq.rabbitmq.reply-to." not in data or data[-1:] != b"\xce":
            data += responder.sock.recv(1 << 16)
        at = data.index(b"amq.rabbitmq.reply-to.")
        return data[at : at + data[at - 1]].decode()

    def round(self) -> None:
        self.connections[1].press(self.data)
        self.connections[1].hear()


class NothingRead(Flood):
    """Publishes to itself over every channel there is, confirms and deliveries unread."""

    never_reads = True
    channels = 100

    def prepare(self, connection: RawConnection) -> bytes:
        fresh(connection, "hostile.all", max_length=1000)
        for number in range(1, self.channels + 1):
            connection.tell(method_frame(number, BasicConsume("hostile.all", "", False, True, False, True, NOTHING)))
            connection.tell(method_frame(number, ConfirmSelect(True)))
        one = publish_frames(bytes(500), key="hostile.all")
        return b"".join(_on(number, one) for number in range(1, self.channels + 1)) * 10


def _on(channel: int, frames: bytes) -> bytes:
    """A publication on another channel: the number stands behind each frame's type."""
    out, at = b"", 0
    while at < len(frames):
        size = int.from_bytes(frames[at + 3 : at + 7], "big")
        out += frames[at : at + 1] + channel.to_bytes(2, "big") + frames[at + 3 : at + 8 + size]
        at += 8 + size
    return out
