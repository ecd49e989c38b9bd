"""aio-pika, the asyncio client, with its robust connection that survives a broker's restart."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import aio_pika
import pytest
from aio_pika import DeliveryMode, ExchangeType, Message
from aio_pika.abc import AbstractIncomingMessage, AbstractQueue, AbstractRobustConnection
from aio_pika.exceptions import (
    ChannelNotFoundEntity,
    ChannelPreconditionFailed,
    DeliveryError,
    ProbableAuthenticationError,
    PublishError,
)
from aio_pika.patterns import RPC
from aiormq.exceptions import ChannelAccessRefused, ChannelLockedResource

from harness.brokers.broker_process import BrokerProcess
from harness.clients.wire_client import Address

pytestmark = pytest.mark.slow

Name = Callable[..., str]
Scenario = Callable[[AbstractRobustConnection], Awaitable[None]]
COUNT = 1000
SECONDS_MAX = 30


def url(address: Address, user: str = "guest:guest") -> str:
    return f"amqp://{user}@{address[0]}:{address[1]}/"


def connected(address: Address) -> Any:
    return aio_pika.connect_robust(url(address), reconnect_interval=0.1)


def play(address: Address, scenario: Scenario) -> None:
    """Run a scenario with a connection in an asyncio loop of its own."""

    async def main() -> None:
        async with asyncio.timeout(SECONDS_MAX), await connected(address) as connection:
            await scenario(connection)

    asyncio.run(main())


async def collect(queue: AbstractQueue, count: int) -> list[AbstractIncomingMessage]:
    """Take so many messages, acknowledged."""
    found = []
    async with queue.iterator() as messages:
        async for message in messages:
            await message.ack()
            found.append(message)
            if len(found) == count:
                break
    return found


def test_a_thousand_confirmed_messages_in_order(broker: Address, name: Name) -> None:
    async def scenario(connection: AbstractRobustConnection) -> None:
        channel = await connection.channel()
        await channel.set_qos(100)
        queue = await channel.declare_queue(name(), durable=True)
        publish = channel.default_exchange.publish
        messages = (Message(b"%d" % number, delivery_mode=DeliveryMode.PERSISTENT) for number in range(COUNT))
        await asyncio.gather(*(publish(message, queue.name) for message in messages))
        assert [message.body for message in await collect(queue, COUNT)] == [b"%d" % number for number in range(COUNT)]
        await queue.delete()

    play(broker, scenario)


def test_properties_and_headers_of_every_type(broker: Address) -> None:
    async def scenario(connection: AbstractRobustConnection) -> None:
        channel = await connection.channel()
        queue = await channel.declare_queue(exclusive=True)
        moment = datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC)
        given: dict[str, Any] = {
            "headers": {
                "none": None,
                "true": True,
                "int": 1 << 40,
                "float": 2.5,
                "decimal": Decimal("12.34"),
                "text": "Häschen",
                "bytes": bytearray(b"\xff\x00"),
                "when": moment,
                "table": {"inner": [1, "two", {"three": 3}]},
            },
            "content_type": "text/plain",
            "content_encoding": "utf-8",
            "delivery_mode": DeliveryMode.PERSISTENT,
            "priority": 3,
            "correlation_id": "corr",
            "reply_to": "back",
            "expiration": 60.0,
            "message_id": "id",
            "timestamp": moment,
            "type": "kind",
            "user_id": "guest",
            "app_id": "app",
        }
        await channel.default_exchange.publish(Message(b"x", **given), queue.name)
        (found,) = await collect(queue, 1)
        assert {key: getattr(found, key) for key in given} == given

    play(broker, scenario)


def test_all_kinds_of_entities(broker: Address, name: Name) -> None:
    async def scenario(connection: AbstractRobustConnection) -> None:
        channel = await connection.channel()
        queue = await channel.declare_queue(exclusive=True)
        assert queue.name.startswith("amq")
        arguments = {"x-match": "all", "n": 1}
        for kind, key in (
            (ExchangeType.DIRECT, "k"),
            (ExchangeType.FANOUT, ""),
            (ExchangeType.TOPIC, "k"),
            ("headers", ""),
        ):
            exchange = await channel.declare_exchange(name(), kind, durable=True)
            await queue.bind(exchange, key, arguments=arguments if kind is ExchangeType.HEADERS else None)
            await exchange.publish(Message(b"x", headers={"n": 1}), key)
            assert (await collect(queue, 1))[0].exchange == exchange.name
            await queue.unbind(exchange, key, arguments=arguments if kind is ExchangeType.HEADERS else None)
            await exchange.delete()
        inner = await channel.declare_exchange(name(), ExchangeType.FANOUT, internal=True, auto_delete=True)
        outer = await channel.declare_exchange(name(), ExchangeType.TOPIC, auto_delete=True)
        await inner.bind(outer, "a.#")
        await queue.bind(inner)
        await outer.publish(Message(b"through"), "a.b")
        assert (await collect(queue, 1))[0].body == b"through"

    play(broker, scenario)


def test_returned_and_refused_messages(broker: Address, name: Name) -> None:
    async def scenario(connection: AbstractRobustConnection) -> None:
        channel = await connection.channel(publisher_confirms=True, on_return_raises=True)
        with pytest.raises(PublishError):
            await channel.default_exchange.publish(Message(b"x"), name(), mandatory=True)
        arguments = {"x-max-length": 1, "x-overflow": "reject-publish"}
        full = await channel.declare_queue(name(), exclusive=True, arguments=arguments)
        await channel.default_exchange.publish(Message(b"1"), full.name)
        with pytest.raises(DeliveryError):
            await channel.default_exchange.publish(Message(b"2"), full.name)

    play(broker, scenario)


def test_requeue_prefetch_and_cancel(broker: Address, name: Name) -> None:
    async def scenario(connection: AbstractRobustConnection) -> None:
        channel = await connection.channel()
        await channel.set_qos(prefetch_count=2)
        queue = await channel.declare_queue(name(), exclusive=True)
        for number in range(5):
            await channel.default_exchange.publish(Message(b"%d" % number), queue.name)
        inbox: asyncio.Queue[AbstractIncomingMessage] = asyncio.Queue()
        tag = await queue.consume(inbox.put)
        first, second = await inbox.get(), await inbox.get()
        seen = await (await connection.channel()).declare_queue(queue.name, passive=True)
        assert seen.declaration_result.message_count == 3
        await first.nack(requeue=True)
        again = await inbox.get()
        assert (again.body, again.redelivered) == (b"0", True)
        await again.ack()
        await second.ack()
        third, fourth = await inbox.get(), await inbox.get()
        assert [third.body, fourth.body] == [b"2", b"3"]
        await queue.cancel(tag)
        await third.reject(requeue=False)
        await fourth.reject(requeue=True)
        assert [message.body for message in await collect(queue, 2)] == [b"3", b"4"]

    play(broker, scenario)


def test_rpc_pattern(broker: Address, name: Name) -> None:
    """aio-pika's own RPC: a reply queue, dead-lettered and expiring arguments, returned calls."""

    async def scenario(connection: AbstractRobustConnection) -> None:
        method = name("multiply")

        async def multiply(*, x: int, y: int) -> int:
            return x * y

        channel = await connection.channel()
        rpc = await RPC.create(channel)
        await rpc.register(method, multiply, auto_delete=True)
        answers = await asyncio.gather(*(rpc.call(method, {"x": number, "y": 2}) for number in range(20)))
        assert answers == [number * 2 for number in range(20)]

    play(broker, scenario)


