"""x-random, RabbitMQ's plugin, and x-local-random, which is part of RabbitMQ 4.0."""

from __future__ import annotations

import pytest

from broker.wire.field_tables import from_python
from broker.wire.methods import BasicReturn
from broker.wire.properties import BasicProperties
from harness.brokers.rabbitmq_reference import REFERENCE
from harness.clients.queue_steps import drain
from harness.clients.shorthand import exchange_bind, queue_bind
from harness.clients.wire_client import Client
from tests.conformance import Made

later = pytest.mark.skipif(bool(REFERENCE), reason="RabbitMQ 4.0, documentation of exchanges: x-local-random")
MANY = 200
"""Messages enough for each of two queues to get some, but for one time in 10 to the power of 50."""


def expect_a_choice(client: Client, exchange: str, bound: list[str], properties: BasicProperties | None = None) -> None:
    """Each of many messages goes to one queue, and each queue gets some: the same publish is routed again each time."""
    for number in range(MANY):
        client.publish(b"%d" % number, exchange=exchange, key="k", properties=properties)
    found = [drain(client, queue) for queue in bound]
    assert all(found)
    assert sorted(int(body) for bodies in found for body in bodies) == list(range(MANY))


@pytest.mark.parametrize("kind", ["x-random", pytest.param("x-local-random", marks=later)])
def test_one_of_the_bound_queues(client: Client, new_exchange: Made, new_queue: Made, kind: str) -> None:
    """With CC too it is one."""
    exchange = new_exchange(kind)
    bound = [new_queue(exchange), new_queue(exchange)]
    expect_a_choice(client, exchange, bound)
    expect_a_choice(client, exchange, bound, BasicProperties(headers=from_python({"CC": ["a", "b"]})))


def test_binding_keys_mean_nothing(client: Client, new_exchange: Made, new_queue: Made) -> None:
    """Any will do, and who is bound by two keys has two chances."""
    exchange = new_exchange("x-random", arguments={"what": "ever"})
    bound = [new_queue(exchange, "one"), new_queue(exchange, "one")]
    for queue in bound:
        client.ask(queue_bind(queue, exchange, "two"))
    expect_a_choice(client, exchange, bound)


def test_an_exchange_may_be_chosen(client: Client, new_exchange: Made, new_queue: Made) -> None:
    """A publisher to an exchange that leads to a random one is dealt with each time too."""
    exchange, inner, outer = new_exchange("x-random"), new_exchange("fanout"), new_exchange("direct")
    client.ask(exchange_bind(inner, exchange))
    client.ask(exchange_bind(exchange, outer, "k"))
    expect_a_choice(client, outer, [new_queue(inner), new_queue(exchange)])


def test_nothing_to_choose_from(client: Client, new_exchange: Made) -> None:
    client.publish(b"x", exchange=new_exchange("x-random"), mandatory=True)
    assert client.expect_message(BasicReturn).method.reply_text == "NO_ROUTE"


@later
def test_what_a_local_random_exchange_refuses(client: Client, new_exchange: Made, queue: str, declare: Made) -> None:
    """RabbitMQ 4.0 (rabbit_exchange_type_local_random, validate_binding)."""
    exchange, refused = new_exchange("x-local-random"), "channel 406 PRECONDITION_FAILED - "
    assert client.refusal(queue_bind(queue, exchange, "k")) == refused + "Non empty binding 'k' key not permitted"
    assert client.refusal(exchange_bind("amq.fanout", exchange)) == refused + "Destination not found"
    of_stream = refused + "Queue type rabbit_stream_queue not valid for this exchange type"
    assert client.refusal(queue_bind(declare(queue_type="stream"), exchange)) == of_stream
