"""A load generator that costs little: prebuilt frames out, frames counted on the way in, once all is declared.

Publishes carry a fixed body, so a delivery always has the same length and counting deliveries is a division; only
confirms and acknowledgements are taken apart. One thread, one selector, any number of connections. It talks to
brokers on loopback addresses alone.
"""

from __future__ import annotations

import ipaddress
import selectors
import socket
import struct
import time
from dataclasses import dataclass, field

from broker.wire import frames, methods
from broker.wire.constants import FRAME_METHOD
from broker.wire.properties import BasicProperties, encode_header
from harness.clients.amqp_peer import message_frames, publish_frames
from harness.clients.shorthand import consume, exchange_declare, prefetch, queue_bind, queue_declare
from harness.clients.wire_client import Address, Client
from harness.process_figures import cpu_seconds

ANSWER_SECONDS = 600.0
"""Longest time of an answer: a queue of millions is purged within one."""
_ACK = struct.Struct(">HHQB")


@dataclass(frozen=True)
class Scenario:
    """Messages, their way, and their receivers. Sizes are bytes, `window` counts unconfirmed publishes per producer."""

    name: str
    body_bytes: int = 1024
    persistent: bool = True
    durable: bool = True
    confirms: bool = True
    no_ack: bool = False
    producers: int = 1
    consumers: int = 1
    queues: int = 1
    fanout: bool = False
    window: int = 1000
    prefetch: int = 500
    seconds: float = 4.0


@dataclass
class Result:
    """Messages per second, the broker's CPU per delivered message in us, and confirm latencies in ms."""

    published: float
    delivered: float
    cpu_us: float
    confirm_p50_ms: float
    confirm_p99_ms: float


@dataclass
class Link:
    """One connection of the load, and how far it has come. Once the load runs, its socket is read and written here."""

    client: Client
    queue: str
    received: bytearray = field(default_factory=bytearray)
    unsent: memoryview = field(default_factory=lambda: memoryview(b""))
    sent: int = 0
    confirmed: int = 0
    delivered: int = 0
    acknowledged: int = 0
    sent_at: dict[int, float] = field(default_factory=dict)

    @property
    def sock(self) -> socket.socket:
        return self.client.socket


def connect(address: Address, *, heartbeat: int = 0) -> Client:
    """A connection with one channel. Raises ValueError for an address that is not on this machine."""
    if not ipaddress.ip_address(address[0]).is_loopback:
        raise ValueError(f"{address[0]} is not a loopback address")
    return Client.connect(address, capabilities={}, heartbeat=heartbeat, timeout=ANSWER_SECONDS)