def test_direct_reply_to(broker: Address, name: Name) -> None:
    async def scenario(connection: AbstractRobustConnection) -> None:
        channel = await connection.channel()
        service = await channel.declare_queue(name(), exclusive=True)
        replies = await channel.get_queue("amq.rabbitmq.reply-to", ensure=False)
        inbox: asyncio.Queue[AbstractIncomingMessage] = asyncio.Queue()
        await replies.consume(inbox.put, no_ack=True)
        request = Message(b"ping", reply_to="amq.rabbitmq.reply-to", correlation_id="7")
        await channel.default_exchange.publish(request, service.name)
        (asked,) = await collect(service, 1)
        assert asked.reply_to is not None
        assert asked.reply_to.startswith("amq.rabbitmq.reply-to.")
        await channel.default_exchange.publish(Message(b"pong", correlation_id=asked.correlation_id), asked.reply_to)
        answer = await inbox.get()
        assert (answer.body, answer.correlation_id) == (b"pong", "7")

    play(broker, scenario)


def test_errors_are_the_clients_own(broker: Address, name: Name) -> None:
    async def scenario(connection: AbstractRobustConnection) -> None:
        async def channel() -> Any:
            return await connection.channel()

        queue = await (await channel()).declare_queue(name(), exclusive=True)
        with pytest.raises(ChannelNotFoundEntity):
            await (await channel()).declare_queue(name(), passive=True)
        with pytest.raises(ChannelPreconditionFailed):
            await (await channel()).declare_exchange("amq.topic", "fanout", durable=True)
        with pytest.raises(ChannelAccessRefused):
            await (await channel()).declare_exchange("amq.mine")
        async with await aio_pika.connect(url(broker)) as other:
            with pytest.raises(ChannelLockedResource):
                await (await other.channel()).declare_queue(queue.name, exclusive=True)

    play(broker, scenario)

    async def wrong_password() -> None:
        with pytest.raises(ProbableAuthenticationError):
            await aio_pika.connect(url(broker, "guest:wrong"))

    asyncio.run(wrong_password())


