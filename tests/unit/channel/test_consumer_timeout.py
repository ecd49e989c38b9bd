"""The time a consumer may take to acknowledge: what is overdue closes its channel.

Text, class and method numbers, and what goes back when, were recorded from RabbitMQ 3.10.8 with a time-out of 3 s and a
look every second. The argument `x-consumer-timeout` follows the documentation of RabbitMQ 3.13, Consumers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.entities.arguments.policies import Policy
from broker.session.consumer_timeout import LOOK_MILLISECONDS, Overdue
from broker.session.session_settings import SessionSettings
from broker.wire.methods import BasicDeliver, BasicGetOk, ChannelClose, ChannelCloseOk, TxRollback, TxSelect
from harness.brokers.broker_core import Core
from harness.clients.session_client import SessionClient, SessionLayer
from harness.clients.shorthand import ack, consume, get, queue_declare

MINUTE = 60_000
HALF_AN_HOUR = 30 * MINUTE


def party_with(directory: Path, seconds: float) -> SessionLayer:
    session_layer = SessionLayer(Core(directory / "messages"), SessionSettings(consumer_timeout=seconds))
    Overdue(session_layer.registry).watch()
    return session_layer


@pytest.fixture
def session_layer(tmp_path: Path) -> Iterator[SessionLayer]:
    """With RabbitMQ's half an hour."""
    session_layer = party_with(tmp_path, 1800)
    yield session_layer
    session_layer.core.close()


