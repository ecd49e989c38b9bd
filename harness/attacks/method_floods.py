"""Attacks with methods that are cheap to ask for: as many as the wire takes."""

from __future__ import annotations

from broker.wire.frames import method_frame
from broker.wire.method import Method
from broker.wire.methods import (
    BasicCancel,
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicNack,
    BasicPublish,
    BasicQos,
    BasicRecover,
    BasicReject,
    ChannelClose,
    ChannelFlow,
    ChannelOpen,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueuePurge,
    TxRollback,
    TxSelect,
    TxSelectOk,
)
from harness.attacks.attack import Flood
from harness.attacks.non_reading_clients import fresh
from harness.attacks.raw_connection import NOTHING, RawConnection
from harness.clients.amqp_peer import method_frames, publish_frames

HELD = 20_000
PIECE = 3000


class MethodFlood(Flood):
    """The same few methods, thousands of times in one piece."""

    methods: tuple[Method, ...] = ()

    def prepare(self, connection: RawConnection) -> bytes:
        self.set_up(connection)
        return method_frames(1, *self.methods) * (PIECE // len(self.methods))

    def set_up(self, connection: RawConnection) -> None:
        """Make what the methods are about."""


class Flow(MethodFlood):
    methods = (ChannelFlow(True),)


class Qos(MethodFlood):
    methods = (BasicQos(0, 1, False), BasicQos(0, 0, True))


class Rollbacks(MethodFlood):
    """Transactions of one publish each, taken back."""

    methods = (TxRollback(),)

    def prepare(self, connection: RawConnection) -> bytes:
        connection.ask(TxSelectOk, TxSelect())
        return (publish_frames(b"x", key="hostile.nobody") + method_frame(1, TxRollback())) * PIECE


class EmptyGets(MethodFlood):
    methods = (BasicGet("hostile.empty", True),)

    def set_up(self, connection: RawConnection) -> None:
        fresh(connection, "hostile.empty")


class ChannelChurn(MethodFlood):
    methods = (ChannelClose(200, "", 0, 0), ChannelOpen())


class QueueChurn(MethodFlood):
    """A transient queue, made and deleted."""

    methods = (
        QueueDeclare("hostile.churn", False, False, False, False, False, NOTHING),
        QueueDelete("hostile.churn", False, False, False),
    )


class DurableChurn(MethodFlood):
    """A durable queue, made and deleted: each time the disk is written to."""

    methods = (
        QueueDeclare("hostile.durable-churn", False, True, False, False, False, NOTHING),
        QueueDelete("hostile.durable-churn", False, False, False),
    )


class ConsumerChurn(MethodFlood):
    methods = (
        BasicConsume("hostile.visited", "c", False, False, False, False, NOTHING),
        BasicCancel("c", False),
    )

    def set_up(self, connection: RawConnection) -> None:
        fresh(connection, "hostile.visited")


class Purges(MethodFlood):
    """A durable queue that is emptied again and again: each time the disk is written to."""

    methods = (QueuePurge("hostile.purged", False),)

    def set_up(self, connection: RawConnection) -> None:
        fresh(connection, "hostile.purged", durable=True)


class Recovers(MethodFlood):
    """Twenty thousand deliveries that are given back all at once, and again as soon as they have come."""

    methods = (BasicRecover(True),)

    def set_up(self, connection: RawConnection) -> None:
        fresh(connection, "hostile.recovered")
        fill(connection, "hostile.recovered", self.scaled(HELD))
        connection.ask(BasicConsumeOk, BasicConsume("hostile.recovered", "", False, False, False, False, NOTHING))


class Rejects(Flood):
    """Twenty thousand messages are got, and given back one by one, in the order that costs most."""

    def prepare(self, connection: RawConnection) -> bytes:
        fresh(connection, "hostile.rejected")
        self.held = self.scaled(HELD)
        fill(connection, "hostile.rejected", self.held)
        self.tag = 0
        return method_frame(1, BasicGet("hostile.rejected", False)) * self.held

    def round(self) -> None:
        tags = range(self.tag + self.held, self.tag, -1)
        back = b"".join(method_frame(1, BasicReject(tag, True)) for tag in tags)
        self.tag += self.held
        done = self.connection.press(self.data + back)
        while not done:
            self.connection.hear()
            done = self.connection.press(b"")
        self.connection.hear()


class NackForever(Flood):
    """A consumer that gives every delivery back; it knows the tags beforehand."""

    def prepare(self, connection: RawConnection) -> bytes:
        fresh(connection, "hostile.nacked")
        fill(connection, "hostile.nacked", 100)
        connection.ask(BasicConsumeOk, BasicConsume("hostile.nacked", "", False, False, False, False, NOTHING))
        return method_frames(1, BasicNack(0, True, True)) * 1000


class LongNames(Flood):
    """Publishes with names as long as they may be, each different from the others."""

    def prepare(self, connection: RawConnection) -> bytes:
        self._number = 0
        return b""

    def round(self) -> None:
        self._number += 1
        keys = (f"{self._number}.{number}.".ljust(255, "x") for number in range(500))
        publishes = (method_frame(1, BasicPublish("amq.topic", key, False, False)) + _CONTENT for key in keys)
        self.connection.press(b"".join(publishes))
        self.connection.hear()


_CONTENT = publish_frames(b"x")[len(method_frame(1, BasicPublish("", "", False, False))) :]


def fill(connection: RawConnection, name: str, messages: int) -> None:
    """Put `messages` small messages into a queue, and wait until they are there."""
    connection.tell(publish_frames(b"x", key=name) * messages)
    connection.ask(QueueDeclareOk, QueueDeclare(name, True, False, False, False, False, NOTHING))