def test_a_large_message(broker: Address) -> None:
    async def scenario(connection: AbstractRobustConnection) -> None:
        channel = await connection.channel()
        queue = await channel.declare_queue(exclusive=True)
        body = bytes(range(256)) * 40960
        await channel.default_exchange.publish(Message(body, delivery_mode=2), queue.name)
        assert (await collect(queue, 1))[0].body == body

    play(broker, scenario)


def test_a_transaction(broker: Address) -> None:
    async def scenario(connection: AbstractRobustConnection) -> None:
        channel = await connection.channel(publisher_confirms=False)
        queue = await channel.declare_queue(exclusive=True)
        transaction = channel.transaction()
        await transaction.select()
        await channel.default_exchange.publish(Message(b"undone"), queue.name)
        await transaction.rollback()
        await channel.default_exchange.publish(Message(b"done"), queue.name)
        await transaction.commit()
        found = await queue.get(no_ack=True)
        assert found.body == b"done"
        assert await queue.get(fail=False) is None

    play(broker, scenario)


def test_a_robust_connection_survives_a_kill(fresh_broker: BrokerProcess) -> None:
    """The client comes back by itself, declares again, and consumes on; everything confirmed arrives."""

    async def scenario(connection: AbstractRobustConnection) -> None:
        channel = await connection.channel()
        await channel.set_qos(10)
        queue = await channel.declare_queue("q", durable=True)
        await channel.declare_queue("own", exclusive=True)
        for number in range(100):
            message = Message(b"%d" % number, delivery_mode=DeliveryMode.PERSISTENT)
            await channel.default_exchange.publish(message, "q")
        held: list[AbstractIncomingMessage] = []
        found: list[bytes] = []
        full, killed, complete = asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def consume(message: AbstractIncomingMessage) -> None:
            if not killed.is_set():
                held.append(message)
                if len(held) == 10:
                    full.set()
                return
            found.append(message.body)
            await message.ack()
            if len(found) == 101:
                complete.set()

        await queue.consume(consume)
        await full.wait()
        fresh_broker.kill()
        killed.set()
        await asyncio.to_thread(fresh_broker.start)
        await connection.connected.wait()
        await channel.ready()
        await channel.default_exchange.publish(Message(b"100", delivery_mode=DeliveryMode.PERSISTENT), "q")
        await complete.wait()
        assert found == [b"%d" % number for number in range(101)]

    play(fresh_broker.address, scenario)
