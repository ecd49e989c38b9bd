"""What was in the queues is in them again: which messages, in which order, with which marks and contents."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import pytest

from broker.wire.field_tables import Field
from broker.wire.methods import BasicDeliver, BasicGetOk, ChannelCloseOk, QueueDeclareOk, QueuePurge, TxCommit, TxSelect
from broker.wire.properties import BasicProperties, encode_header
from harness.clients.amqp_peer import Message
from harness.clients.contents import PERSISTENT, TRANSIENT, flags, with_headers
from harness.clients.queue_steps import deposit, drain, drain_messages
from harness.clients.shorthand import (
    ack,
    consume,
    exchange_declare,
    get,
    nack,
    prefetch,
    queue_bind,
    queue_declare,
    queue_delete,
)
from harness.clients.wire_client import Client
from harness.waiting import eventually, pass_by
from tests.unit.wire.test_tables import VECTORS

Dial = Callable[[], Client]


pytestmark = pytest.mark.slow


def numbered(*numbers: int) -> list[bytes]:
    return [b"%d" % number for number in numbers]


def filled(client: Client, queue: str, *bodies: bytes) -> None:
    """Declare a durable queue and confirm persistent messages into it."""
    client.ask(queue_declare(queue, durable=True))
    deposit(client, *bodies, key=queue, properties=PERSISTENT)


def fetch(client: Client, queue: str, count: int) -> list[Message]:
    """Take messages without acknowledging them."""
    for _ in range(count):
        client.send(get(queue))
    return [client.expect_message(BasicGetOk) for _ in range(count)]


def flush(client: Client) -> None:
    """Wait for a confirm of something later: what the connection settled before is then on disk as well."""
    filled(client, "flushed", b"")


def test_persistent_messages_keep_their_order(dial: Dial, reborn: Dial) -> None:
    """0-9-1 specification, 4.7: order per queue; RabbitMQ: a confirmed persistent message survives."""
    client = dial()
    filled(client, "q", *numbered(*range(500)))
    client = reborn()
    assert client.ask(queue_declare("q", passive=True)) == QueueDeclareOk("q", 500, 0)
    deposit(client, *numbered(*range(500, 600)), key="q", properties=PERSISTENT)
    client = reborn()
    assert flags(drain_messages(client, "q")) == [(body, False) for body in numbered(*range(600))]
    flush(client)
    client = reborn()
    assert client.ask(queue_declare("q", passive=True)) == QueueDeclareOk("q", 0, 0)


def test_everything_a_message_carries_comes_back(dial: Dial, reborn: Dial) -> None:
    """Exchange, routing key, all fourteen properties and every field type, byte for byte."""
    properties = BasicProperties(
        "text/plain",
        "utf-8",
        {},
        2,
        7,
        "corr",
        "back",
        "600000",
        "id",
        1_700_000_000,
        "kind",
        "guest",
        "app",
        "cluster",
    )
    fields = [field for _, field in VECTORS]
    tables = [{"f": field, "in": Field("A", [field]), "deep": Field("F", {"f": field})} for field in fields]
    client = dial()
    client.ask(exchange_declare("x", "topic", durable=True))
    client.ask(queue_declare("q", durable=True))
    client.ask(queue_bind("q", "x", "#"))
    for table in tables:
        deposit(client, b"body", exchange="x", key="the.key", properties=properties._replace(headers=table))
    client = reborn()
    found = drain_messages(client, "q")
    assert [message.header for message in found] == [
        encode_header(4, properties._replace(headers=table)) for table in tables
    ]
    assert {(message.method.exchange, message.method.routing_key) for message in found} == {("x", "the.key")}


def test_bodies_of_every_size(dial: Dial, reborn: Dial) -> None:
    """From nothing to several megabytes, over the borders of frames and of storage pages."""
    dice = random.Random(7)
    sizes = [0, 1, 4095, 4096, 4097, 65535, 65536, 131064, 131065, 1 << 20, 5_000_000]
    bodies = [dice.randbytes(size) for size in sizes]
    client = dial()
    filled(client, "q", *bodies)
    client = reborn()
    assert drain(client, "q") == bodies


def test_transient_messages_are_gone_from_between(dial: Dial, reborn: Dial) -> None:
    """0-9-1 specification, delivery-mode: only persistent messages of durable queues are kept."""
    client = dial()
    client.ask(queue_declare("q", durable=True))
    modes = [PERSISTENT, TRANSIENT, BasicProperties(), PERSISTENT, TRANSIENT, PERSISTENT]
    for number, properties in enumerate(modes):
        deposit(client, b"%d" % number, key="q", properties=properties)
    client = reborn()
    assert client.ask(queue_declare("q", passive=True)).message_count == 3
    assert drain(client, "q") == numbered(0, 3, 5)


def test_unacked_messages_return_to_their_place(dial: Dial, reborn: Dial) -> None:
    """RabbitMQ: what was delivered and not acknowledged is redelivered, in its original place."""
    client = dial()
    filled(client, "q", *numbered(*range(10)))
    tags = [message.method.delivery_tag for message in fetch(client, "q", 6)]
    for index in (1, 4):
        client.send(ack(tags[index]))
    flush(client)
    client = reborn()
    expected = [(0, True), (2, True), (3, True), (5, True), (6, False), (7, False), (8, False), (9, False)]
    assert flags(drain_messages(client, "q")) == [(b"%d" % number, mark) for number, mark in expected]


def test_acknowledged_messages_stay_gone(dial: Dial, reborn: Dial) -> None:
    """Singly, by multiple, by a consumer without acknowledgements, and by reject without requeue."""
    client = dial()
    for queue in ("single", "multiple", "rejected", "fetched"):
        filled(client, queue, *numbered(*range(20)))
    for message in fetch(client, "single", 10)[::2]:
        client.send(ack(message.method.delivery_tag))
    client.send(ack(fetch(client, "multiple", 15)[-1].method.delivery_tag, multiple=True))
    client.send(nack(fetch(client, "rejected", 3)[-1].method.delivery_tag, requeue=False))
    for _ in range(4):
        client.send(get("fetched", no_ack=True))
        client.expect_message(BasicGetOk)
    flush(client)
    client = reborn()
    assert drain(client, "single") == numbered(*range(10, 20))
    assert drain(client, "multiple") == numbered(*range(15, 20))
    assert drain(client, "rejected") == numbered(0, 1, *range(3, 20))
    assert drain(client, "fetched") == numbered(*range(4, 20))


def test_acknowledged_before_they_were_written(dial: Dial, reborn: Dial) -> None:
    """A consumer that is as fast as the publisher: most messages are settled while they are on their way to disk."""
    client = dial()
    client.ask(queue_declare("q", durable=True))
    client.open_channel(2)
    client.ask(consume("q"), channel=2)
    for number in range(300):
        client.publish(b"%d" % number, key="q", properties=PERSISTENT)
    for number in range(300):
        message = client.expect_message(BasicDeliver, channel=2)
        assert message.body == b"%d" % number
        if number % 10:
            client.send(ack(message.method.delivery_tag), channel=2)
    flush(client)
    client = reborn()
    assert drain(client, "q") == numbered(*range(0, 300, 10))


def test_requeued_messages_keep_their_place_and_their_mark(dial: Dial, reborn: Dial) -> None:
    """RabbitMQ: requeue puts a message where it was; the mark stays over a restart."""
    client = dial()
    filled(client, "q", *numbered(*range(6)))
    messages = fetch(client, "q", 4)
    for message in (messages[3], messages[0], messages[2]):
        client.send(nack(message.method.delivery_tag))
    client.send(ack(messages[1].method.delivery_tag))
    flush(client)
    client = reborn()
    assert flags(drain_messages(client, "q")) == [
        (b"0", True),
        (b"2", True),
        (b"3", True),
        (b"4", False),
        (b"5", False),
    ]


def test_what_a_consumer_held_is_redelivered(dial: Dial, reborn: Dial) -> None:
    """Prefetch bounds what can have been delivered: everything behind it comes unmarked."""
    client = dial()
    filled(client, "q", *numbered(*range(30)))
    client.ask(prefetch(10))
    client.ask(consume("q"))
    assert [client.expect_message(BasicDeliver).body for _ in range(10)] == numbered(*range(10))
    flush(client)
    client = reborn()
    assert flags(drain_messages(client, "q")) == [(b"%d" % number, number < 10) for number in range(30)]


def test_time_to_live_goes_on_while_the_broker_is_down(dial: Dial, reborn: Dial) -> None:
    """RabbitMQ: expiry counts from the publish. Nothing expired is delivered by a broker that has just begun."""
    client = dial()
    client.ask(queue_declare("q", durable=True, arguments={"x-message-ttl": 1500}))
    client.ask(queue_declare("each", durable=True))
    deposit(client, b"dies", key="q", properties=PERSISTENT)
    deposit(client, b"dies", key="each", properties=PERSISTENT._replace(expiration="1500"))
    deposit(client, b"lives", key="each", properties=PERSISTENT._replace(expiration="600000"))
    confirmed = time.monotonic()
    client = reborn()
    pass_by(confirmed + 1.5)
    client = reborn()
    assert drain(client, "q") == []
    assert drain(client, "each") == [b"lives"]


def test_what_expires_after_a_restart_is_dead_lettered(dial: Dial, reborn: Dial) -> None:
    """RabbitMQ: a message that waited over a restart goes to the dead-letter exchange when its time comes."""
    client = dial()
    client.ask(queue_declare("dead", durable=True))
    arguments = {"x-message-ttl": 700, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    client.ask(queue_declare("q", durable=True, arguments=arguments))
    deposit(client, b"1", b"2", key="q", properties=PERSISTENT)
    client = reborn()
    eventually(lambda: client.ask(queue_declare("dead", passive=True)).message_count == 2, "two dead letters")
    flush(client)
    client = reborn()
    messages = drain_messages(client, "dead")
    assert [message.body for message in messages] == [b"1", b"2"]
    headers = messages[0].properties.headers
    assert headers is not None
    death = headers["x-death"].value[0].value
    assert (death["reason"].value, death["queue"].value) == (b"expired", b"q")
    assert drain(client, "q") == []


def test_blind_keys_count_after_a_restart(dial: Dial, reborn: Dial) -> None:
    """RabbitMQ: without a routing key of the queue's own, a dead letter goes where all keys of the message lead."""
    client = dial()
    client.ask(exchange_declare("dlx", durable=True))
    client.ask(queue_declare("q", durable=True, arguments={"x-dead-letter-exchange": "dlx"}))
    for key in ("open", "blind" * 60):
        queue = "from " + key[:5]
        client.ask(queue_declare(queue, durable=True))
        client.ask(queue_bind(queue, "dlx", key[:255]))
    deposit(client, b"x", b"y", key="q", properties=with_headers({"CC": ["open"], "BCC": ["blind" * 51, "long" * 100]}))
    client = reborn()
    for message in fetch(client, "q", 2):
        assert list(message.properties.headers or {}) == ["CC"]
    client.send(nack(2, multiple=True, requeue=False))
    flush(client)
    client = reborn()
    assert [drain(client, queue) for queue in ("from open", "from blind", "q")] == [[b"x", b"y"], [b"x", b"y"], []]


