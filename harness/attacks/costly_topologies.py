"""Attacks with exchanges, queues and bindings that cost much to pass through."""

from __future__ import annotations

from itertools import count

from broker.wire.field_tables import Table, from_python
from broker.wire.frames import method_frame
from broker.wire.methods import (
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicReject,
    ExchangeBind,
    ExchangeBindOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
)
from harness.attacks.attack import Flood, Work
from harness.attacks.non_reading_clients import fresh
from harness.attacks.raw_connection import NOTHING, RawConnection
from harness.clients.amqp_peer import publish_frames

WORDS = 120


def exchange(name: str, type_: str, arguments: Table = NOTHING) -> ExchangeDeclare:
    """An exchange that goes with its last binding."""
    return ExchangeDeclare(name, type_, False, False, True, False, False, arguments)


def exclusive(name: str, arguments: Table = NOTHING) -> QueueDeclare:
    """A queue that goes with its connection."""
    return QueueDeclare(name, False, False, True, False, False, arguments)


class Patterns(Work):
    """Topic patterns of nothing but wildcards, and keys that almost match, each different."""

    def prepare(self, connection: RawConnection) -> bytes:
        connection.ask(ExchangeDeclareOk, exchange("hostile.topic", "topic"))
        connection.ask(QueueDeclareOk, exclusive("hostile.topics", from_python({"x-max-length": 1})))
        patterns = [".".join(["#"] * WORDS), ".".join(["#", "*"] * (WORDS // 2)), ".".join(["#", "a"] * (WORDS // 2))]
        patterns += [".".join(["#", "a"] * length + ["b"]) for length in range(1, WORDS // 2, 2)]
        connection.ask(
            QueueBindOk, *(QueueBind("hostile.topics", "hostile.topic", key, False, NOTHING) for key in patterns)
        )
        self._numbers = count()
        return b""

    def chunk(self) -> bytes:
        keys = (".".join(["a"] * WORDS) + f".{next(self._numbers)}" for _ in range(20))
        return b"".join(publish_frames(b"x", key=key, exchange="hostile.topic") for key in keys)


class HeadersBindings(Work):
    """A headers exchange with thousands of bindings, each of which every message is held against."""

    def prepare(self, connection: RawConnection) -> bytes:
        connection.ask(ExchangeDeclareOk, exchange("hostile.headers", "headers"))
        connection.ask(QueueDeclareOk, exclusive("hostile.headed", from_python({"x-max-length": 1})))
        tables = (from_python({"a": number, "x-match": "all"}) for number in range(self.scaled(5000)))
        connection.ask(
            QueueBindOk, *(QueueBind("hostile.headed", "hostile.headers", "", False, table) for table in tables)
        )
        return publish_frames(b"x", exchange="hostile.headers", headers={"a": -1}) * 100


class WideFanout(Work):
    """Each message goes to thousands of queues."""

    def prepare(self, connection: RawConnection) -> bytes:
        connection.ask(ExchangeDeclareOk, exchange("hostile.fanout", "fanout"))
        names = [f"hostile.wide.{number}" for number in range(self.scaled(5000))]
        table = from_python({"x-max-length": 1})
        connection.ask(QueueDeclareOk, *(exclusive(name, table) for name in names))
        connection.ask(QueueBindOk, *(QueueBind(name, "hostile.fanout", "", False, NOTHING) for name in names))
        return publish_frames(b"x", exchange="hostile.fanout") * 20


class Ring(Work):
    """Exchanges that lead to each other in a circle; each message has a key of its own, so no way is remembered."""

    def prepare(self, connection: RawConnection) -> bytes:
        names = [f"hostile.ring.{number}" for number in range(self.scaled(2000))]
        connection.ask(ExchangeDeclareOk, *(exchange(name, "fanout") for name in names))
        pairs = zip(names, [*names[1:], names[0]], strict=True)
        connection.ask(ExchangeBindOk, *(ExchangeBind(target, source, "", False, NOTHING) for source, target in pairs))
        self._numbers = count()
        return b""

    def chunk(self) -> bytes:
        keys = (str(next(self._numbers)) for _ in range(100))
        return b"".join(publish_frames(b"x", key=key, exchange="hostile.ring.0") for key in keys)


class Alternates(Work):
    """Exchanges without bindings that are each other's alternate, in a circle."""

    def prepare(self, connection: RawConnection) -> bytes:
        number = self.scaled(500)
        for place in range(number):
            table = from_python({"alternate-exchange": f"hostile.alternate.{(place + 1) % number}"})
            name = f"hostile.alternate.{place}"
            connection.ask(ExchangeDeclareOk, ExchangeDeclare(name, "direct", False, False, False, False, False, table))
        self._numbers = count()
        return b""

    def chunk(self) -> bytes:
        keys = (str(next(self._numbers)) for _ in range(100))
        return b"".join(publish_frames(b"x", key=key, exchange="hostile.alternate.0") for key in keys)


class DeadLetterCircle(Flood):
    """Two queues whose dead letters go to each other, and a consumer that rejects everything in both."""

    def prepare(self, connection: RawConnection) -> bytes:
        for name, other in (("hostile.ping", "hostile.pong"), ("hostile.pong", "hostile.ping")):
            fresh(connection, name, dead_letter_exchange="", dead_letter_routing_key=other)
            connection.ask(BasicConsumeOk, BasicConsume(name, "", False, False, False, False, NOTHING))
        connection.tell(publish_frames(b"x", key="hostile.ping") * 100)
        self._tag = 1
        return b""

    def round(self) -> None:
        tags = range(self._tag, self._tag + 100)
        self._tag += 100
        self.connection.await_methods(BasicDeliver, 100)
        self.connection.tell(b"".join(method_frame(1, BasicReject(tag, False)) for tag in tags))


class DeadLetterChain(Work):
    """Queues that hold nothing: a message falls through all of them, a longer dead letter each time."""

    arguments: dict[str, object] = {"x-max-length": 0}

    def prepare(self, connection: RawConnection) -> bytes:
        length = self.scaled(2000)
        for place in range(length):
            dead_letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": f"hostile.chain.{place + 1}"}
            connection.tell(
                method_frame(1, exclusive(f"hostile.chain.{place}", from_python(self.arguments | dead_letters)))
            )
        connection.await_methods(QueueDeclareOk, length)
        return publish_frames(b"x", key="hostile.chain.0") * 4


class ExpiryChain(DeadLetterChain):
    """The same by times to live of nothing."""

    arguments: dict[str, object] = {"x-message-ttl": 0}
