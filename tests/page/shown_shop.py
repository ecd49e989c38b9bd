"""A broker for pictures of the web page: two virtual hosts, users, policies, and clients that publish and consume."""

from __future__ import annotations

import itertools
import json
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pika
from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection

from harness.brokers.broker_process import BrokerProcess
from harness.brokers.http_broker import ask, web_address

SHOP, METERS = "shop", "meters"
TOOK = pika.BasicProperties(delivery_mode=2, content_type="application/json")
SETTINGS = """\
[management]
listen = ["127.0.0.1:0"]
[prometheus]
listen = ["127.0.0.1:0"]
[events]
enabled = true
[backup]
directory = '{backups}'
"""
QUEUES: dict[str, dict[str, Any]] = {
    "orders.eu": {"x-queue-type": "quorum"},
    "orders.us": {"x-single-active-consumer": True, "x-max-length": 100_000},
    "orders.asia": {"x-message-ttl": 3_600_000},
    "invoices": {},
    "mails": {"x-max-priority": 5},
    "dead-letters": {},
    "audit": {"x-queue-type": "stream"},
}
BINDINGS = {"orders.eu": "eu.#", "orders.us": "us.#", "orders.asia": "asia.#", "audit": "#", "invoices": "*.paid"}
KEYS = ("eu.placed", "eu.paid", "us.placed", "us.placed", "us.paid", "asia.placed")
REFUSED = 40
"""Every fortieth delivery is refused, and becomes a dead letter."""


@contextmanager
def shop(directory: Path) -> Iterator[BrokerProcess]:
    """Run the broker and its clients until the end of the block."""
    backups = directory / "backups"
    backups.mkdir()
    (directory / "shop.toml").write_text(SETTINGS.format(backups=backups), encoding="utf-8")
    broker = BrokerProcess(directory / "data", "--config", str(directory / "shop.toml"), check_invariants=False)
    broker.http = ()
    broker.start()
    over = threading.Event()
    threads: list[threading.Thread] = []
    try:
        _declare(broker)
        threads += [threading.Thread(target=client, daemon=True) for client in _clients(broker, over)]
        for thread in threads:
            thread.start()
        yield broker
    finally:
        over.set()
        for thread in threads:
            thread.join(5)
        broker.stop()


def _declare(broker: BrokerProcess) -> None:
    for vhost, text in ((SHOP, "orders of all countries"), (METERS, "readings of meters")):
        broker.tell("add_vhost", name=vhost, description=text, tags=["production"], default_queue_type="")
        broker.tell("set_permissions", user="guest", vhost=vhost, configure=".*", write=".*", read=".*")
    for user, tags in (("webshop", []), ("billing", ["management"]), ("watcher", ["monitoring"])):
        broker.tell("add_user", name=user, password="secret", tags=tags)
        broker.tell(
            "set_permissions", user=user, vhost=SHOP, configure="^$", write="^orders", read="^(orders|invoices)"
        )
    with _connection(broker, SHOP, "setup") as connection:
        channel = connection.channel()
        for exchange, kind in (("orders", "topic"), ("dead", "fanout")):
            channel.exchange_declare(exchange, kind, durable=True)
        channel.exchange_declare("reminders", "x-delayed-message", durable=True, arguments={"x-delayed-type": "direct"})
        for queue, arguments in QUEUES.items():
            channel.queue_declare(queue, durable=True, arguments=arguments)
        for queue, key in BINDINGS.items():
            channel.queue_bind(queue, "orders", key)
        channel.queue_bind("dead-letters", "dead")
        channel.queue_bind("mails", "reminders", "mails")
    with _connection(broker, METERS, "setup") as connection:
        channel = connection.channel()
        channel.queue_declare("readings", durable=True, arguments={"x-queue-type": "quorum"})
        channel.queue_declare("readings.copy", durable=True)
    rules = {
        f"policies/{SHOP}/dead-letters": {
            "pattern": "^orders\\.",
            "definition": {"dead-letter-exchange": "dead"},
            "apply-to": "queues",
        },
        f"vhost-limits/{METERS}/max-connections": {"value": 100},
        f"parameters/shovel/{METERS}/copies": {
            "value": {
                "src-uri": f"amqp:///{METERS}",
                "src-queue": "readings.copy",
                "dest-uri": f"amqp:///{SHOP}",
                "dest-queue": "readings",
            }
        },
    }
    for path, body in rules.items():
        answer = ask(web_address(broker), f"/api/{path}", method="PUT", body=json.dumps(body).encode())
        assert answer.status in (201, 204), (path, answer)


def _connection(broker: BrokerProcess, vhost: str, name: str) -> BlockingConnection:
    host, port = broker.address
    named = {"connection_name": name}
    return pika.BlockingConnection(pika.ConnectionParameters(host, port, vhost, client_properties=named))


def _clients(broker: BrokerProcess, over: threading.Event) -> Iterator[Callable[[], None]]:
    numbers = itertools.count(1)

    def order(channel: BlockingChannel) -> None:
        number, key = next(numbers), random.choice(KEYS)
        body = {"order": number, "sum": round(random.uniform(5, 300), 2), "paid": key.endswith("paid")}
        channel.basic_publish("orders", key, json.dumps(body).encode(), TOOK)

    def reading(channel: BlockingChannel) -> None:
        for queue in ("readings", "readings.copy"):
            channel.basic_publish("", queue, b'{"meter": 7, "kwh": 12.4}', TOOK)

    def mail(channel: BlockingChannel) -> None:
        later = pika.BasicProperties(delivery_mode=2, headers={"x-delay": 30_000}, priority=random.randint(0, 5))
        channel.basic_publish("reminders", "mails", b"Your order has been paid.", later)

    yield partial(_publish, broker, over, SHOP, "webshop", 22, order)
    yield partial(_publish, broker, over, METERS, "meter gateway", 20, reading)
    yield partial(_publish, broker, over, SHOP, "reminders", 1, mail)
    yield partial(_consume, broker, over, SHOP, "fulfilment", "orders.eu", 50)
    yield partial(_consume, broker, over, SHOP, "fulfilment us", "orders.us", 6)
    yield partial(_consume, broker, over, SHOP, "billing", "invoices", 50)
    yield partial(_consume, broker, over, METERS, "collector", "readings", 50)
    yield partial(_come_and_go, broker, over)


def _publish(
    broker: BrokerProcess,
    over: threading.Event,
    vhost: str,
    name: str,
    per_second: float,
    publish: Callable[[BlockingChannel], None],
) -> None:
    with _connection(broker, vhost, name) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        while not over.is_set():
            publish(channel)
            connection.sleep(random.expovariate(per_second))


def _consume(
    broker: BrokerProcess, over: threading.Event, vhost: str, name: str, queue: str, per_second: float
) -> None:
    with _connection(broker, vhost, name) as connection:
        channel = connection.channel()
        channel.basic_qos(prefetch_count=20)
        for count in itertools.count(1):
            method, _, _ = next(channel.consume(queue, inactivity_timeout=0.2))
            if over.is_set():
                return
            if method is not None:
                settle = channel.basic_reject if count % REFUSED == 0 else channel.basic_ack
                settle(method.delivery_tag, **({"requeue": False} if count % REFUSED == 0 else {}))
                connection.sleep(1 / per_second)


def _come_and_go(broker: BrokerProcess, over: threading.Event) -> None:
    """Connect for a moment, as a script does that forgets to keep its connection."""
    while not over.wait(5):
        with _connection(broker, SHOP, "report") as connection:
            connection.channel()