def test_a_queue_that_expires_unused_is_gone_for_good(dial: Dial, reborn: Dial) -> None:
    """RabbitMQ: x-expires is counted anew from the start; an expired queue's name is free, its messages are gone."""
    client = dial()
    client.ask(queue_declare("q", durable=True, arguments={"x-expires": 800}))
    deposit(client, b"1", key="q", properties=PERSISTENT)
    client = reborn()
    client.open_channel(2)

    def expired() -> bool:
        # Not a passive declare: that would count as use.
        client.send(queue_delete("q", if_empty=True), channel=2)
        return gone(client, 2)

    eventually(expired, "the queue to expire")
    client.ask(queue_declare("later", durable=True))
    client = reborn()
    assert client.ask(queue_declare("q", durable=True)) == QueueDeclareOk("q", 0, 0)


def gone(client: Client, channel: int) -> bool:
    """Whether a queue.delete(if-empty) found no queue: RabbitMQ answers that with delete-ok, a full queue with 406."""
    item = client.receive(channel=channel)
    if getattr(item, "NAME", "") == "queue.delete-ok":
        return True
    assert getattr(item, "reply_code", 0) == 406, item
    client.send(ChannelCloseOk(), channel=channel)
    client.open_channel(channel)
    return False


def test_a_transaction_is_there_whole_or_not_at_all(dial: Dial, reborn: Dial) -> None:
    """tx.commit-ok: publishes and acknowledgements are on disk. What was not committed never was."""
    client = dial()
    filled(client, "q", *numbered(*range(4)))
    client.ask(queue_declare("other", durable=True))
    client.ask(TxSelect())
    tags = [message.method.delivery_tag for message in fetch(client, "q", 4)]
    client.send(ack(tags[1]))
    for number in range(50):
        client.publish(b"%d" % number, key=("q", "other")[number % 2], properties=PERSISTENT)
    client.ask(TxCommit())
    client.send(ack(tags[0]))
    client.publish(b"never", key="other", properties=PERSISTENT)
    flush(client)
    client = reborn()
    assert drain(client, "q") == numbered(0, 2, 3, *range(0, 50, 2))
    assert drain(client, "other") == numbered(*range(1, 50, 2))


