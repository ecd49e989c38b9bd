"""Publishing with a window of unconfirmed messages, without Spark: returns, refusals, lost connections."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from pika import BasicProperties

from harness.brokers.broker_process import BrokerProcess
from harness.clients.wire_client import Address
from leveret_spark.amqp.publisher import Outcome, Outgoing, Publisher
from leveret_spark.option_errors import AmqpError
from leveret_spark.options import broker_of, writing_of
from tests.pipeline.inputs.queue_client import Desk, desk_at

pytestmark = pytest.mark.slow

Queue = Callable[..., str]


def publisher(address: Address, **options: Any) -> Publisher:
    given = {"host": address[0], "port": str(address[1]), **{name: str(value) for name, value in options.items()}}
    return Publisher(broker_of(given), writing_of(given))


def published(to: Publisher, message: Outgoing) -> Outcome:
    """Publish one message over a connection of its own."""
    with to as publishing:
        publishing.publish(message)
        return publishing.finish()


def outgoing(key: str, number: int, exchange: str = "") -> Outgoing:
    properties = BasicProperties(delivery_mode=2, message_id=str(number))
    return Outgoing(exchange, key, properties, b"%d" % number)


@pytest.mark.parametrize("window", [1, 7, 5000])
def test_everything_is_confirmed_in_order(desk: Desk, queue: Queue, window: int) -> None:
    name = queue()
    with publisher(desk.address, window=window) as publishing:
        assert publishing.finish() == Outcome(), "nothing needs no confirm"
        for number in range(500):
            publishing.publish(outgoing(name, number))
        assert publishing.finish() == Outcome(confirmed=500)
    assert [int(body) for _, _, body in desk.take(name)] == list(range(500))


def test_unroutable_messages_are_counted_and_the_first_are_named(desk: Desk, queue: Queue, name: Any) -> None:
    there, nowhere = queue(), name("nowhere")
    heard: list[tuple[str, bool]] = []
    broker = broker_of(desk.options)
    with Publisher(broker, writing_of({}), lambda sent, well: heard.append((sent.routing_key, well))) as publishing:
        for number in range(600):
            publishing.publish(outgoing(there if number % 3 else nowhere, number))
        outcome = publishing.finish()
    assert (outcome.confirmed, outcome.returned, outcome.refused, len(outcome.samples)) == (600, 200, 0, 10)
    assert outcome.samples[0] == f"unroutable 0 to '' with '{nowhere}' (NO_ROUTE)"
    assert Counter(heard) == {(nowhere, False): 200, (there, True): 400}
    assert published(publisher(desk.address, mandatory="false"), outgoing(nowhere, 0)) == Outcome(confirmed=1)


def test_refused_messages_are_counted(desk: Desk, queue: Queue) -> None:
    name = queue(**{"x-max-length": 5, "x-overflow": "reject-publish"})
    with publisher(desk.address) as publishing:
        for number in range(20):
            publishing.publish(outgoing(name, number))
        outcome = publishing.finish()
    kept = desk.count(name)  # RabbitMQ's limit takes effect a little late
    assert (outcome.confirmed, outcome.refused, outcome.returned) == (kept, 20 - kept, 0)
    assert kept < 20
    assert outcome.samples[0].startswith("refused ")


@pytest.mark.parametrize(
    ("options", "message", "complaint"),
    [
        ({}, ("k", 0, "no such exchange"), "NOT_FOUND - no exchange 'no such exchange'"),
        ({}, ("k" * 256, 0), "ShortStringTooLong"),
        ({"password": "x"}, ("k", 0), "403 ACCESS_REFUSED"),
        ({"port": 1, "reconnectSeconds": 0}, ("k", 0), "refused"),
    ],
)
def test_what_cannot_be_published_is_an_error(
    desk: Desk, options: dict[str, Any], message: tuple[Any, ...], complaint: str
) -> None:
    with pytest.raises(AmqpError, match=complaint):
        published(publisher(desk.address, **options), outgoing(*message))


def test_a_broker_that_is_killed_gets_again_what_it_did_not_confirm(fresh_broker: BrokerProcess) -> None:
    with desk_at(fresh_broker.address) as desk:
        desk.channel.queue_declare("jobs", durable=True)
    with publisher(fresh_broker.address, window=100) as publishing:
        for number in range(3000):
            if number in (1000, 2000):
                fresh_broker.kill_and_restart()
            publishing.publish(outgoing("jobs", number))
        outcome = publishing.finish()
    assert outcome == Outcome(confirmed=3000)
    with desk_at(fresh_broker.address) as desk:
        found = [int(body) for _, _, body in desk.take("jobs")]
    assert set(found) == set(range(3000))
    assert len(found) <= 3000 + 2 * 300  # at most a window and a piece, twice
