"""Publishing with a window of unconfirmed messages, without Spark: returns, refusals, lost connections."""

from __future__ import annotations

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
        for number in range(500):
            publishing.publish(outgoing(name, number))
        assert publishing.finish() == Outcome(confirmed=500)
    assert [int(body) for _, _, body in desk.take(name)] == list(range(500))


def test_nothing_needs_no_confirm(desk: Desk) -> None:
    with publisher(desk.address) as publishing:
        assert publishing.finish() == Outcome()


def test_unroutable_messages_are_counted_and_the_first_are_named(desk: Desk, queue: Queue, name: Any) -> None:
    there, nowhere = queue(), name("nowhere")
    with publisher(desk.address) as publishing:
        for number in range(30):
            publishing.publish(outgoing(there if number % 2 else nowhere, number))
        outcome = publishing.finish()
    assert (outcome.confirmed, outcome.returned, outcome.refused, len(outcome.samples)) == (30, 15, 0, 10)
    assert outcome.samples[0] == f"unroutable 0 to '' with '{nowhere}' (NO_ROUTE)"


def test_without_mandatory_nothing_comes_back(desk: Desk, name: Any) -> None:
    with publisher(desk.address, mandatory="false") as publishing:
        publishing.publish(outgoing(name("nowhere"), 0))
        assert publishing.finish() == Outcome(confirmed=1)


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


def test_an_exchange_that_is_not_there_is_an_error(desk: Desk, name: Any) -> None:
    missing = name("x")
    with pytest.raises(AmqpError, match=f"NOT_FOUND - no exchange '{missing}'"):
        published(publisher(desk.address), outgoing("k", 0, missing))


def test_what_cannot_be_said_in_the_protocol_is_an_error(desk: Desk) -> None:
    with pytest.raises(AmqpError, match="ShortStringTooLong"):
        published(publisher(desk.address), outgoing("k" * 256, 0))


def test_a_wrong_password_is_an_error(desk: Desk) -> None:
    with pytest.raises(AmqpError, match="403 ACCESS_REFUSED"):
        published(publisher(desk.address, password="x"), outgoing("k", 0))


def test_nobody_there_is_an_error() -> None:
    with pytest.raises(AmqpError, match="refused"):
        published(publisher(("127.0.0.1", 1), reconnectSeconds=0), outgoing("k", 0))


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
