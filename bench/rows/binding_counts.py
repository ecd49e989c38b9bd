"""A hundred bindings and a hundred thousand, on a topic and on a direct exchange.

Leveret remembers where publishes with the same arguments go, so there are four ways to publish. "cached" repeats 100
keys. "distinct" goes through as many keys as there are bindings and never sends the same arguments twice: on the topic
exchange by a last word of the key that was never used before, on the direct one, where the key is the binding's, by
the two reserved bytes ahead of it. "cycled" goes through the keys as they are, so that what is remembered helps as far
as it reaches. "cc" repeats 100 keys with a CC header, which has every message routed by itself. Every message reaches
one queue of ten, is transient, 16 bytes, and consumed without acknowledgements: what is left is routing.
"""

from __future__ import annotations

import time
from typing import NamedTuple

from bench.load import generator
from bench.load.generator import Figures
from bench.load.measured_broker import Target, Wanted, mib, own_broker, report, target_of
from bench.rows.restarts import seconds_to_ready
from broker.wire import frames, methods
from harness.clients.wire_client import Client
from harness.process_figures import own_memory

FEW = 100
MANY = 100_000
QUEUES = 10
CHANNELS = 100
BATCH = 1000
SECONDS = 2.0


class Way(NamedTuple):
    """Choice of keys: how many there are, and load.c's switches for the rest."""

    name: str
    keys: int
    switches: tuple[str, ...] = ()


def routing(wanted: Wanted) -> None:
    """Bind, publish in every way, restart, for both types of exchange."""
    many = wanted.sized(MANY)
    if wanted.target is not None:
        _measure(wanted.target, many, wanted)
        _forget(wanted.target, many)
        return
    with own_broker() as broker:
        before = own_memory(broker.pid)
        _measure(target_of(broker), many, wanted)
        broker.kill()
        report(
            f"restart with 2 x {many:,} bindings",
            ready_s=seconds_to_ready(broker),
            rss_anon_mib_before_binding=mib(before),
            rss_anon_mib=mib(own_memory(broker.pid)),
        )


def _measure(target: Target, many: int, wanted: Wanted) -> None:
    client = generator.connect(target)
    for number in range(QUEUES):
        generator.declare(client, f"bench.routed.{number}")
    client.close()
    for kind in ("direct", "topic"):
        few_rates = _rates(target, kind, FEW, wanted)
        many_rates = _rates(target, kind, many, wanted)
        for way, found in many_rates.items():
            ratio = found["delivered_per_s"] / few_rates[way]["delivered_per_s"]
            cpu = found["cpu_us_per_message"] / max(0.01, few_rates[way]["cpu_us_per_message"])
            report(f"{kind}, {way}: {many:,} beside {FEW}", rate_ratio=round(ratio, 3), cpu_ratio=round(cpu, 3))


def _rates(target: Target, kind: str, bindings: int, wanted: Wanted) -> dict[str, Figures]:
    exchange = f"bench.{kind}.{bindings}"
    seconds = bind(target, exchange, kind, bindings)
    report(f"bind {bindings:,} to a {kind} exchange", seconds=round(seconds, 2), per_s=round(bindings / seconds))
    found = {}
    for way in _ways(kind, bindings):
        found[way.name] = generator.run(
            target,
            label=f"{kind}, {bindings:,} bindings, {way.name}",
            exchange=exchange,
            key="k.",
            keys=way.keys,
            **dict.fromkeys(way.switches, True),
            queue="bench.routed",
            queues=QUEUES,
            consumers=QUEUES,
            transient=True,
            no_ack=True,
            size=16,
            window=5000,
            warm=wanted.seconds(1.0),
            seconds=wanted.seconds(SECONDS),
        )
        report(f"route {way.name}", **found[way.name])
    return found


def _ways(kind: str, bindings: int) -> list[Way]:
    return [
        Way("cached", FEW),
        Way("distinct", bindings, ("unique" if kind == "topic" else "tickets",)),
        Way("cycled", bindings),
        Way("cc", FEW, ("cc",)),
    ]


def bind(target: Target, exchange: str, kind: str, bindings: int) -> float:
    """Declare a durable exchange and bind to it over many channels at once; the seconds that the bindings took."""
    client = generator.connect(target)
    _delete_exchange(client, exchange)
    client.ask(methods.ExchangeDeclare(exchange, kind, False, True, False, False, False, {}))
    for channel in range(2, CHANNELS + 1):
        client.open_channel(channel)
    started = time.monotonic()
    for first in range(0, bindings, BATCH):
        _bind_some(client, exchange, kind, range(first, min(bindings, first + BATCH)))
    elapsed = time.monotonic() - started
    client.close()
    return elapsed


def _bind_some(client: Client, exchange: str, kind: str, numbers: range) -> None:
    end = ".#" if kind == "topic" else ""
    asked = [methods.QueueBind(f"bench.routed.{n % QUEUES}", exchange, f"k.{n:08d}{end}", False, {}) for n in numbers]
    client.send_raw(b"".join(frames.method_frame(1 + n % CHANNELS, method) for n, method in enumerate(asked)))
    for n in range(len(asked)):
        client.expect(methods.QueueBindOk, channel=1 + n % CHANNELS)


def _forget(target: Target, many: int) -> None:
    """Delete what was declared on a broker that is not ours."""
    client = generator.connect(target)
    for kind in ("direct", "topic"):
        for bindings in (FEW, many):
            _delete_exchange(client, f"bench.{kind}.{bindings}")
    generator.delete(client, *(f"bench.routed.{number}" for number in range(QUEUES)))
    client.close()


def _delete_exchange(client: Client, exchange: str) -> None:
    client.ask(methods.ExchangeDelete(exchange, False, False))
