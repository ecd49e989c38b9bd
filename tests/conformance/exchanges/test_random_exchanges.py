"""x-random, RabbitMQ's plugin, and x-local-random, which is part of RabbitMQ 4.0."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from broker.wire.field_tables import from_python
from broker.wire.methods import BasicReturn
from broker.wire.properties import BasicProperties
from harness.brokers.rabbitmq_reference import REFERENCE
from harness.clients.queue_steps import drain
from harness.clients.shorthand import exchange_bind, exchange_declare, exchange_delete, queue_bind, queue_declare
from harness.clients.wire_client import Client

Name = Callable[..., str]
later = pytest.mark.skipif(bool(REFERENCE), reason="RabbitMQ 4.0, documentation of exchanges: x-local-random")
MANY = 200
"""As many messages as make it sure, but for one time in 10 to the power of 50, that each of two queues gets some."""


def queues(client: Client, name: Name, count: int = 2) -> list[str]:
    return [client.ask(queue_declare(name(), exclusive=True)).queue for _ in range(count)]


def expect_a_choice(client: Client, exchange: str, bound: list[str], properties: BasicProperties | None = None) -> None:
    """Each of many messages goes to one queue, and each queue gets some: the same publish is asked anew each time."""
    for number in range(MANY):
        client.publish(b"%d" % number, exchange=exchange, key="k", properties=properties)
    found = [drain(client, queue) for queue in bound]
    assert all(found)
    assert sorted(int(body) for bodies in found for body in bodies) == list(range(MANY))


@pytest.mark.parametrize("kind", ["x-random", pytest.param("x-local-random", marks=later)])
def test_one_of_the_bound_queues(client: Client, name: Name, kind: str) -> None:
    """RabbitMQ 3.10.8 on the wire: with CC too it is one."""
    exchange, bound = name("x"), queues(client, name)
    client.ask(exchange_declare(exchange, kind, auto_delete=True))
    for queue in bound:
        client.ask(queue_bind(queue, exchange))
    expect_a_choice(client, exchange, bound)
    expect_a_choice(client, exchange, bound, BasicProperties(headers=from_python({"CC": ["a", "b"]})))


def test_binding_keys_mean_nothing(client: Client, name: Name) -> None:
    """RabbitMQ 3.10.8 on the wire: any will do, and who is bound by two keys has two chances."""
    exchange, bound = name("x"), queues(client, name)
    client.ask(exchange_declare(exchange, "x-random", auto_delete=True, arguments={"what": "ever"}))
    for queue in bound:
        for key in ("one", "two"):
            client.ask(queue_bind(queue, exchange, key))
    expect_a_choice(client, exchange, bound)


def test_an_exchange_may_be_chosen(client: Client, name: Name) -> None:
    """RabbitMQ 3.10.8 on the wire; a publisher to an exchange that leads to a random one is dealt with each time too."""
    exchange, inner, outer, bound = name("x"), name("x"), name("x"), queues(client, name)
    client.ask(exchange_declare(exchange, "x-random"))
    client.ask(exchange_declare(inner, "fanout"))
    client.ask(exchange_declare(outer, "direct"))
    client.ask(exchange_bind(inner, exchange))
    client.ask(exchange_bind(exchange, outer, "k"))
    client.ask(queue_bind(bound[0], inner))
    client.ask(queue_bind(bound[1], exchange))
    expect_a_choice(client, outer, bound)
    for each in (exchange, inner, outer):
        client.ask(exchange_delete(each))


def test_nothing_to_choose_from(client: Client, name: Name) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    exchange = name("x")
    client.ask(exchange_declare(exchange, "x-random"))
    client.publish(b"x", exchange=exchange, mandatory=True)
    assert client.expect_message(BasicReturn).method.reply_text == "NO_ROUTE"
    client.ask(exchange_delete(exchange))


@later
def test_what_a_local_random_exchange_refuses(client: Client, name: Name) -> None:
    """RabbitMQ 4.0 (rabbit_exchange_type_local_random, validate_binding)."""
    exchange, (queue,) = name("x"), queues(client, name, 1)
    client.ask(exchange_declare(exchange, "x-local-random"))
    refused = "channel 406 PRECONDITION_FAILED - "
    assert client.refusal(queue_bind(queue, exchange, "k")) == refused + "Non empty binding 'k' key not permitted"
    assert client.refusal(exchange_bind("amq.fanout", exchange)) == refused + "Destination not found"
    client.ask(exchange_delete(exchange))
