"""Messages of queues, streams and delayed exchanges are there after a restart, with all their contents."""

from __future__ import annotations

import random
import time

from broker.wire.field_tables import Field
from broker.wire.properties import encode_header
from harness.clients.contents import ALL_PROPERTIES, PERSISTENT, with_headers
from harness.clients.queue_steps import deliveries, deposit, drain, drain_messages, fetch, numbered
from harness.clients.shorthand import consume, exchange_declare, nack, prefetch, queue_bind, queue_declare, queue_delete
from harness.waiting import eventually, pass_by
from tests.durability.restart.boots import Boots, declare, flush
from tests.unit.wire.test_tables import VECTORS


def everything_a_message_carries_comes_back() -> Boots:
    """Exchange, routing key, all fourteen properties and every field type, byte for byte."""
    tables = [{"f": field, "in": Field("A", [field]), "deep": Field("F", {"f": field})} for _, field in VECTORS]
    client = yield
    client.ask(exchange_declare("x", "topic", durable=True))
    client.ask(queue_declare("q", durable=True))
    client.ask(queue_bind("q", "x", "#"))
    for table in tables:
        deposit(client, b"body", exchange="x", key="the.key", properties=ALL_PROPERTIES._replace(headers=table))
    client = yield
    found = drain_messages(client, "q")
    expected = [encode_header(4, ALL_PROPERTIES._replace(headers=table)) for table in tables]
    assert [message.header for message in found] == expected
    assert {(message.method.exchange, message.method.routing_key) for message in found} == {("x", "the.key")}


def bodies_of_every_size() -> Boots:
    """From nothing to several megabytes, over the borders of frames and of storage pages."""
    dice = random.Random(7)
    sizes = [0, 1, 4095, 4096, 4097, 65535, 65536, 131064, 131065, 1 << 20, 5_000_000]
    bodies = [dice.randbytes(size) for size in sizes]
    client = yield
    client.ask(queue_declare("q", durable=True))
    deposit(client, *bodies, key="q", properties=PERSISTENT)
    client = yield
    assert drain(client, "q") == bodies


def blind_keys_count_after_a_restart() -> Boots:
    """RabbitMQ: without a routing key of the queue's own, a dead letter goes where all keys of the message lead."""
    client = yield
    client.ask(exchange_declare("dlx", durable=True))
    client.ask(queue_declare("q", durable=True, arguments={"x-dead-letter-exchange": "dlx"}))
    for key in ("open", "blind" * 51):
        queue = "from " + key[:5]
        client.ask(queue_declare(queue, durable=True))
        client.ask(queue_bind(queue, "dlx", key))
    deposit(client, b"x", b"y", key="q", properties=with_headers({"CC": ["open"], "BCC": ["blind" * 51, "long" * 100]}))
    client = yield
    for message in fetch(client, "q", 2):
        assert list(message.properties.headers or {}) == ["CC"]
    client.send(nack(2, multiple=True, requeue=False))
    flush(client)
    client = yield
    assert [drain(client, queue) for queue in ("from open", "from blind", "q")] == [[b"x", b"y"], [b"x", b"y"], []]


def a_deleted_stream_begins_anew() -> Boots:
    client = yield
    declare(client, "s", queue_type="stream")
    deposit(client, *numbered(5), key="s")
    client.ask(queue_delete("s"))
    declare(client, "s", queue_type="stream")
    deposit(client, b"new", key="s")
    client = yield
    client.ask(prefetch(1))
    client.ask(consume("s", arguments={"x-stream-offset": "first"}))
    (message,) = deliveries(client, 1)
    assert (message.properties.headers, message.body) == ({"x-stream-offset": Field("l", 0)}, b"new")


def what_fell_due_meanwhile_comes_after_the_start() -> Boots:
    """The header says how long the message was to wait, and the blind key leads to its queue all the same."""
    client = yield
    later = exchange_declare("later", "x-delayed-message", durable=True, arguments={"x-delayed-type": "direct"})
    for method in (later, queue_declare("q", durable=True), queue_bind("q", "later", "blind")):
        client.ask(method)
    headers = {"x-delay": 1000, "CC": ["open"], "BCC": ["blind"]}
    deposit(client, b"1", key="nowhere", exchange="later", properties=with_headers(headers))
    due = time.monotonic() + 1
    client = yield
    pass_by(due)
    (message,) = eventually(lambda: drain_messages(client, "q"), "the message to arrive")
    found = message.properties.headers or {}
    assert found.keys() == {"x-delay", "CC"}
    assert found["x-delay"] == Field("I", -1000)
