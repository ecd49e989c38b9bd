"""Confirms of others, and memory, while large numbers of messages end: expired, rejected, given back."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from bench.load import generator
from bench.load.generator import Load
from bench.load.measured_broker import MemoryWatch, Target, Wanted, mib, own_broker, report, target_of
from broker.wire import methods
from broker.wire.method import Method
from harness.brokers.broker_process import BrokerProcess
from harness.clients.shorthand import ack, consume, exchange_declare, nack, queue_bind, queue_declare
from harness.clients.wire_client import Client

MESSAGES, BODY_BYTES = 600_000, 1000
DEAD_LETTERS, DEAD_LETTER_BYTES, DEAD_LETTER_QUEUES = 400_000, 16, 4
TTL_SECONDS = 30
SECONDS = 20.0
PATIENCE_SECONDS = 600.0
DEAD = {"dead_letter_exchange": "", "dead_letter_routing_key": "bench.dead"}


def masses(wanted: Wanted) -> None:
    """Confirms of 500 messages a second on another queue, and RssAnon: beside a load without confirms, while a backlog
    expires that did so while the broker was down, and while one frame settles all that a channel holds.
    """
    messages, dead_letters = wanted.sized(MESSAGES), wanted.sized(DEAD_LETTERS)
    with own_broker() as broker:
        _prepare(broker)
        _fill(broker, "bench.honest", 10)
        _watched(broker, wanted, "beside an honest load", lambda: _fill(broker, "bench.honest", messages))
    with own_broker() as broker:
        _expired(broker, wanted, messages)
    settlements = {
        "acknowledged": ("classic", ack(0, multiple=True), ""),
        "rejected": ("classic", nack(0, multiple=True, requeue=False), "bench.dead"),
        "given back": ("classic", nack(0, multiple=True), "bench.masses"),
        "given back, quorum": ("quorum", nack(0, multiple=True), "bench.masses"),
    }
    for name, (kind, method, into) in settlements.items():
        with own_broker() as broker:
            client = _prepare(broker)
            generator.declare_fresh(client, "bench.masses", queue_type=kind, **(DEAD if into == "bench.dead" else {}))
            _fill(broker, "bench.masses", messages)
            _settle(broker, wanted, f"{messages:,} {name}", messages, method, into)
    with own_broker() as broker:
        client = _prepare(broker)
        client.ask(exchange_declare("bench.fan", "fanout", durable=True))
        for number in range(DEAD_LETTER_QUEUES):
            generator.declare_fresh(client, f"bench.dead-letters.{number}")
            client.ask(queue_bind(f"bench.dead-letters.{number}", "bench.fan"))
        generator.declare_fresh(client, "bench.masses", dead_letter_exchange="bench.fan")
        _fill(broker, "bench.masses", dead_letters, DEAD_LETTER_BYTES)
        name, reject = (
            f"{dead_letters:,} dead letters to {DEAD_LETTER_QUEUES} queues",
            nack(0, multiple=True, requeue=False),
        )
        _settle(broker, wanted, name, dead_letters, reject, f"bench.dead-letters.{number}")


def _prepare(broker: BrokerProcess) -> Client:
    client = generator.connect(target_of(broker))
    for name in ("bench.others", "bench.dead", "bench.honest"):
        generator.declare_fresh(client, name)
    return client


def _fill(broker: BrokerProcess, queue: str, messages: int, size: int = BODY_BYTES) -> None:
    target = target_of(broker)
    generator.run(target, label="publish", key=queue, consumers=0, count=messages, size=size, window=5000)


def _others(target: Target, wanted: Wanted) -> Load:
    warm, seconds = wanted.seconds(0.5), wanted.seconds(SECONDS)
    return Load(target, label="others", key="bench.others", queue="bench.others", rate=500, warm=warm, seconds=seconds)


def _watched(broker: BrokerProcess, wanted: Wanted, name: str, action: Callable[[], None]) -> None:
    target = target_of(broker)
    load = _others(target, wanted)
    with MemoryWatch(target.pid) as watch:
        threading.Event().wait(2 * wanted.seconds(0.5))
        started = time.monotonic()
        action()
        took = time.monotonic() - started
        found = load.figures()
    report(name, took_s=round(took, 2), rss_anon_mib_highest=mib(watch.highest), **found)


def _expired(broker: BrokerProcess, wanted: Wanted, messages: int) -> None:
    client, ttl = _prepare(broker), max(1000, int(TTL_SECONDS * 1000 * min(1.0, wanted.part)))
    generator.declare_fresh(client, "bench.masses", message_ttl=ttl, **DEAD)
    _fill(broker, "bench.masses", messages)
    broker.kill()
    threading.Event().wait(ttl / 1000)
    broker.start()
    _watched(broker, wanted, f"{messages:,} expired", lambda: _await(broker, "bench.dead", messages))


def _settle(broker: BrokerProcess, wanted: Wanted, name: str, messages: int, method: Method, into: str) -> None:
    """All is out with one channel, which settles it with one frame; over when all is ready in the queue `into`, and
    without one when the channel goes on.
    """
    client = generator.connect(target_of(broker))
    client.ask(consume("bench.masses", "t"))
    for _ in range(messages):
        client.expect_message(methods.BasicDeliver)
    client.ask(methods.BasicCancel("t", False))

    def settle() -> None:
        client.send(method)
        if into:
            _await(broker, into, messages)
        else:
            client.ask(queue_declare("bench.masses", passive=True))

    _watched(broker, wanted, name, settle)
    client.close()


def _await(broker: BrokerProcess, queue: str, ready: int) -> None:
    """Return when `ready` messages are ready."""
    client, until = generator.connect(target_of(broker)), time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < until:
        if client.ask(queue_declare(queue, passive=True)).message_count == ready:
            break
        threading.Event().wait(0.2)
    client.close()
