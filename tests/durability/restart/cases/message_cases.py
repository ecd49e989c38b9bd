"""What was in queues, streams and delayed exchanges is in them again, with all its contents."""

from __future__ import annotations

import random
import time
from typing import Any

from broker.wire.field_tables import Field
from broker.wire.methods import QueueDeclareOk
from broker.wire.properties import BasicProperties, encode_header
from harness.clients.contents import PERSISTENT, with_headers
from harness.clients.queue_steps import deliveries, deposit, drain, drain_messages, fetch, numbered
from harness.clients.shorthand import (
    consume,
    exchange_declare,
    exchange_delete,
    nack,
    prefetch,
    queue_bind,
    queue_declare,
    queue_delete,
)
from harness.clients.wire_client import Client
from harness.waiting import eventually, pass_by
from tests.durability.restart.boots import Boots, declare, flush
from tests.unit.wire.test_tables import VECTORS


def everything_a_message_carries_comes_back() -> Boots:
    """Exchange, routing key, all fourteen properties and every field type, byte for byte."""
    texts = ("corr", "back", "600000", "id", 1_700_000_000, "kind", "guest", "app", "cluster")
    properties = BasicProperties("text/plain", "utf-8", {}, 2, 7, *texts)
    fields = [field for _, field in VECTORS]
    tables = [{"f": field, "in": Field("A", [field]), "deep": Field("F", {"f": field})} for field in fields]
    client = yield
    client.ask(exchange_declare("x", "topic", durable=True))
    client.ask(queue_declare("q", durable=True))
    client.ask(queue_bind("q", "x", "#"))
    for table in tables:
        deposit(client, b"body", exchange="x", key="the.key", properties=properties._replace(headers=table))
    client = yield
    found = drain_messages(client, "q")
    expected = [encode_header(4, properties._replace(headers=table)) for table in tables]
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


# Streams


def read(client: Client, offset: Any, count: int) -> list[tuple[int, bytes]]:
    """So many messages from an offset on, read on a channel of its own: offset and body of each."""
    client.open_channel(7)
    client.ask(prefetch(count), channel=7)
    client.ask(consume("s", arguments={"x-stream-offset": offset}), channel=7)
    messages = deliveries(client, count, channel=7)
    client.close_channel(7)
    return [((message.properties.headers or {})["x-stream-offset"].value, message.body) for message in messages]


def what_retention_dropped_stays_away() -> Boots:
    """The beginning of the stream, and the segments that go next, are as they were."""
    client = yield
    declare(client, "s", queue_type="stream", max_length_bytes=10_000, stream_max_segment_size_bytes=1_000)
    deposit(client, *(b"%0100d" % number for number in range(500)), key="s")
    (first, body), *_ = read(client, 0, 1)
    assert first == int(body) > 400
    client = yield
    assert read(client, 0, 1) == [(first, body)]
    assert client.ask(queue_declare("s", passive=True)).message_count == 500 - first
    deposit(client, *(b"%0100d" % number for number in range(500, 600)), key="s")
    (later, body), *_ = read(client, 0, 1)
    assert later == int(body) > 500
    assert [offset for offset, _ in read(client, later, 600 - later)] == list(range(later, 600))


def a_deleted_stream_begins_anew() -> Boots:
    client = yield
    declare(client, "s", queue_type="stream")
    deposit(client, *numbered(5), key="s")
    client.ask(queue_delete("s"))
    declare(client, "s", queue_type="stream")
    deposit(client, b"new", key="s")
    client = yield
    assert read(client, "first", 1) == [(0, b"new")]


# Delays


def declare_delayed(client: Client) -> None:
    """A durable delayed direct exchange, and the queue that its messages arrive in."""
    arguments = {"x-delayed-type": "direct"}
    client.ask(exchange_declare("later", "x-delayed-message", durable=True, arguments=arguments))
    client.ask(queue_declare("q", durable=True))
    client.ask(queue_bind("q", "later", "k"))


def what_fell_due_meanwhile_comes_after_the_start() -> Boots:
    """The header says how long the message was to wait, and the blind key leads to its queue all the same."""
    client = yield
    declare_delayed(client)
    client.ask(queue_bind("q", "later", "blind"))
    headers = {"x-delay": 1000, "CC": ["open"], "BCC": ["blind"]}
    deposit(client, b"1", key="nowhere", exchange="later", properties=with_headers(headers))
    due = time.monotonic() + 1
    client = yield
    pass_by(due)
    (message,) = eventually(lambda: drain_messages(client, "q"), "the message to arrive")
    found = message.properties.headers or {}
    assert found.keys() == {"x-delay", "CC"}
    assert found["x-delay"] == Field("I", -1000)


def a_deleted_exchange_stays_deleted_with_its_messages() -> Boots:
    def delay(milliseconds: int) -> None:
        deposit(client, b"1", key="k", exchange="later", properties=with_headers({"x-delay": milliseconds}))

    client = yield
    declare_delayed(client)
    for _ in range(100):
        delay(600_000)
    client.ask(exchange_delete("later"))
    declare_delayed(client)
    client.ask(queue_declare("new", durable=True))
    client = yield
    declare_delayed(client)
    client.ask(queue_declare("newer", durable=True))
    delay(10)
    assert eventually(lambda: drain(client, "q"), "the message to arrive") == [b"1"]
    for queue in ("new", "newer"):
        assert client.ask(queue_declare(queue, passive=True)) == QueueDeclareOk(queue, 0, 0)
