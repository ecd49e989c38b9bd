"""kombu over py-amqp: what Celery stands on, and a client of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import amqp
import kombu
import pytest
from kombu.pools import producers

from harness.brokers.broker_process import BrokerProcess
from harness.clients.wire_client import Address
from harness.waiting import eventually

pytestmark = pytest.mark.slow

Name = Callable[..., str]
COUNT = 1000


def url(address: Address, user: str = "guest:guest") -> str:
    return f"amqp://{user}@{address[0]}:{address[1]}//"


def connected(address: Address, **options: Any) -> kombu.Connection:
    connection = kombu.Connection(url(address), transport_options={"confirm_publish": True}, **options)
    connection.connect()
    return connection


@pytest.fixture
def connection(broker: Address) -> Iterator[kombu.Connection]:
    with connected(broker) as connection:
        yield connection


@pytest.fixture
def queue(connection: kombu.Connection, name: Name) -> kombu.Queue:
    """A queue bound to an exchange of its own."""
    bound = kombu.Queue(name(), kombu.Exchange(name("x"), "topic", durable=False), "a.#", exclusive=True)
    declared = bound(connection.default_channel)
    declared.declare()
    return declared


def take(connection: kombu.Connection, queue: kombu.Queue, count: int, **options: Any) -> list[kombu.Message]:
    """Consume so many messages, acknowledged."""
    found: list[kombu.Message] = []

    def received(message: kombu.Message) -> None:
        found.append(message)
        message.ack()

    with connection.Consumer(queue, on_message=received, **options):
        while len(found) < count:
            connection.drain_events(timeout=10)
    return found


def test_a_thousand_confirmed_messages_in_order(connection: kombu.Connection, queue: kombu.Queue) -> None:
    producer = connection.Producer(exchange=queue.exchange)
    for number in range(COUNT):
        producer.publish({"number": number}, routing_key="a.b", delivery_mode=2)
    messages = take(connection, queue, COUNT, prefetch_count=50)
    assert [message.payload for message in messages] == [{"number": number} for number in range(COUNT)]


@pytest.mark.parametrize("serializer", ["json", "pickle", None])
def test_serializers_and_compression(connection: kombu.Connection, queue: kombu.Queue, serializer: str | None) -> None:
    """Content type and encoding travel as properties."""
    payload = b"raw \xff" if serializer is None else {"list": [1, 2.5, "Häschen", None]}
    connection.Producer(exchange=queue.exchange).publish(payload, "a", serializer=serializer, compression="zlib")
    (message,) = take(connection, queue, 1, accept=["json", "pickle", "application/data"])
    assert message.payload == payload


def test_properties_and_headers_of_every_type(connection: kombu.Connection, queue: kombu.Queue) -> None:
    headers = {
        "none": None,
        "true": True,
        "int": 1 << 40,
        "float": 2.5,
        "text": "Häschen",
        "in": {"a": [1, {"x": "y"}]},
    }
    properties = {
        "correlation_id": "corr",
        "reply_to": "back",
        "message_id": "id",
        "type": "kind",
        "user_id": "guest",
        "app_id": "app",
        "timestamp": 1_700_000_000,
    }
    connection.Producer(exchange=queue.exchange).publish(
        "x", "a.key", headers=headers, priority=3, expiration=60, delivery_mode=1, **properties
    )
    (message,) = take(connection, queue, 1)
    assert message.headers == headers
    expected = {**properties, "priority": 3, "expiration": "60000", "delivery_mode": 1}
    assert {key: message.properties.get(key) for key in expected} == expected
    assert (message.delivery_info["exchange"], message.delivery_info["routing_key"]) == (queue.exchange.name, "a.key")


def test_every_kind_of_exchange(connection: kombu.Connection, name: Name) -> None:
    channel = connection.default_channel
    for kind in ("direct", "fanout", "topic", "headers"):
        arguments = {"x-match": "any", "n": 1} if kind == "headers" else None
        exchange = kombu.Exchange(name("x"), kind, auto_delete=True)
        bound = kombu.Queue("", exchange, "k", binding_arguments=arguments, exclusive=True, auto_delete=True)(channel)
        bound.declare()
        assert bound.name.startswith("amq.gen-")
        connection.Producer(exchange=exchange).publish("x", "k", headers={"n": 1})
        # Declared once only: RabbitMQ refuses to declare a name of its own making again.
        assert take(connection, bound, 1, auto_declare=False)[0].payload == "x"
        with pytest.raises(amqp.NotFound):
            # Its last consumer took the queue along, the queue its binding, the binding the exchange.
            exchange(connection.channel()).declare(passive=True)


def test_exchange_to_exchange(connection: kombu.Connection, queue: kombu.Queue, name: Name) -> None:
    outer = kombu.Exchange(name("x"), "fanout")(connection.default_channel)
    outer.declare()
    queue.exchange(connection.default_channel).bind_to(outer, "a.any")
    connection.Producer(exchange=outer).publish("through", "a.b")
    assert take(connection, queue, 1)[0].payload == "through"
    outer.delete()


def test_a_mandatory_message_comes_back(connection: kombu.Connection) -> None:
    returned: list[tuple[Any, ...]] = []
    producer = connection.Producer(on_return=lambda *what: returned.append(what))
    producer.publish("x", "nobody", mandatory=True)
    ((error, exchange, key, message),) = returned
    assert (error.reply_code, error.reply_text, exchange, key) == (312, "NO_ROUTE", "", "nobody")
    assert message.body == "x"


def test_requeue_reject_and_prefetch(connection: kombu.Connection, queue: kombu.Queue) -> None:
    producer = connection.Producer(exchange=queue.exchange)
    for number in range(4):
        producer.publish(number, "a")
    found: list[kombu.Message] = []
    with connection.Consumer(queue, on_message=found.append, prefetch_count=2) as consumer:
        eventually(lambda: seen(connection, found, 2), "two messages")
        assert [message.payload for message in found] == [0, 1]
        found[0].requeue()
        eventually(lambda: seen(connection, found, 3), "the requeued one")
        assert (found[2].payload, found[2].delivery_info["redelivered"]) == (0, True)
        found[1].reject()
        found[2].ack()
        eventually(lambda: seen(connection, found, 5), "the other two")
        assert [message.payload for message in found[3:]] == [2, 3]
        consumer.recover(requeue=True)
        eventually(lambda: seen(connection, found, 7), "the same two")
        assert [message.payload for message in found[5:]] == [2, 3]
        assert all(message.delivery_info["redelivered"] for message in found[5:])


def drain(connection: kombu.Connection) -> None:
    """Take in what has come, if anything."""
    try:
        connection.drain_events(timeout=0.1)
    except TimeoutError:
        pass


def seen(connection: kombu.Connection, found: list[kombu.Message], count: int) -> bool:
    """Take in what has come, and tell whether that makes so many."""
    drain(connection)
    return len(found) >= count


def test_priorities(connection: kombu.Connection, name: Name) -> None:
    """A queue with `max_priority`, which kombu makes x-max-priority of."""
    queue = kombu.Queue(name(), max_priority=5, durable=False, exclusive=True)(connection.default_channel)
    queue.declare()
    producer = connection.Producer()
    for number, priority in enumerate((0, 3, 5, 3, None, 5)):
        producer.publish({"number": number}, routing_key=queue.name, priority=priority)
    found = take(connection, queue, 6, prefetch_count=1)
    assert [message.payload["number"] for message in found] == [2, 5, 1, 3, 0, 4]


def test_simple_queue(connection: kombu.Connection, name: Name) -> None:
    with connection.SimpleQueue(name()) as simple:
        for number in range(3):
            simple.put(number)
        assert simple.qsize() == 3
        first = simple.get(timeout=10)
        assert first.payload == 0
        first.ack()
        simple.consumer.cancel()
        simple.consumer.recover(requeue=True)
        assert simple.clear() == 2
        simple.queue.delete()


def test_errors_are_the_clients_own(
    broker: Address, connection: kombu.Connection, queue: kombu.Queue, name: Name
) -> None:
    """py-amqp has a class for every reply code."""
    attempts: list[tuple[type[Exception], Callable[[Any], Any]]] = [
        (amqp.NotFound, lambda channel: channel.queue_declare(name(), passive=True)),
        (amqp.PreconditionFailed, lambda channel: channel.exchange_declare("amq.topic", "fanout", durable=True)),
        (amqp.AccessRefused, lambda channel: channel.exchange_declare("amq.mine", "direct")),
        (amqp.NotFound, lambda channel: channel.queue_bind(queue.name, name("x"))),
    ]
    for error, attempt in attempts:
        with pytest.raises(error):
            attempt(connection.channel())
    with connected(broker) as other, pytest.raises(amqp.ResourceLocked):
        other.channel().queue_declare(queue.name, passive=True)
    with pytest.raises(amqp.AccessRefused):
        kombu.Connection(url(broker, "guest:wrong")).connect()


def test_heartbeats_keep_the_connection(broker: Address) -> None:
    """py-amqp closes a connection that two heartbeats' time brought nothing."""
    with connected(broker, heartbeat=1) as connection:
        received = connection.connection.bytes_recv
        connection.heartbeat_check()

        def beat() -> bool:
            drain(connection)
            connection.heartbeat_check()
            return bool(connection.connection.bytes_recv >= received + 3)

        eventually(beat, "three heartbeats")
        assert connection.connected


def test_a_large_message(connection: kombu.Connection, queue: kombu.Queue) -> None:
    body = bytes(range(256)) * 40960
    connection.Producer(exchange=queue.exchange).publish(body, "a", content_type="application/data", delivery_mode=2)
    assert take(connection, queue, 1, accept=["application/data"])[0].body == body


def test_a_pool_publishes_through_a_kill(fresh_broker: BrokerProcess) -> None:
    """kombu's retry policy bridges the restart; each publish that returned is there, in order."""
    queue = kombu.Queue("q", kombu.Exchange("x", "direct"), "k")
    connection = connected(fresh_broker.address)
    with producers[connection].acquire() as producer:
        for number in range(100):
            if number == 50:
                fresh_broker.kill_and_restart()
            producer.publish(
                number,
                exchange=queue.exchange,
                routing_key="k",
                declare=[queue],
                retry=True,
                retry_policy={"interval_start": 0, "interval_step": 0.1, "max_retries": 50},
            )
    with connected(fresh_broker.address) as other:
        found = [message.payload for message in take(other, queue(other.default_channel), 100)]
    assert list(dict.fromkeys(found)) == list(range(100))
    producers.clear()
    connection.release()
