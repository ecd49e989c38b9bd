"""The mixed load of the soak: some forty connections, three thousand messages a second, a little of everything."""

from __future__ import annotations

import selectors
import time
from collections.abc import Callable

from bench.load.measured_broker import Target
from bench.load.unblocked_connection import UnblockedConnection
from bench.soak.accounts import Account, Latencies
from bench.soak.flows import Consumer, Flow, Publisher, Requests, Server, Sink, declare
from broker.wire.field_tables import from_python
from broker.wire.properties import BasicProperties
from harness.clients.shorthand import queue_declare
from harness.clients.wire_client import Client

TICK_SECONDS = 0.005
PLAIN_FLOWS = 8
PRIORITIES = 5
STREAM_BYTES_MAX = 20 << 20
SEGMENT_BYTES = 2 << 20
BACKLOG_SECONDS = 120.0
REQUESTS_QUEUE = "soak.requests"


def dead_letters_to(queue: str, **more: object) -> dict[str, object]:
    """Arguments of a queue whose dead letters go there, and further ones: `message_ttl` is x-message-ttl."""
    named = {"x-" + name.replace("_", "-"): value for name, value in more.items()}
    return {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue, **named}


def to(queue: str) -> Callable[[int], str]:
    """The routing key of every message."""
    return lambda number: queue


def ranked(number: int) -> BasicProperties:
    """Any priority."""
    return BasicProperties(delivery_mode=2, priority=number * 7 % (PRIORITIES + 1))


def delayed(number: int) -> BasicProperties:
    """Up to five seconds late."""
    headers = from_python({"x-delay": 1 + number * 37 % 5000})
    return BasicProperties(delivery_mode=2, headers=headers)


def unique(number: int) -> BasicProperties:
    """Return properties whose values never repeat."""
    headers = from_python({"user": f"u{number}", "shard": number % 7})
    return BasicProperties(
        "text/plain", headers=headers, delivery_mode=2, message_id=f"m-{number:012}", timestamp=number
    )


def plain(number: int) -> Flow:
    """A classic queue with a publisher and a consumer."""
    queue = f"soak.plain.{number}"
    return Flow(f"plain {number}", 100, (Sink(queue, queue, ordered=True),), key=to(queue), body_bytes=1024)


FLOWS = (
    *map(plain, range(PLAIN_FLOWS)),
    Flow(
        "priorities",
        200,
        (Sink("soak.ranked", "priorities", requeues=True),),
        key=to("soak.ranked"),
        queues={"soak.ranked": {"x-max-priority": PRIORITIES}},
        properties=ranked,
    ),
    Flow(
        "quorum",
        200,
        (Sink("soak.quorum", "quorum", requeues=True),),
        key=to("soak.quorum"),
        queues={"soak.quorum": {"x-queue-type": "quorum"}},
    ),
    Flow(
        "stream",
        200,
        tuple(Sink("soak.stream", f"reader {number}", {"x-stream-offset": "first"}, ordered=True) for number in (1, 2)),
        key=to("soak.stream"),
        queues={
            "soak.stream": {
                "x-queue-type": "stream",
                "x-max-length-bytes": STREAM_BYTES_MAX,
                "x-stream-max-segment-size-bytes": SEGMENT_BYTES,
            }
        },
    ),
    Flow(
        "delayed",
        100,
        (Sink("soak.late", "delayed"),),
        "soak.delaying",
        to("k"),
        "x-delayed-message",
        {"x-delayed-type": "direct"},
        {"soak.late": "k"},
        properties=delayed,
    ),
    Flow(
        "expired",
        150,
        (Sink("soak.expired", "expired", ordered=True),),
        key=to("soak.short"),
        queues={"soak.short": dead_letters_to("soak.expired", message_ttl=1000)},
    ),
    Flow(
        "rejected",
        100,
        (Sink("soak.rejected"), Sink("soak.dead-letters", "rejected", ordered=True)),
        key=to("soak.rejected"),
        queues={"soak.rejected": dead_letters_to("soak.dead-letters")},
    ),
    Flow(
        "fan-out",
        100,
        tuple(Sink(f"soak.fan.{number}", f"fan-out {number}", ordered=True) for number in range(4)),
        "soak.fan",
        str,
        bindings={f"soak.fan.{number}": "" for number in range(4)},
    ),
    Flow(
        "unique",
        200,
        (Sink("soak.topic", "unique", ordered=True),),
        "soak.topics",
        lambda number: f"a.{number}.b",
        "topic",
        bindings={"soak.topic": "a.#"},
        properties=unique,
    ),
    Flow(
        "hashed",
        100,
        tuple(Sink(f"soak.hash.{number}", "hashed") for number in range(3)),
        "soak.hash",
        str,
        "x-consistent-hash",
        bindings={f"soak.hash.{number}": "1" for number in range(3)},
    ),
    Flow(
        "transactions",
        100,
        (Sink("soak.deals", "transactions", ordered=True),),
        key=to("soak.deals"),
        transactional=True,
    ),
    Flow(
        "transient",
        150,
        (Sink("soak.transient", "transient", ordered=True),),
        key=to("soak.transient"),
        properties=lambda number: BasicProperties(delivery_mode=1),
        body_bytes=64,
    ),
)
"""Publishers of a steady rate. Their rates, that of the backlog and those of the requests are 3,000 a second in all."""


