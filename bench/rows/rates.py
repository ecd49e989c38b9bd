"""Messages that are all different, dead letters and requests beside the plain path: rates, latencies, CPU time.

Each function is one scenario against any broker. It declares what it needs, lets bench/load/load.c work, deletes what
it declared and returns the generator's figures with `messages_per_s`, the rate that is compared: messages that reached
their last consumer; for requests, requests and answers together.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from bench.load import generator
from bench.load.generator import Figures, Load
from bench.load.measured_broker import Target, Wanted, chosen, report
from harness.clients.shorthand import exchange_declare, exchange_delete, queue_bind

TTL_MILLISECONDS = 100
LONG_MILLISECONDS = 60_000


def plain(target: Target, seconds: float = 4.0) -> Figures:
    """1 KiB, persistent, confirms with a window of 1,000, each delivery acknowledged."""
    return _through(target, "bench.plain", "plain", seconds)


def varied(target: Target, seconds: float = 4.0) -> Figures:
    """The same, but no two messages are alike in properties, order of headers and, of 100,000 keys, routing key."""
    client = generator.connect(target)
    generator.declare_fresh(client, "bench.varied")
    client.ask(exchange_declare("bench.varied", "topic"))
    client.ask(queue_bind("bench.varied", "bench.varied", "order.#"))
    names = {"exchange": "bench.varied", "key": "order.", "queue": "bench.varied"}
    found = generator.run(target, label="varied", keys=100_000, varied=True, seconds=seconds, **names)
    client.ask(exchange_delete("bench.varied"))
    generator.delete(client, "bench.varied")
    client.close()
    return {**found, "messages_per_s": found["delivered_per_s"]}


def kept(target: Target, seconds: float = 4.0) -> Figures:
    """The same through a queue with a time to live and a dead-letter exchange, whose messages are consumed in time."""
    dead_letters = {"dead_letter_exchange": "", "dead_letter_routing_key": "bench.dead"}
    return _through(target, "bench.kept", "ttl + dlx, kept", seconds, message_ttl=LONG_MILLISECONDS, **dead_letters)


def _through(target: Target, queue: str, label: str, seconds: float, **arguments: Any) -> Figures:
    client = generator.connect(target)
    generator.declare_fresh(client, queue, **arguments)
    found = generator.run(target, label=label, key=queue, queue=queue, seconds=seconds)
    generator.delete(client, queue)
    client.close()
    return {**found, "messages_per_s": found["delivered_per_s"]}


def expiry(target: Target, seconds: float = 4.0) -> Figures:
    """The same, but each message expires after 100 ms in a queue without consumers and is consumed as a dead letter."""
    client = generator.connect(target)
    generator.declare_fresh(client, "bench.dead")
    generator.declare_fresh(
        client,
        "bench.ttl",
        message_ttl=TTL_MILLISECONDS,
        dead_letter_exchange="",
        dead_letter_routing_key="bench.dead",
    )
    found = generator.run(target, label="ttl + dlx, expired", key="bench.ttl", queue="bench.dead", seconds=seconds)
    generator.delete(client, "bench.ttl", "bench.dead")
    client.close()
    return {**found, "messages_per_s": found["delivered_per_s"]}


def rejection(target: Target, seconds: float = 4.0) -> Figures:
    """The same, but the first consumer rejects every message and a second one gets it as a dead letter."""
    client = generator.connect(target)
    generator.declare_fresh(client, "bench.dead")
    generator.declare_fresh(client, "bench.rejected", dead_letter_exchange="", dead_letter_routing_key="bench.dead")
    last = Load(target, label="dead letters", queue="bench.dead", producers=0, seconds=seconds)
    found = generator.run(
        target, label="reject + dlx", key="bench.rejected", queue="bench.rejected", reject=True, seconds=seconds
    )
    dead_letters = last.figures()
    generator.delete(client, "bench.rejected", "bench.dead")
    client.close()
    return {**found, "messages_per_s": dead_letters["delivered_per_s"]}


def requests(target: Target, seconds: float = 4.0, clients: int = 16, window: int = 16) -> Figures:
    """16 clients with an exclusive reply queue each and 16 requests out, 4 servers; 1 KiB, transient."""
    client = generator.connect(target)
    generator.declare_fresh(client, "bench.requests", durable=False)
    found = generator.run(
        target,
        label=f"rpc, {clients} clients, window {window}",
        rpc=True,
        transient=True,
        queue="bench.requests",
        producers=clients,
        consumers=4,
        window=window,
        prefetch=100,
        seconds=seconds,
    )
    generator.delete(client, "bench.requests")
    client.close()
    return {**found, "messages_per_s": 2 * found["delivered_per_s"]}


SCENARIOS: dict[str, Callable[..., Figures]] = {
    "plain": plain,
    "varied": varied,
    "ttl": kept,
    "expired": expiry,
    "reject": rejection,
    "rpc": requests,
    "rpc-64": partial(requests, window=64),
    "rpc-1": partial(requests, clients=1, window=1),
}


def rates(wanted: Wanted) -> None:
    """Every scenario once, each beside the plain one."""
    with chosen(wanted) as target:
        whole = 0.0
        for name, scenario in SCENARIOS.items():
            found = scenario(target, max(0.5, wanted.seconds(4.0)))
            whole = whole or found["messages_per_s"]
            report(name, of_plain=round(found["messages_per_s"] / whole, 2), **found)