class Load:
    """One scenario against one broker."""

    def __init__(self, scenario: Scenario, address: Address, pid: int) -> None:
        self.scenario = scenario
        self._pid = pid
        self._exchange = "bench.fanout" if scenario.fanout else ""
        names = [f"bench.{scenario.name}.{number}" for number in range(scenario.queues)]
        self._consumers = [Link(connect(address), names[number % len(names)]) for number in range(scenario.consumers)]
        self._producers = [Link(connect(address), names[number % len(names)]) for number in range(scenario.producers)]
        self._latencies: list[float] = []
        self._declare(names)
        self._publish = {link.queue: self._frames(link.queue) for link in self._producers}
        self._delivery_bytes = {link.queue: self._delivery_size(link.queue) for link in self._consumers}

    def run(self) -> Result:
        """Warm up for a second, measure for the scenario's time, and take everything down again."""
        selector = selectors.DefaultSelector()
        for link in (*self._consumers, *self._producers):
            link.sock.setblocking(False)
            selector.register(link.sock, selectors.EVENT_READ, link)
        self._drive(selector, time.monotonic() + 1.0)
        self._latencies.clear()
        before, cpu, started = self._counts(), cpu_seconds(self._pid), time.monotonic()
        self._drive(selector, started + self.scenario.seconds)
        elapsed, used = time.monotonic() - started, cpu_seconds(self._pid) - cpu
        published, delivered = (now - then for now, then in zip(self._counts(), before, strict=True))
        self._close()
        p50, p99 = self._percentiles()
        return Result(published / elapsed, delivered / elapsed, used / max(1, delivered) * 1e6, p50, p99)

    def _declare(self, names: list[str]) -> None:
        """Everything that the load needs; the queues are empty then, so that consumers get nothing yet."""
        scenario, client = self.scenario, self._producers[0].client
        if scenario.fanout:
            client.ask(exchange_declare(self._exchange, "fanout", durable=scenario.durable))
        for name in names:
            client.ask(queue_declare(name, durable=scenario.durable))
            client.ask(methods.QueuePurge(name, False))
            if scenario.fanout:
                client.ask(queue_bind(name, self._exchange))
        for consumer in self._consumers:
            consumer.client.ask(prefetch(scenario.prefetch))
            consumer.client.ask(consume(consumer.queue, "c", no_ack=scenario.no_ack))
        if scenario.confirms:
            for producer in self._producers:
                producer.client.ask(methods.ConfirmSelect(False))

    def _frames(self, queue: str) -> bytes:
        key = "" if self.scenario.fanout else queue
        mode = 2 if self.scenario.persistent else 1
        return publish_frames(b"x" * self.scenario.body_bytes, exchange=self._exchange, key=key, delivery_mode=mode)

    def _delivery_size(self, queue: str) -> int:
        key = "" if self.scenario.fanout else queue
        header = encode_header(self.scenario.body_bytes, BasicProperties(delivery_mode=2))
        method = methods.BasicDeliver("c", 1, False, self._exchange, key)
        return len(message_frames(1, method, header, b"x" * self.scenario.body_bytes))

    def _drive(self, selector: selectors.BaseSelector, until: float) -> None:
        while (now := time.monotonic()) < until:
            for link in self._producers:
                self._fill(link, now)
            for key, _ in selector.select(0 if any(link.unsent for link in self._producers) else 0.005):
                self._receive(key.data)

    def _fill(self, link: Link, now: float) -> None:
        window = self.scenario.window
        if not link.unsent:
            room = window - (link.sent - link.confirmed) if self.scenario.confirms else window
            one = self._publish[link.queue]
            count = min(room, max(1, (1 << 18) // len(one)))
            if count <= 0:
                return
            link.unsent = memoryview(one * count)
            link.sent += count
            link.sent_at[link.sent] = now
        try:
            link.unsent = link.unsent[link.sock.send(link.unsent) :]
        except BlockingIOError:
            return

    def _receive(self, link: Link) -> None:
        link.received += link.sock.recv(1 << 18)
        if link in self._producers:
            self._take_confirms(link)
            return
        size = self._delivery_bytes[link.queue]
        count = len(link.received) // size
        if not count:
            return
        del link.received[: count * size]
        link.delivered += count
        if not self.scenario.no_ack:
            acks = (_ACK.pack(60, 80, tag, 0) for tag in range(link.acknowledged + 1, link.delivered + 1))
            link.acknowledged = link.delivered
            link.sock.setblocking(True)
            link.sock.sendall(b"".join(frames.frame(FRAME_METHOD, 1, ack) for ack in acks))
            link.sock.setblocking(False)

    def _take_confirms(self, link: Link) -> None:
        data, now = link.received, time.monotonic()
        end = len(data) // 21 * 21
        for at in range(0, end, 21):
            class_id, method_id, tag, multiple = _ACK.unpack_from(data, at + 7)
            if (class_id, method_id) != (60, 80):
                raise ConnectionError(f"expected basic.ack, got method {class_id}.{method_id}")
            link.confirmed = max(link.confirmed, tag) if multiple else link.confirmed + 1
        del data[:end]
        for sent in [sent for sent in link.sent_at if sent <= link.confirmed]:
            self._latencies.append(now - link.sent_at.pop(sent))

    def _counts(self) -> tuple[int, int]:
        return sum(link.sent for link in self._producers), sum(link.delivered for link in self._consumers)

    def _percentiles(self) -> tuple[float, float]:
        ordered = sorted(self._latencies) or [0.0]
        return ordered[len(ordered) // 2] * 1e3, ordered[int((len(ordered) - 1) * 0.99)] * 1e3

    def _close(self) -> None:
        for link in (*self._producers, *self._consumers):
            link.sock.close()
