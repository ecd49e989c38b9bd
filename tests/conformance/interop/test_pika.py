"""pika, the blocking client most Python programs use."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pika
import pytest
from pika import BasicProperties
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import (
    ChannelClosedByBroker,
    ConnectionClosedByBroker,
    NackError,
    ProbableAccessDeniedError,
    ProbableAuthenticationError,
    UnroutableError,
)

from harness.brokers.broker_process import BrokerProcess
from harness.clients.wire_client import Address
from harness.waiting import eventually

pytestmark = pytest.mark.slow

Name = Callable[..., str]
Connection = pika.BlockingConnection
COUNT = 1000
LARGE_BYTES = 10 << 20


def parameters(address: Address, **options: Any) -> pika.ConnectionParameters:
    return pika.ConnectionParameters(*address, **options)


@pytest.fixture
def connection(broker: Address) -> Iterator[pika.BlockingConnection]:
    connection = pika.BlockingConnection(parameters(broker))
    yield connection
    if connection.is_open:
        connection.close()


@pytest.fixture
def channel(connection: pika.BlockingConnection) -> BlockingChannel:
    return connection.channel()


@pytest.fixture
def queue(channel: BlockingChannel) -> str:
    """A server-named queue of this connection."""
    return str(channel.queue_declare("", exclusive=True).method.queue)


def take(channel: BlockingChannel, queue: str, count: int, *, auto_ack: bool = True) -> list[tuple[Any, Any, bytes]]:
    """Consume so many messages and cancel the consumer."""
    found = []
    for message in channel.consume(queue, auto_ack=auto_ack, inactivity_timeout=10):
        assert message[0] is not None, f"only {len(found)} messages came"
        found.append(message)
        if len(found) == count:
            break
    channel.cancel()
    return found


def test_a_thousand_confirmed_messages_in_order(channel: BlockingChannel, name: Name) -> None:
    queue = name()
    channel.queue_declare(queue, durable=True)
    channel.confirm_delivery()
    for number in range(COUNT):
        channel.basic_publish("", queue, b"%d" % number, BasicProperties(delivery_mode=2))
    assert channel.queue_declare(queue, passive=True).method.message_count == COUNT
    assert [body for _, _, body in take(channel, queue, COUNT)] == [b"%d" % number for number in range(COUNT)]
    channel.queue_delete(queue)


def test_properties_and_headers_of_every_type(channel: BlockingChannel, queue: str) -> None:
    headers = {
        "none": None,
        "true": True,
        "int": 7,
        "negative": -(1 << 40),
        "bytes": b"\xff\x00",
        "decimal": Decimal("12.34"),
        "text": "Häschen",
        "table": {"inner": [1, "two", {"three": 3}]},
    }
    properties = BasicProperties(
        "text/plain", "utf-8", headers, 2, 3, "corr", "back", "60000", "id", 1_700_000_000, "kind", "guest", "app", "c"
    )
    channel.basic_publish("", queue, b"x", properties)
    ((_, found, _),) = take(channel, queue, 1)
    assert found.__dict__ == properties.__dict__


def test_all_kinds_of_entities(channel: BlockingChannel, queue: str, name: Name) -> None:
    source, target = name("x"), name("x")
    for kind, key, arguments in (
        ("direct", "k", {}),
        ("fanout", "", {}),
        ("topic", "a.*", {}),
        ("headers", "", {"x-match": "all", "n": 1}),
    ):
        exchange = name(kind)
        channel.exchange_declare(exchange, kind, durable=True)
        channel.queue_bind(queue, exchange, key, arguments)
        channel.basic_publish(exchange, key.replace("*", "b"), b"1", BasicProperties(headers={"n": 1}))
        assert take(channel, queue, 1)[0][2] == b"1"
        channel.queue_unbind(queue, exchange, key, arguments)
        channel.exchange_delete(exchange)
    channel.exchange_declare(target, "fanout", internal=True)
    channel.exchange_declare(source, "topic", auto_delete=True, arguments={"alternate-exchange": target})
    channel.exchange_bind(target, source, "#")
    channel.queue_bind(queue, target)
    channel.basic_publish(source, "any", b"through")
    assert take(channel, queue, 1)[0][2] == b"through"
    channel.exchange_unbind(target, source, "#")
    with pytest.raises(ChannelClosedByBroker) as closed:
        channel.exchange_declare(source, passive=True)
    assert closed.value.reply_code == 404


def test_a_mandatory_message_without_a_queue(channel: BlockingChannel) -> None:
    channel.confirm_delivery()
    with pytest.raises(UnroutableError) as unroutable:
        channel.basic_publish("", "nobody", b"x", mandatory=True)
    (returned,) = unroutable.value.messages
    assert (returned.method.reply_code, returned.method.reply_text) == (312, "NO_ROUTE")
    assert returned.body == b"x"


def test_a_refused_message_is_nacked(channel: BlockingChannel, name: Name) -> None:
    queue = name()
    arguments = {"x-max-length": 1, "x-overflow": "reject-publish"}
    channel.queue_declare(queue, exclusive=True, arguments=arguments)
    channel.confirm_delivery()
    channel.basic_publish("", queue, b"1")
    with pytest.raises(NackError):
        channel.basic_publish("", queue, b"2")


def test_requeue_and_dead_letter(channel: BlockingChannel, queue: str, name: Name) -> None:
    work = name()
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue}
    channel.queue_declare(work, exclusive=True, arguments=arguments)
    channel.confirm_delivery()
    channel.basic_publish("", work, b"1")
    channel.basic_publish("", work, b"2")
    first = channel.basic_get(work)[0]
    channel.basic_nack(first.delivery_tag, requeue=True)
    again, _, body = channel.basic_get(work)
    assert (again.redelivered, again.message_count, body) == (True, 1, b"1")
    channel.basic_reject(again.delivery_tag, requeue=False)
    ((_, properties, body),) = take(channel, queue, 1)
    assert body == b"1"
    (death,) = properties.headers["x-death"]
    assert (death["reason"], death["queue"], death["count"]) == ("rejected", work, 1)


def test_priorities(channel: BlockingChannel, name: Name) -> None:
    """Highest first, in the order of publishing within one; given back to the front of its own."""
    queue = name()
    channel.queue_declare(queue, durable=True, arguments={"x-max-priority": 9})
    channel.confirm_delivery()
    for number in range(100):
        properties = BasicProperties(priority=number * 7 % 12, delivery_mode=2)
        channel.basic_publish("", queue, b"%d" % number, properties)
    expected = [b"%d" % number for number in sorted(range(100), key=lambda number: -min(number * 7 % 12, 9))]
    for method, properties, _ in take(channel, queue, 30, auto_ack=False):
        assert properties.priority >= 7
        channel.basic_nack(method.delivery_tag)
    assert [body for _, _, body in take(channel, queue, 100)] == expected
    channel.queue_delete(queue)


def test_prefetch_holds_deliveries_back(connection: Connection, channel: BlockingChannel, queue: str) -> None:
    channel.confirm_delivery()
    for number in range(10):
        channel.basic_publish("", queue, b"%d" % number)
    channel.basic_qos(prefetch_count=3)
    found: list[tuple[int, bytes]] = []

    def delivered(_: Any, method: Any, __: Any, body: bytes) -> None:
        found.append((method.delivery_tag, body))

    tag = channel.basic_consume(queue, delivered)
    eventually(lambda: connection.process_data_events(0) or len(found) >= 3, "three deliveries")
    assert channel.queue_declare(queue, passive=True).method.message_count == 7
    assert [body for _, body in found] == [b"0", b"1", b"2"]
    channel.basic_ack(found[-1][0], multiple=True)
    eventually(lambda: connection.process_data_events(0) or len(found) >= 6, "three more")
    assert channel.queue_declare(queue, passive=True).method.message_count == 4
    assert len(found) == 6
    channel.basic_cancel(tag)
    channel.basic_recover(requeue=True)
    assert channel.queue_declare(queue, passive=True).method.message_count == 7


def test_a_consumer_learns_that_its_queue_is_gone(connection: Connection, queue: str) -> None:
    channel = connection.channel()
    cancelled: list[Any] = []
    channel.add_on_cancel_callback(cancelled.append)
    tag = channel.basic_consume(queue, lambda *_: None)
    channel.queue_delete(queue)
    connection.process_data_events(time_limit=5)
    assert [frame.method.consumer_tag for frame in cancelled] == [tag]


def test_an_auto_delete_queue_goes_with_its_consumer(channel: BlockingChannel, name: Name) -> None:
    queue = name()
    channel.queue_declare(queue, auto_delete=True)
    tag = channel.basic_consume(queue, lambda *_: None)
    channel.basic_cancel(tag)
    with pytest.raises(ChannelClosedByBroker) as closed:
        channel.queue_declare(queue, passive=True)
    assert closed.value.reply_code == 404


@pytest.mark.parametrize("direct", [False, True], ids=["reply queue", "direct reply-to"])
def test_remote_procedure_calls(broker: Address, connection: Connection, name: Name, direct: bool) -> None:
    service = name("rpc")
    server = pika.BlockingConnection(parameters(broker))
    serving, channel = server.channel(), connection.channel()
    serving.queue_declare(service, exclusive=True)
    reply_to = "amq.rabbitmq.reply-to" if direct else channel.queue_declare("", exclusive=True).method.queue
    answers: list[tuple[str, bytes]] = []
    channel.basic_consume(reply_to, lambda _, __, p, body: answers.append((p.correlation_id, body)), auto_ack=True)
    for number in range(20):
        properties = BasicProperties(reply_to=reply_to, correlation_id=str(number))
        channel.basic_publish("", service, b"%d" % number, properties)
    for method, properties, body in take(serving, service, 20, auto_ack=False):
        serving.basic_publish(
            "", properties.reply_to, body * 2, BasicProperties(correlation_id=properties.correlation_id)
        )
        assert not method.redelivered
    while len(answers) < 20:
        before = len(answers)
        connection.process_data_events(time_limit=5)
        assert len(answers) > before, "no more answers came"
    assert answers == [(str(number), b"%d" % number * 2) for number in range(20)]
    server.close()


def test_transactions(channel: BlockingChannel, queue: str) -> None:
    channel.tx_select()
    channel.basic_publish("", queue, b"undone")
    channel.tx_rollback()
    channel.basic_publish("", queue, b"done")
    channel.tx_commit()
    method, _, body = channel.basic_get(queue)
    assert body == b"done"
    channel.basic_ack(method.delivery_tag)
    channel.tx_rollback()
    channel.basic_recover(requeue=True)
    channel.tx_commit()
    method, _, body = channel.basic_get(queue)
    assert (body, method.redelivered) == (b"done", True)


def test_errors_are_the_clients_own(broker: Address, connection: Connection, queue: str, name: Name) -> None:
    """The code and the beginning of the text, as pika hands them to programs (RabbitMQ 3.10.8 on the wire)."""
    durable = name()
    connection.channel().queue_declare(durable, durable=True)
    other = pika.BlockingConnection(parameters(broker))
    attempts: list[tuple[pika.BlockingConnection, Callable[[BlockingChannel], Any], int, str]] = [
        (connection, lambda c: c.queue_declare(name(), passive=True), 404, "NOT_FOUND - no queue '"),
        (connection, lambda c: c.queue_declare(durable), 406, "PRECONDITION_FAILED - inequivalent arg 'durable'"),
        (other, lambda c: c.queue_declare(queue, passive=True), 405, "RESOURCE_LOCKED - cannot obtain exclusive"),
        (connection, lambda c: c.queue_declare("amq.mine"), 403, "ACCESS_REFUSED - queue name 'amq.mine' contains"),
        (
            connection,
            lambda c: c.exchange_delete("amq.topic"),
            403,
            "ACCESS_REFUSED - deletion of system exchange 'amq.topic'",
        ),
        (connection, lambda c: c.basic_get(name()), 404, "NOT_FOUND - no queue '"),
    ]
    for used, attempt, code, text in attempts:
        with pytest.raises(ChannelClosedByBroker) as closed:
            attempt(used.channel())
        assert closed.value.reply_code == code
        assert closed.value.reply_text.startswith(text)
    with pytest.raises(ConnectionClosedByBroker) as ended:
        other.channel().exchange_declare(name(), "no-such-type")
    assert ended.value.reply_code == 503
    connection.channel().queue_delete(durable)


def test_wrong_password_and_wrong_virtual_host(broker: Address) -> None:
    with pytest.raises(ProbableAuthenticationError):
        pika.BlockingConnection(parameters(broker, credentials=pika.PlainCredentials("guest", "wrong")))
    with pytest.raises((ProbableAccessDeniedError, ConnectionClosedByBroker)) as refused:
        pika.BlockingConnection(parameters(broker, virtual_host="nowhere"))
    assert "nowhere" in str(refused.value)


def test_heartbeats_come_and_go(broker: Address) -> None:
    """At one second: pika counts those it gets, and closes the connection when none come."""
    connection = pika.BlockingConnection(parameters(broker, heartbeat=1))
    checker = connection._impl._heartbeat_checker
    while checker._heartbeat_frames_received < 3:
        connection.process_data_events(time_limit=1)
        assert connection.is_open
    assert connection.channel().is_open
    connection.close()


def test_a_large_message(channel: BlockingChannel, queue: str) -> None:
    body = bytes(range(256)) * (LARGE_BYTES // 256)
    channel.confirm_delivery()
    channel.basic_publish("", queue, body, BasicProperties(delivery_mode=2))
    assert take(channel, queue, 1)[0][2] == body


def test_a_killed_broker_is_found_again(fresh_broker: BrokerProcess) -> None:
    """What pika confirmed is there for a new connection to the same port."""
    lost = pika.BlockingConnection(parameters(fresh_broker.address))
    channel = lost.channel()
    channel.queue_declare("q", durable=True)
    channel.confirm_delivery()
    for number in range(100):
        channel.basic_publish("", "q", b"%d" % number, BasicProperties(delivery_mode=2))
    fresh_broker.kill_and_restart()
    with pytest.raises(pika.exceptions.AMQPError):
        channel.queue_declare("q", passive=True)
    assert not lost.is_open
    connection = pika.BlockingConnection(parameters(fresh_broker.address))
    assert [body for _, _, body in take(connection.channel(), "q", 100)] == [b"%d" % number for number in range(100)]
    connection.close()


def test_a_stream(connection: Connection, channel: BlockingChannel, name: Name) -> None:
    """Declared, written with confirms, read from the beginning by one consumer and from an offset by another."""
    stream = name("stream")
    channel.queue_declare(stream, durable=True, arguments={"x-queue-type": "stream", "x-max-age": "1D"})
    channel.confirm_delivery()
    for number in range(50):
        channel.basic_publish("", stream, b"%d" % number, mandatory=True)
    for start, offsets in (("first", range(50)), (40, range(40, 50))):
        reader = connection.channel()
        reader.basic_qos(prefetch_count=10)
        read: list[tuple[int, bytes]] = []
        for method, properties, body in reader.consume(
            stream, arguments={"x-stream-offset": start}, inactivity_timeout=10
        ):
            assert method is not None
            read.append((properties.headers["x-stream-offset"], body))
            reader.basic_ack(method.delivery_tag)
            if len(read) == len(offsets):
                break
        reader.close()
        assert read == [(offset, b"%d" % offset) for offset in offsets]
    channel.queue_delete(stream)


def test_workers_with_a_queue_each_behind_a_hash(channel: BlockingChannel, name: Name) -> None:
    """What RabbitMQ's consistent-hash plugin is for: the messages of one customer are in one queue, in order."""
    exchange = name("x")
    channel.exchange_declare(exchange, "x-consistent-hash", auto_delete=True, arguments={"hash-header": "customer"})
    workers = [str(channel.queue_declare("", exclusive=True).method.queue) for _ in range(3)]
    for worker in workers:
        channel.queue_bind(worker, exchange, "10")
    channel.confirm_delivery()
    for number in range(300):
        properties = BasicProperties(headers={"customer": f"customer {number % 20}"})
        channel.basic_publish(exchange, f"order.{number}", b"%d" % number, properties, mandatory=True)
    seen: dict[str, list[int]] = {}
    for worker in workers:
        count = channel.queue_declare(worker, passive=True).method.message_count
        assert count
        of_worker: dict[str, list[int]] = {}
        for _, properties, body in take(channel, worker, count):
            of_worker.setdefault(properties.headers["customer"], []).append(int(body))
        assert not seen.keys() & of_worker.keys()
        seen |= of_worker
    assert seen == {f"customer {start}": list(range(start, 300, 20)) for start in range(20)}