def test_one_large_body_in_three_queues(dial: Dial, reborn: Dial) -> None:
    """Each queue has the message until it settles it, whatever the others do and however often the broker ends."""
    body = random.Random(3).randbytes(2 << 20)
    client = dial()
    client.ask(exchange_declare("x", "fanout", durable=True))
    for queue in ("a", "b", "c"):
        client.ask(queue_declare(queue, durable=True))
        client.ask(queue_bind(queue, "x"))
    deposit(client, body, body[::-1], exchange="x", key="", properties=PERSISTENT)
    client = reborn()
    assert drain(client, "a") == [body, body[::-1]]
    flush(client)
    client = reborn()
    client.send(ack(fetch(client, "b", 1)[0].method.delivery_tag))
    client.ask(queue_delete("c"))
    flush(client)
    client = reborn()
    assert drain(client, "a") == []
    assert drain(client, "b") == [body[::-1]]


def test_a_purge_is_final(dial: Dial, reborn: Dial) -> None:
    """queue.purge-ok counts what was ready; what a consumer holds is kept, and comes back."""
    client = dial()
    filled(client, "q", *numbered(*range(100)))
    fetch(client, "q", 2)
    assert client.ask(QueuePurge("q", False)).message_count == 98
    filled(client, "q", b"after")
    client = reborn()
    assert flags(drain_messages(client, "q")) == [(b"0", True), (b"1", True), (b"after", False)]
