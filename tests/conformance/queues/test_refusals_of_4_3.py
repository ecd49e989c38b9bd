"""Answers of RabbitMQ 4.3.6 to consumers, bindings and declarations that 3.13 answers otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from broker.wire.methods import BasicConsumeOk, QueueDeclareOk, QueueUnbind
from harness.brokers.broker_process import BrokerProcess
from harness.brokers.rabbitmq_reference import REFERENCE
from harness.clients.shorthand import consume, prefetch, queue_declare
from harness.clients.wire_client import Client

pytestmark = pytest.mark.skipif(bool(REFERENCE), reason="the reference is RabbitMQ 3.10")

NOT_OF = "channel 406 PRECONDITION_FAILED - invalid arg '{}' for queue '{}' in vhost '/' of queue type rabbit_{}_queue"
OK = "ok"


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    directory = tmp_path_factory.mktemp("refusals")
    settings = directory / "settings.toml"
    settings.write_text('[identity]\npersonality = "4.3"\n')
    process = BrokerProcess(directory / "data")
    process.options = ("--config", str(settings))
    process.start()
    client = Client.connect(process.address)
    for type_ in ("classic", "quorum", "stream"):
        client.ask(queue_declare(type_, durable=True, arguments={"x-queue-type": type_}))
    client.close()
    yield process
    process.stop()


@pytest.fixture
def client(process: BrokerProcess) -> Iterator[Client]:
    client = Client.connect(process.address)
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


def test_consumers_of_a_stream(process: BrokerProcess, client: Client) -> None:
    unset = "consumer prefetch count is not set for stream queue 'stream' in vhost '/'"
    assert client.refusal(consume("stream")) == f"channel 406 PRECONDITION_FAILED - {unset}"
    client.ask(prefetch(5))
    automatic = "automatic acknowledgement not supported by stream queue 'stream' in vhost '/'"
    assert client.refusal(consume("stream", no_ack=True)) == f"connection 540 NOT_IMPLEMENTED - {automatic}"


def test_unbinding_a_reply_address(client: Client) -> None:
    volatile = "ACCESS_REFUSED - cannot bind or unbind to a volatile (direct reply-to) queue"
    method = QueueUnbind("amq.rabbitmq.reply-to.g1h", "amq.direct", "k", {})
    assert client.refusal(method) == f"channel 403 {volatile}"


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
