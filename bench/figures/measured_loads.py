"""The loads of a sitting: what each does to a broker, and what is read off.

1 KiB, persistent, with confirms and an acknowledgement for each delivery, unless a load says otherwise. Some run a
second time beside two busy loops, because users' machines are busy.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

from bench.load import generator
from bench.load.generator import Figures
from bench.load.measured_broker import Target
from harness.clients.shorthand import exchange_declare, exchange_delete, queue_bind
from harness.process_figures import cpu_seconds

QUEUE = "bench.release"
COUNT_OF_A_SECOND = 25_000
"""Messages published and then drained, for each second that the other loads take."""
BUSY_LOOPS = 2


class Peer(NamedTuple):
    """A broker in a sitting. `queue_type` is that of durable queues, empty for its default."""

    target: Target
    queue_type: str = ""


class Run(NamedTuple):
    """Results of one run: messages per second, CPU us of the broker for each, latencies in ms (0.0: none)."""

    rate: float
    cpu_us: float
    p50_ms: float
    p99_ms: float


class MeasuredLoad(NamedTuple):
    """One row of the table."""

    title: str
    run: Callable[[Peer, float], Run]
    busy: bool = False
    """It runs beside busy loops."""


def _through(peer: Peer, seconds: float, *, queues: int = 1, synced: bool = True, **options: Any) -> Run:
    """Run the generator through durable queues that are declared before and deleted afterwards.

    Messages that need not be `synced` go through queues of the default type.
    """
    names = [QUEUE] if queues == 1 else [f"{QUEUE}.{number}" for number in range(queues)]
    client = generator.connect(peer.target)
    arguments = {"queue_type": peer.queue_type} if peer.queue_type and synced else {}
    for name in names:
        generator.declare_fresh(client, name, **arguments)
    if "exchange" in options:
        client.ask(exchange_declare(options["exchange"], "fanout"))
        for name in names:
            client.ask(queue_bind(name, options["exchange"], ""))
    found = generator.run(
        peer.target, label="release", key=QUEUE, queue=QUEUE, queues=queues, seconds=seconds, **options
    )
    if "exchange" in options:
        client.ask(exchange_delete(options["exchange"]))
    generator.delete(client, *names)
    client.close()
    return _read(found)


def _read(found: Figures) -> Run:
    confirms = found["confirm_ms"]
    rate = found["delivered_per_s"] or found["published_per_s"]
    return Run(rate, found["cpu_us_per_message"], confirms["p50"], confirms["p99"])


def _publish_only(peer: Peer, seconds: float) -> Run:
    client = generator.connect(peer.target)
    arguments = {"queue_type": peer.queue_type} if peer.queue_type else {}
    generator.declare_fresh(client, f"{QUEUE}.backlog", **arguments)
    client.close()
    count = int(COUNT_OF_A_SECOND * seconds)
    return _read(generator.run(peer.target, key=f"{QUEUE}.backlog", consumers=0, count=count, window=5000))


def _drain(peer: Peer, seconds: float) -> Run:
    """Take what `_publish_only` has left."""
    queue, count = f"{QUEUE}.backlog", int(COUNT_OF_A_SECOND * seconds)
    found = _read(generator.run(peer.target, queue=queue, producers=0, count=count))
    client = generator.connect(peer.target)
    generator.delete(client, queue)
    client.close()
    return found


def _pika(peer: Peer, seconds: float) -> Run:
    """Publish with pika's blocking connection, each message after the confirm of the one before."""
    import pika

    host, port = peer.target.address
    with pika.BlockingConnection(pika.ConnectionParameters(host, port)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        arguments = {"x-queue-type": peer.queue_type} if peer.queue_type else None
        channel.queue_declare(QUEUE, durable=True, arguments=arguments)
        persistent, times = pika.BasicProperties(delivery_mode=2), []
        cpu, began = cpu_seconds(peer.target.pid), time.perf_counter()
        while (sent := time.perf_counter()) < began + seconds:
            channel.basic_publish("", QUEUE, bytes(1024), persistent)
            times.append((time.perf_counter() - sent) * 1000)
        used = cpu_seconds(peer.target.pid) - cpu
        channel.queue_delete(QUEUE)
    times.sort()
    rate, p99 = len(times) / sum(times) * 1000, times[len(times) * 99 // 100]
    return Run(round(rate), round(used / len(times) * 1e6, 1), round(times[len(times) // 2], 3), round(p99, 3))


LONE = partial(_through, window=1)
MANY = partial(_through, queues=16, producers=16, consumers=16, window=32, prefetch=100)

LOADS = {
    "window-1000": MeasuredLoad("window of 1,000", _through),
    "window-5000": MeasuredLoad("window of 5,000", partial(_through, window=5000)),
    "lone": MeasuredLoad("one confirm at a time", LONE),
    "queues-16": MeasuredLoad("16 queues, window of 32", MANY),
    "transient": MeasuredLoad(
        "transient 16 B, no confirms, no acks",
        partial(_through, synced=False, size=16, transient=True, no_confirm=True, no_ack=True),
    ),
    "fan-out": MeasuredLoad(
        "fan-out to 10 queues, 256 B (deliveries)",
        partial(_through, queues=10, consumers=10, size=256, window=500, exchange=f"{QUEUE}.fanout"),
    ),
    "mebibyte": MeasuredLoad("1 MiB, window of 8", partial(_through, size=1 << 20, window=8, prefetch=8)),
    "publish": MeasuredLoad("publish only", _publish_only),
    "drain": MeasuredLoad("drain", _drain),
    "pika": MeasuredLoad("pika's blocking confirms", _pika),
    "lone-busy": MeasuredLoad("one confirm at a time, two busy loops", LONE, busy=True),
    "pika-busy": MeasuredLoad("pika's blocking confirms, two busy loops", _pika, busy=True),
    "queues-16-busy": MeasuredLoad("16 queues, window of 32, two busy loops", MANY, busy=True),
}


@contextmanager
def busy_loops(count: int) -> Iterator[None]:
    """Keep as many processors busy, as programs of other users: Linux shares processors among sessions."""
    command = [sys.executable, "-c", "while True: pass"]
    loops = [subprocess.Popen(command, start_new_session=True) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
