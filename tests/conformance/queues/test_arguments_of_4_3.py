"""Arguments of queue.declare that RabbitMQ 4.3 treats otherwise than 3.13, as measured on 4.3.6."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest

from harness.clients.shorthand import queue_declare
from harness.clients.wire_client import Address, Client


@pytest.fixture
def client(address_of_4_3: Address) -> Iterator[Client]:
    client = Client.connect(address_of_4_3)
    yield client
    client.close()


def name() -> str:
    return f"p-{secrets.token_hex(4)}"


@pytest.mark.parametrize(
    ("type_", "arguments", "detail"),
    [
        ("quorum", {"x-consumer-timeout": -1}, "{value_negative,-1}"),
        ("quorum", {"x-consumer-timeout": "1"}, '"expected integer, got longstr"'),
        ("quorum", {"x-consumer-disconnected-timeout": -1}, "{value_negative,-1}"),
        ("quorum", {"x-delayed-retry-type": "foo", "x-delayed-retry-min": -1, "x-delayed-retry-max": 5}, ""),
        ("classic", {"x-consumer-timeout": 1}, "of queue type rabbit_classic_queue"),
        ("stream", {"x-consumer-timeout": 1}, "of queue type rabbit_stream_queue"),
        ("classic", {"x-delayed-retry-type": "all"}, "of queue type rabbit_classic_queue"),
        ("classic", {"x-queue-mode": "foo"}, ""),
        ("classic", {"x-queue-version": 3}, "\"unsupported queue version '3'\""),
        ("stream", {"x-stream-filter-size-bytes": 16}, ""),
        ("quorum", {"x-queue-leader-locator": "min-masters"}, ""),
    ],
)
def test_arguments(client: Client, type_: str, arguments: dict[str, object], detail: str) -> None:
    queue, argument = name(), next(iter(arguments))
    declare = queue_declare(queue, durable=True, arguments={"x-queue-type": type_, **arguments})
    if detail:
        refused = f"invalid arg '{argument}' for queue '{queue}' in vhost '/'"
        between = " " if detail.startswith("of") else ": "
        assert client.refusal(declare) == f"channel 406 PRECONDITION_FAILED - {refused}{between}{detail}"
        return
    client.ask(declare)
    changed = queue_declare(queue, durable=True, arguments={"x-queue-type": type_})
    assert f"inequivalent arg '{argument}'" in client.refusal(changed)


@pytest.mark.parametrize("type_", ["", "undefined"])
def test_names_of_no_type_mean_a_classic_queue(client: Client, type_: str) -> None:
    """They stay in its arguments, and are compared."""
    queue = name()
    unnamed = queue_declare(queue, durable=True, arguments={"x-queue-type": type_})
    client.ask(unnamed)
    client.ask(unnamed)
    refused = f"received 'classic' but current is '{type_}'"
    assert client.refusal(queue_declare(queue, durable=True)).endswith(refused)
