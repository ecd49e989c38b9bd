"""Attacks by who wants more than anybody needs: channels, consumers, entities, tables, unsettled messages."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count

from broker.wire.field_tables import Field, Table, from_python
from broker.wire.frames import method_frame
from broker.wire.method import Method
from broker.wire.methods import (
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    ChannelOpen,
    ExchangeDeclare,
    ExchangeDeclareOk,
    QueueBind,
    QueueDeclare,
    TxSelect,
    TxSelectOk,
)
from harness.attacks.attack import Attack, Flood
from harness.attacks.non_reading_clients import fresh
from harness.attacks.raw_connection import NOTHING, RawConnection
from harness.clients.amqp_peer import CHANNEL_MAX, method_frames, publish_frames

HELD_MAX = 100_000
CHUNK = 1000


class Channels(Attack):
    """The most channels that there may be, connection after connection, and one more, which is refused."""

    def round(self) -> None:
        opens = b"".join(method_frame(number, ChannelOpen()) for number in range(1, CHANNEL_MAX + 1))
        if len(self.connections) * CHANNEL_MAX >= self.scaled(HELD_MAX):
            self.connections.pop(0).close()
        connection = self.open(channels=0)
        connection.tell(opens)
        connection.hear()


class Accumulation(Attack):
    """Portion after chunk of something, up to `worst`; then the connection is dropped, and it begins again."""

    worst = HELD_MAX
    chunk = CHUNK

    def begin(self) -> None:
        self.numbers = count()
        self.prepare(self.open())

    def prepare(self, connection: RawConnection) -> None:
        """Set the scene."""

    def methods(self, number: int) -> Iterable[Method]:
        """Yield the methods that ask for the thing of this number, without an answer."""
        raise NotImplementedError

    def frames(self, number: int) -> bytes:
        """The same as it goes on the wire."""
        return method_frames(1, *self.methods(number))

    def round(self) -> None:
        size = min(self.chunk, self.scaled(self.worst))
        numbers = [next(self.numbers) for _ in range(size)]
        if numbers[-1] >= self.scaled(self.worst):
            self.end()
            return
        data = b"".join(map(self.frames, numbers))
        done = self.connection.press(data)
        while not done:
            self.connection.hear()
            done = self.connection.press(b"")
        self.connection.hear()


class Consumers(Accumulation):
    """A hundred thousand consumers of one queue on one channel."""

    def prepare(self, connection: RawConnection) -> None:
        fresh(connection, "hostile.consumed")

    def methods(self, number: int) -> Iterable[Method]:
        return (BasicConsume("hostile.consumed", f"c{number}", False, False, False, True, NOTHING),)


class ConsumersOverChannels(Consumers):
    """The same over a thousand channels."""

    def prepare(self, connection: RawConnection) -> None:
        super().prepare(connection)
        connection.tell(b"".join(method_frame(number, ChannelOpen()) for number in range(2, 1002)))

    def frames(self, number: int) -> bytes:
        return method_frames(number % 1000 + 1, *self.methods(number))


class UnackedGets(Accumulation):
    """A hundred thousand messages, got and never acknowledged."""

    def prepare(self, connection: RawConnection) -> None:
        fresh(connection, "hostile.unacked")

    def frames(self, number: int) -> bytes:
        return publish_frames(b"x", key="hostile.unacked") + method_frame(1, BasicGet("hostile.unacked", False))


class Queues(Accumulation):
    """A million queues, asked for without waiting."""

    worst = 1_000_000

    def methods(self, number: int) -> Iterable[Method]:
        table = from_python({"x-expires": 60_000})
        return (QueueDeclare(f"hostile.queue.{number}", False, False, False, False, True, table),)


class DurableQueues(Accumulation):
    """Queues that outlast the broker."""

    worst = 10_000
    chunk = 200

    def methods(self, number: int) -> Iterable[Method]:
        table = from_python({"x-expires": 60_000})
        return (QueueDeclare(f"hostile.durable.{number}", False, True, False, False, True, table),)


class ExclusiveQueues(Accumulation):
    """Queues that end with their connection, all at once."""

    def methods(self, number: int) -> Iterable[Method]:
        return (QueueDeclare(f"hostile.exclusive.{number}", False, False, True, False, True, NOTHING),)


class Exchanges(Accumulation):
    """Exchanges that go when the one queue does that they are bound to."""

    def prepare(self, connection: RawConnection) -> None:
        connection.tell(method_frame(1, QueueDeclare("hostile.bound", False, False, True, False, True, NOTHING)))

    def methods(self, number: int) -> Iterable[Method]:
        name = f"hostile.exchange.{number}"
        return (
            ExchangeDeclare(name, "fanout", False, False, True, False, True, NOTHING),
            QueueBind("hostile.bound", name, "", True, NOTHING),
        )


class Bindings(Accumulation):
    """Bindings of one queue, each with another key."""

    exchange_type = "topic"

    def prepare(self, connection: RawConnection) -> None:
        exchange = ExchangeDeclare("hostile.binding", self.exchange_type, False, False, True, False, False, NOTHING)
        connection.ask(ExchangeDeclareOk, exchange)
        connection.tell(method_frame(1, QueueDeclare("hostile.bound", False, False, True, False, True, NOTHING)))

    def arguments(self, number: int) -> Table:
        """The arguments of the binding of this number."""
        return NOTHING

    def methods(self, number: int) -> Iterable[Method]:
        key = f"{number}.{number % 7}.*.#"
        return (QueueBind("hostile.bound", "hostile.binding", key, True, self.arguments(number)),)


class LargeBindings(Bindings):
    """Bindings whose arguments are as large as a frame allows."""

    worst = 500
    chunk = 10
    exchange_type = "headers"

    def arguments(self, number: int) -> Table:
        return {"number": Field("I", number), "large": Field("S", bytes(130_000))}


class LargeTables(Accumulation):
    """Queues whose arguments have as many fields as a frame holds."""

    worst = 200
    chunk = 2

    def prepare(self, connection: RawConnection) -> None:
        self._table: Table = {"many": Field("A", [Field("b", 1)] * 65_000)}

    def methods(self, number: int) -> Iterable[Method]:
        return (QueueDeclare(f"hostile.table.{number}", False, False, True, False, True, self._table),)


class DeepTables(Accumulation):
    """Tables within tables, as deep as they are taken; each in a message of its own."""

    depth = 64

    def prepare(self, connection: RawConnection) -> None:
        fresh(connection, "hostile.deep", max_length=10)
        table: Table = {}
        for _ in range(self.depth - 1):
            table = {"": Field("F", table)}
        self._data = publish_frames(b"x", key="hostile.deep", headers=table)

    def frames(self, number: int) -> bytes:
        return self._data


class TooDeepTables(DeepTables):
    """Deeper than they are taken."""

    depth = 300


class LargeHeaders(Flood):
    """Messages with a hundred thousand headers each, through an exchange that reads them."""

    def prepare(self, connection: RawConnection) -> bytes:
        fresh(connection, "hostile.headers", max_length=10)
        connection.tell(method_frame(1, QueueBind("hostile.headers", "amq.headers", "", True, from_python({"a": 1}))))
        many = {"many": Field("A", [Field("V", None)] * 130_000)}
        return publish_frames(b"x", exchange="amq.headers", headers=many) * 4


class Transaction(Accumulation):
    """Publishes in a transaction that is never committed."""

    worst = 1_000_000

    def prepare(self, connection: RawConnection) -> None:
        fresh(connection, "hostile.transaction", max_length=10)
        connection.ask(TxSelectOk, TxSelect())
        self._data = publish_frames(bytes(1000), key="hostile.transaction")

    def frames(self, number: int) -> bytes:
        return self._data


class Unsettled(Flood):
    """A consumer without a prefetch limit that never acknowledges what it publishes itself."""

    def prepare(self, connection: RawConnection) -> bytes:
        fresh(connection, "hostile.unsettled")
        connection.ask(BasicConsumeOk, BasicConsume("hostile.unsettled", "", False, False, False, False, NOTHING))
        return publish_frames(b"x", key="hostile.unsettled") * 500