def test_a_chat_room_with_a_memory(channel: BlockingChannel, queue: str, name: Name) -> None:
    """RabbitMQ's recent-history plugin: who joins late hears what was said last."""
    exchange = name("x")
    channel.exchange_declare(exchange, "x-recent-history", auto_delete=True, arguments={"x-recent-history-length": 2})
    channel.confirm_delivery()
    for text in (b"hello", b"how are you", b"bye"):
        channel.basic_publish(exchange, "", text)
    channel.queue_bind(queue, exchange)
    assert [body for _, _, body in take(channel, queue, 2)] == [b"how are you", b"bye"]


def test_delayed_messages(channel: BlockingChannel, queue: str, name: Name) -> None:
    """As the README of rabbitmq_delayed_message_exchange shows it; pika writes x-delay as an int it fits into."""
    exchange = name("x")
    arguments = {"x-delayed-type": "direct"}
    channel.exchange_declare(exchange, "x-delayed-message", auto_delete=True, arguments=arguments)
    channel.queue_bind(queue, exchange, "k")
    channel.confirm_delivery()
    for delay in (400, 200):
        properties = BasicProperties(headers={"x-delay": delay}, delivery_mode=2)
        channel.basic_publish(exchange, "k", b"%d" % delay, properties, mandatory=True)
    found = take(channel, queue, 2)
    assert [(body, properties.headers) for _, properties, body in found] == [
        (b"200", {"x-delay": -200}),
        (b"400", {"x-delay": -400}),
    ]