def flows(backlog_seconds: float) -> list[Flow]:
    """Everything that publishes on its own; the backlog grows and drains for `backlog_seconds` each."""
    sinks = (Sink("soak.backlog", "backlog", works_seconds=backlog_seconds),)
    return [*FLOWS, Flow("backlog", 300, sinks, key=to("soak.backlog"))]


REQUEST_RATE = 50
"""Requests of each of the clients; each is answered."""


class Mixture:
    """The whole load on one selector: `run` moves it, figures are read in between."""

    def __init__(self, target: Target, backlog_seconds: float) -> None:
        self.latencies = Latencies()
        self.stopping = False
        self.accounts: dict[str, Account] = {}
        self._selector = selectors.DefaultSelector()
        self._target = target
        self._connections: list[UnblockedConnection] = []
        self._began = time.monotonic()
        all_flows = flows(backlog_seconds)
        client = Client.connect(target.address)
        for flow in all_flows:
            declare(client, flow)
        client.ask(queue_declare(REQUESTS_QUEUE, durable=True))
        client.close()
        self._consumers = [self._consumer(sink) for flow in all_flows for sink in flow.sinks]
        self._servers = [Server(self._connection(), REQUESTS_QUEUE)]
        self._publishers: list[Publisher | Requests] = [self._publisher(flow) for flow in all_flows]
        self._publishers += [self._requests(name) for name in ("", "", "soak.answers.1", "soak.answers.2")]

    def _connection(self) -> UnblockedConnection:
        connection = UnblockedConnection(self._target, self._selector)
        self._connections.append(connection)
        return connection

    def _account(self, name: str, ordered: bool) -> Account:
        return self.accounts.setdefault(name, Account(name, ordered))

    def _consumer(self, sink: Sink) -> Consumer:
        account = None if sink.account is None else self._account(sink.account, sink.ordered)
        return Consumer(sink, account, self._connection())

    def _publisher(self, flow: Flow) -> Publisher:
        names = dict.fromkeys(sink.account for sink in flow.sinks if sink.account is not None)
        accounts = [self.accounts[name] for name in names]
        return Publisher(flow, accounts, self._connection(), self.latencies, time.monotonic())

    def _requests(self, name: str) -> Requests:
        account = self._account(f"answers {len(self.accounts)}", ordered=True)
        return Requests(name, REQUEST_RATE, self._connection(), REQUESTS_QUEUE, account, time.monotonic())

    @property
    def connections(self) -> int:
        """Number of connections that it holds."""
        return len(self._connections)

    @property
    def published(self) -> int:
        """Messages so far, requests included."""
        return sum(publisher.published for publisher in self._publishers)

    @property
    def outstanding(self) -> int:
        """Messages that have not come to their accounts yet."""
        return sum(len(account.outstanding) for account in self.accounts.values())

    def run(self, until: float) -> None:
        """Publish at the rates, consume, until a moment of the monotonic clock, or until `stopping` is set."""
        while (now := time.monotonic()) < until and not self.stopping:
            for publisher in self._publishers:
                publisher.tick(now)
            self._turn(now)

    def drain(self, until: float) -> None:
        """Publish nothing more; consume until all has come, or until that moment."""
        for consumer in self._consumers:
            consumer.work_on()
        while (now := time.monotonic()) < until and (
            self.outstanding or any(publisher.unconfirmed for publisher in self._publishers)
        ):
            self._turn(now)

    def _turn(self, now: float) -> None:
        for consumer in self._consumers:
            consumer.tick(now)
        for connection in self._connections:
            connection.flush()
        for key, _ in self._selector.select(TICK_SECONDS):
            key.data.receive()

    @property
    def unconfirmed(self) -> int:
        """Publishes that were neither confirmed nor refused."""
        return sum(publisher.unconfirmed for publisher in self._publishers)

    def close(self) -> None:
        """Drop all connections."""
        for connection in self._connections:
            connection.close()
        self._selector.close()