def wait(session_layer: SessionLayer, milliseconds: int) -> None:
    """Let time pass in looks."""
    for _ in range(milliseconds // LOOK_MILLISECONDS):
        session_layer.core.advance(LOOK_MILLISECONDS)


def holder(
    session_layer: SessionLayer, *, of_queue: Any = None, of_consumer: Any = None, bodies: int = 1
) -> SessionClient:
    """Somebody who has been given messages of queue `q` and does nothing with them."""
    client = session_layer.connect(channels=2)
    client.ask(queue_declare("q", arguments={} if of_queue is None else {"x-consumer-timeout": of_queue}))
    client.ask(consume("q", "t", arguments={} if of_consumer is None else {"x-consumer-timeout": of_consumer}))
    for number in range(bodies):
        client.publish(b"%d" % number, key="q")
    assert [item.method.delivery_tag for item in client.received()] == list(range(1, bodies + 1))
    return client


def test_the_channel_is_closed_and_its_messages_go_to_others(session_layer: SessionLayer) -> None:
    client, other = holder(session_layer, bodies=3), session_layer.connect()
    other.ask(consume("q", "u"))
    wait(session_layer, HALF_AN_HOUR + MINUTE)
    text = (
        "PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out. Timeout value used: 1800000 ms. "
        "This timeout value can be configured, see consumers doc guide to learn more"
    )
    assert client.expect_one() == ChannelClose(406, text, 0, 0)
    expected = [BasicDeliver("u", tag, True, "", "q") for tag in (1, 2, 3)]
    assert [item.method for item in other.received()] == expected


def test_it_is_closed_once_and_the_other_channels_go_on(session_layer: SessionLayer) -> None:
    """RabbitMQ 3.10.8 repeats the close at every look until it is answered. Once is enough."""
    client = holder(session_layer)
    wait(session_layer, 2 * HALF_AN_HOUR)
    assert isinstance(client.expect_one(), ChannelClose)
    assert client.ask(queue_declare("q", passive=True), channel=2).message_count == 1


def test_it_is_not_closed_too_soon(session_layer: SessionLayer) -> None:
    client = holder(session_layer)
    wait(session_layer, HALF_AN_HOUR)
    assert client.received() == []


def test_who_acknowledges_in_time_goes_on(session_layer: SessionLayer) -> None:
    """However long the channel always has something outstanding."""
    client = holder(session_layer)
    for tag in range(1, 10):
        wait(session_layer, 20 * MINUTE)
        client.publish(b"next", key="q")
        client.send(ack(tag))
        (delivery,) = client.received()
        assert delivery.method.delivery_tag == tag + 1


def test_what_was_fetched_counts_and_goes_back_when_the_close_is_answered(session_layer: SessionLayer) -> None:
    client = session_layer.connect(channels=2)
    client.ask(queue_declare("q"))
    client.publish(b"x", key="q")
    client.send(get("q"))
    assert isinstance(client.expect_one().method, BasicGetOk)
    wait(session_layer, HALF_AN_HOUR + MINUTE)
    assert isinstance(client.expect_one(), ChannelClose)
    assert client.ask(queue_declare("q", passive=True), channel=2).message_count == 0
    client.send(ChannelCloseOk())
    assert client.ask(queue_declare("q", passive=True), channel=2).message_count == 1


def test_no_ack_is_never_overdue(session_layer: SessionLayer) -> None:
    client = session_layer.connect()
    client.ask(queue_declare("q"))
    client.ask(consume("q", "t", no_ack=True))
    client.publish(b"x", key="q")
    client.received()
    wait(session_layer, 2 * HALF_AN_HOUR)
    assert client.received() == []


def test_an_acknowledgement_that_was_rolled_back_is_none(session_layer: SessionLayer) -> None:
    client = holder(session_layer)
    client.ask(TxSelect())
    client.send(ack(1))
    wait(session_layer, 10 * MINUTE)
    client.ask(TxRollback())
    wait(session_layer, HALF_AN_HOUR + MINUTE)
    assert isinstance(client.expect_one(), ChannelClose)


def test_the_setting_may_say_for_ever(tmp_path: Path) -> None:
    session_layer = party_with(tmp_path, 0)
    client = holder(session_layer)
    wait(session_layer, 2 * HALF_AN_HOUR)
    assert client.received() == []
    session_layer.core.close()


def test_a_short_time_is_looked_at_more_often(tmp_path: Path) -> None:
    session_layer = party_with(tmp_path, 1)
    client = holder(session_layer)
    for _ in range(4):
        session_layer.core.advance(500)
    assert "Timeout value used: 1000 ms" in client.expect_one().reply_text
    session_layer.core.close()


@pytest.mark.parametrize(
    ("of_queue", "of_consumer", "used"),
    [
        (2 * MINUTE, None, 2 * MINUTE),
        (None, 2 * MINUTE, 2 * MINUTE),
        (2 * MINUTE, 4 * MINUTE, 4 * MINUTE),
        ("soon", -1, HALF_AN_HOUR),
    ],
    ids=["queue", "consumer", "consumer before queue", "no times"],
)
def test_the_consumer_says_else_the_queue_else_the_settings(
    session_layer: SessionLayer, of_queue: Any, of_consumer: Any, used: int
) -> None:
    """RabbitMQ 3.13. What is no time is not refused there, and not heeded."""
    client = holder(session_layer, of_queue=of_queue, of_consumer=of_consumer)
    wait(session_layer, used)
    assert client.received() == []
    wait(session_layer, MINUTE)
    assert f"Timeout value used: {used} ms" in client.expect_one().reply_text


def test_a_queue_may_say_for_ever(session_layer: SessionLayer) -> None:
    client = holder(session_layer, of_consumer=0)
    wait(session_layer, 2 * HALF_AN_HOUR)
    assert client.received() == []


def test_a_policy_is_heard_like_the_argument(session_layer: SessionLayer) -> None:
    """RabbitMQ 3.12, key `consumer-timeout`: at once, for what is outstanding too."""
    client = holder(session_layer)
    policy = Policy("p", re.compile("q"), "queues", {"consumer-timeout": 2 * MINUTE}, 0)
    session_layer.core.vhost.policy_application.put(policy, operator=False)
    wait(session_layer, 3 * MINUTE)
    assert "Timeout value used: 120000 ms" in client.expect_one().reply_text


def test_the_marks_are_few(session_layer: SessionLayer) -> None:
    overdue = Overdue(session_layer.registry)
    client = session_layer.connect()
    client.ask(queue_declare("q"))
    client.ask(consume("q", "t"))
    for tag in range(1, 200):
        client.publish(b"x", key="q")
        overdue.watch()
        session_layer.core.clock.time += LOOK_MILLISECONDS
        if tag > 10:
            client.send(ack(tag - 10))
    (marks,) = overdue._marks.values()
    assert len(marks) <= 11
    client.drop()
    overdue.watch()
    assert overdue._marks == {}
