"""Answers of RabbitMQ 4.3.6 to consumers, bindings and declarations that 3.13 answers otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from broker.wire.method import Method
from broker.wire.methods import BasicConsumeOk, BasicDeliver, QueueDeclareOk, QueuePurge
from broker.wire.properties import BasicProperties
from harness.clients.shorthand import consume, get, prefetch, queue_bind, queue_declare, queue_unbind
from harness.clients.wire_client import Address, Client

NOT_OF = "channel 406 PRECONDITION_FAILED - invalid arg '{}' for queue '{}' in vhost '/' of queue type rabbit_{}_queue"
OK = "ok"


@pytest.fixture
def client(address_of_4_3: Address) -> Iterator[Client]:
    client = Client.connect(address_of_4_3)
    for type_ in ("classic", "quorum", "stream"):
        client.ask(queue_declare(type_, durable=True, arguments={"x-queue-type": type_}))
    yield client
    client.close()


@pytest.mark.parametrize(
    ("queue", "arguments", "answer"),
    [
        ("quorum", {"x-cancel-on-ha-failover": True}, OK),
        ("stream", {"x-cancel-on-ha-failover": True}, OK),
        ("classic", {"x-cancel-on-ha-failover": "x"}, OK),
        ("quorum", {"x-foo": 1}, OK),
        ("classic", {"x-stream-filter": "x"}, NOT_OF.format("x-stream-filter", "classic", "classic")),
        ("quorum", {"x-stream-filter": "x"}, NOT_OF.format("x-stream-filter", "quorum", "quorum")),
        (
            "quorum",
            {"x-stream-match-unfiltered": True},
            NOT_OF.format("x-stream-match-unfiltered", "quorum", "quorum"),
        ),
        ("stream", {"x-priority": 1}, NOT_OF.format("x-priority", "stream", "stream")),
    ],
)
def test_arguments_of_consumers(client: Client, queue: str, arguments: dict[str, Any], answer: str) -> None:
    client.ask(prefetch(5))
    method = consume(queue, arguments=arguments)
    if answer == OK:
        assert isinstance(client.ask(method), BasicConsumeOk)
    else:
        assert client.refusal(method) == answer


def test_consumers_of_a_stream(client: Client) -> None:
    unset = "consumer prefetch count is not set for stream queue 'stream' in vhost '/'"
    assert client.refusal(consume("stream")) == f"channel 406 PRECONDITION_FAILED - {unset}"
    client.ask(prefetch(5))
    automatic = "automatic acknowledgement not supported by stream queue 'stream' in vhost '/'"
    assert client.refusal(consume("stream", no_ack=True)) == f"connection 540 NOT_IMPLEMENTED - {automatic}"


ADDRESS = "amq.rabbitmq.reply-to.g1h"
VOLATILE = "ACCESS_REFUSED - cannot bind or unbind to a volatile (direct reply-to) queue"


@pytest.mark.parametrize(
    ("method", "answer"),
    [
        (queue_bind(ADDRESS, "amq.direct", "k"), f"channel 403 {VOLATILE}"),
        (queue_unbind(ADDRESS, "amq.direct", "k"), f"channel 403 {VOLATILE}"),
    ],
)
def test_an_address_of_a_reply_is_not_bound(client: Client, method: Method, answer: str) -> None:
    assert client.refusal(method) == answer


def test_an_address_of_a_reply_is_a_queue_of_its_channel(client: Client, address_of_4_3: Address) -> None:
    """It is there to declarations, whatever they ask for, and can be purged; only its channel gets its messages."""
    other = Client.connect(address_of_4_3)
    queue = str(other.ask(queue_declare("", exclusive=True)).queue)
    client.ask(consume("amq.rabbitmq.reply-to", "r", no_ack=True))
    client.publish(b"?", key=queue, properties=BasicProperties(reply_to="amq.rabbitmq.reply-to"))
    other.ask(consume(queue, no_ack=True))
    address = str(other.expect_message(BasicDeliver).properties.reply_to)
    where = f"queue '{address}' in vhost '/'"
    declared = other.ask(queue_declare(address, durable=True, arguments={"x-expires": 5}))
    assert (declared.queue, declared.message_count, declared.consumer_count) == (address, 0, 1)
    assert other.ask(QueuePurge(address, False)).message_count == 0
    foreign = f"channel 406 PRECONDITION_FAILED - only creator channel may consume from {where}"
    assert other.refusal(consume(address)) == foreign
    second = f"channel 406 PRECONDITION_FAILED - multiple consumers are unsupported for {where}"
    assert client.refusal(consume(address)) == second
    assert (
        other.refusal(get(address)) == f"connection 540 NOT_IMPLEMENTED - basic.get not supported by volatile {where}"
    )
    other.close()


def test_ages_are_compared_in_milliseconds(client: Client) -> None:
    def aged(age: str | None) -> Any:
        arguments = {"x-queue-type": "stream", **({} if age is None else {"x-max-age": age})}
        return queue_declare("aged", durable=True, arguments=arguments)

    client.ask(aged("1h"))
    assert isinstance(client.ask(aged("60m")), QueueDeclareOk)
    different = "channel 406 PRECONDITION_FAILED - inequivalent arg 'x-max-age' for queue 'aged' in vhost '/': "
    assert client.refusal(aged("2h")) == f"{different}received '7200000' but current is '3600000'"
    current = "received none but current is the value '3600000' of type 'longstr'"
    assert client.refusal(aged(None)) == f"{different}{current}"


def test_any_queue_mode(client: Client) -> None:
    assert isinstance(client.ask(queue_declare("moded", durable=True, arguments={"x-queue-mode": 5})), QueueDeclareOk)
