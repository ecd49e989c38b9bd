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
    sessions = SessionLayer(Core(directory / "messages"), SessionSettings(consumer_timeout=seconds))
    Overdue(sessions.registry).watch()
    return sessions


@pytest.fixture
def sessions(tmp_path: Path) -> Iterator[SessionLayer]:
    """With RabbitMQ's half an hour."""
    sessions = party_with(tmp_path, 1800)
    yield sessions
    sessions.core.close()


def wait(sessions: SessionLayer, milliseconds: int) -> None:
    """Let time pass in looks."""
    for _ in range(milliseconds // LOOK_MILLISECONDS):
        sessions.core.advance(LOOK_MILLISECONDS)


def holder(sessions: SessionLayer, *, of_queue: Any = None, of_consumer: Any = None, bodies: int = 1) -> SessionClient:
    """Somebody who has been given messages of queue `q` and does nothing with them."""
    client = sessions.connect(channels=2)
    client.ask(queue_declare("q", arguments={} if of_queue is None else {"x-consumer-timeout": of_queue}))
    client.ask(consume("q", "t", arguments={} if of_consumer is None else {"x-consumer-timeout": of_consumer}))
    for number in range(bodies):
        client.publish(b"%d" % number, key="q")
    assert [item.method.delivery_tag for item in client.received()] == list(range(1, bodies + 1))
    return client


def test_the_channel_is_closed_and_its_messages_go_to_others(sessions: SessionLayer) -> None:
    client, other = holder(sessions, bodies=3), sessions.connect()
    other.ask(consume("q", "u"))
    wait(sessions, HALF_AN_HOUR + MINUTE)
    text = (
        "PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out. Timeout value used: 1800000 ms. "
        "This timeout value can be configured, see consumers doc guide to learn more"
    )
    assert client.expect_one() == ChannelClose(406, text, 0, 0)
    expected = [BasicDeliver("u", tag, True, "", "q") for tag in (1, 2, 3)]
    assert [item.method for item in other.received()] == expected


def test_it_is_closed_once_and_the_other_channels_go_on(sessions: SessionLayer) -> None:
    """RabbitMQ 3.10.8 repeats the close at every look until it is answered. Once is enough."""
    client = holder(sessions)
    wait(sessions, 2 * HALF_AN_HOUR)
    assert isinstance(client.expect_one(), ChannelClose)
    assert client.ask(queue_declare("q", passive=True), channel=2).message_count == 1


def test_it_is_not_closed_too_soon(sessions: SessionLayer) -> None:
    client = holder(sessions)
    wait(sessions, HALF_AN_HOUR)
    assert client.received() == []


def test_who_acknowledges_in_time_goes_on(sessions: SessionLayer) -> None:
    """However long the channel always has something outstanding."""
    client = holder(sessions)
    for tag in range(1, 10):
        wait(sessions, 20 * MINUTE)
        client.publish(b"next", key="q")
        client.send(ack(tag))
        (delivery,) = client.received()
        assert delivery.method.delivery_tag == tag + 1


def test_what_was_fetched_counts_and_goes_back_when_the_close_is_answered(sessions: SessionLayer) -> None:
    client = sessions.connect(channels=2)
    client.ask(queue_declare("q"))
    client.publish(b"x", key="q")
    client.send(get("q"))
    assert isinstance(client.expect_one().method, BasicGetOk)
    wait(sessions, HALF_AN_HOUR + MINUTE)
    assert isinstance(client.expect_one(), ChannelClose)
    assert client.ask(queue_declare("q", passive=True), channel=2).message_count == 0
    client.send(ChannelCloseOk())
    assert client.ask(queue_declare("q", passive=True), channel=2).message_count == 1


def test_no_ack_is_never_overdue(sessions: SessionLayer) -> None:
    client = sessions.connect()
    client.ask(queue_declare("q"))
    client.ask(consume("q", "t", no_ack=True))
    client.publish(b"x", key="q")
    client.received()
    wait(sessions, 2 * HALF_AN_HOUR)
    assert client.received() == []


def test_an_acknowledgement_that_was_rolled_back_is_none(sessions: SessionLayer) -> None:
    client = holder(sessions)
    client.ask(TxSelect())
    client.send(ack(1))
    wait(sessions, 10 * MINUTE)
    client.ask(TxRollback())
    wait(sessions, HALF_AN_HOUR + MINUTE)
    assert isinstance(client.expect_one(), ChannelClose)


def test_the_setting_may_say_for_ever(tmp_path: Path) -> None:
    sessions = party_with(tmp_path, 0)
    client = holder(sessions)
    wait(sessions, 2 * HALF_AN_HOUR)
    assert client.received() == []
    sessions.core.close()


def test_a_short_time_is_looked_at_more_often(tmp_path: Path) -> None:
    sessions = party_with(tmp_path, 1)
    client = holder(sessions)
    for _ in range(4):
        sessions.core.advance(500)
    assert "Timeout value used: 1000 ms" in client.expect_one().reply_text
    sessions.core.close()


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
    sessions: SessionLayer, of_queue: Any, of_consumer: Any, used: int
) -> None:
    """RabbitMQ 3.13. What is no time is not refused there, and not heeded."""
    client = holder(sessions, of_queue=of_queue, of_consumer=of_consumer)
    wait(sessions, used)
    assert client.received() == []
    wait(sessions, MINUTE)
    assert f"Timeout value used: {used} ms" in client.expect_one().reply_text


def test_a_queue_may_say_for_ever(sessions: SessionLayer) -> None:
    client = holder(sessions, of_consumer=0)
    wait(sessions, 2 * HALF_AN_HOUR)
    assert client.received() == []


def test_a_policy_is_heard_like_the_argument(sessions: SessionLayer) -> None:
    """RabbitMQ 3.12, key `consumer-timeout`: at once, for what is outstanding too."""
    client = holder(sessions)
    policy = Policy("p", re.compile("q"), "queues", {"consumer-timeout": 2 * MINUTE}, 0)
    sessions.core.vhost.policy_application.put(policy, operator=False)
    wait(sessions, 3 * MINUTE)
    assert "Timeout value used: 120000 ms" in client.expect_one().reply_text


def test_the_marks_are_few(sessions: SessionLayer) -> None:
    overdue = Overdue(sessions.registry)
    client = sessions.connect()
    client.ask(queue_declare("q"))
    client.ask(consume("q", "t"))
    for tag in range(1, 200):
        client.publish(b"x", key="q")
        overdue.watch()
        sessions.core.clock.time += LOOK_MILLISECONDS
        if tag > 10:
            client.send(ack(tag - 10))
    (marks,) = overdue._marks.values()
    assert len(marks) <= 11
    client.drop()
    overdue.watch()
    assert overdue._marks == {}
