"""The time a consumer may take to acknowledge: what is overdue closes its channel.

Text, class and method numbers, and what goes back when, were recorded from RabbitMQ 3.10.8 with a time-out of 3 s and a
look every second. The argument `x-consumer-timeout` follows the documentation of RabbitMQ 3.13, Consumers.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.entities.arguments.name_patterns import compiled
from broker.entities.arguments.policies import Policy
from broker.session.consumer_timeout import LOOK_MILLISECONDS, Overdue
from broker.session.session_settings import SessionSettings
from broker.wire.methods import BasicDeliver, BasicGetOk, ChannelClose, ChannelCloseOk, TxRollback, TxSelect
from harness.brokers.broker_core import Core
from harness.clients.session_client import SessionClient, SessionLayer
from harness.clients.shorthand import ack, consume, get, queue_declare

MINUTE = 60_000
HALF_AN_HOUR = 30 * MINUTE


@pytest.fixture
def sessions(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[SessionLayer]:
    """With the parameter's seconds to acknowledge; RabbitMQ's half an hour without one."""
    settings = SessionSettings(consumer_timeout=getattr(request, "param", 1800))
    sessions = SessionLayer(Core(tmp_path / "messages"), settings)
    yield sessions
    sessions.core.close()


def wait(sessions: SessionLayer, milliseconds: int, *, look: int = LOOK_MILLISECONDS) -> None:
    """Let time pass in looks."""
    for _ in range(milliseconds // look):
        sessions.core.advance(look)


def holder(
    sessions: SessionLayer, *, of_queue: Any = None, of_consumer: Any = None, bodies: int = 1, no_ack: bool = False
) -> SessionClient:
    """Somebody who has been given messages of queue `q` and does nothing with them."""
    client = sessions.connect(channels=2)
    client.ask(queue_declare("q", arguments={} if of_queue is None else {"x-consumer-timeout": of_queue}))
    arguments = {} if of_consumer is None else {"x-consumer-timeout": of_consumer}
    client.ask(consume("q", "t", no_ack=no_ack, arguments=arguments))
    for number in range(bodies):
        client.publish(b"%d" % number, key="q")
    assert [item.method.delivery_tag for item in client.received()] == list(range(1, bodies + 1))
    return client


def test_the_channel_is_closed_once_and_its_messages_go_to_others(sessions: SessionLayer) -> None:
    """Its other channels go on. RabbitMQ 3.10.8 repeats the close at every look until it is answered.

    A message of basic.get from a queue without a consumer of the channel counts too, and goes back with the answer.
    """
    client, other = holder(sessions, bodies=3), sessions.connect()
    client.ask(queue_declare("fetched"))
    client.publish(b"x", key="fetched")
    client.send(get("fetched"))
    assert isinstance(client.expect_one().method, BasicGetOk)
    other.ask(consume("q", "u"))
    wait(sessions, HALF_AN_HOUR + MINUTE)
    wait(sessions, HALF_AN_HOUR - MINUTE)
    text = (
        "PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out. Timeout value used: 1800000 ms. "
        "This timeout value can be configured, see consumers doc guide to learn more"
    )
    assert client.expect_one() == ChannelClose(406, text, 0, 0)
    assert client.ask(queue_declare("q", passive=True), channel=2).consumer_count == 1
    expected = [BasicDeliver("u", tag, True, "", "q") for tag in (1, 2, 3)]
    assert [item.method for item in other.received()] == expected
    assert client.ask(queue_declare("fetched", passive=True), channel=2).message_count == 0
    client.send(ChannelCloseOk())
    assert client.ask(queue_declare("fetched", passive=True), channel=2).message_count == 1


def test_who_acknowledges_in_time_goes_on(sessions: SessionLayer) -> None:
    """However long the channel always has something outstanding. An acknowledgement that is rolled back is none."""
    client = holder(sessions)
    for tag in range(1, 10):
        wait(sessions, 20 * MINUTE)
        client.publish(b"next", key="q")
        client.send(ack(tag))
        (delivery,) = client.received()
        assert delivery.method.delivery_tag == tag + 1
    client.ask(TxSelect())
    client.send(ack(10))
    wait(sessions, 10 * MINUTE)
    client.ask(TxRollback())
    wait(sessions, HALF_AN_HOUR + MINUTE)
    assert isinstance(client.expect_one(), ChannelClose)


@pytest.mark.parametrize(
    ("sessions", "how"),
    [(0, {}), (1800, {"of_consumer": 0}), (1800, {"no_ack": True})],
    ids=["settings", "consumer", "no_ack"],
    indirect=["sessions"],
)
def test_it_may_be_for_ever(sessions: SessionLayer, how: dict[str, Any]) -> None:
    client = holder(sessions, **how)
    wait(sessions, 2 * HALF_AN_HOUR)
    assert client.received() == []


@pytest.mark.parametrize(
    ("sessions", "how", "used"),
    [
        (1800, {}, HALF_AN_HOUR),
        (1800, {"of_queue": 2 * MINUTE}, 2 * MINUTE),
        (1800, {"of_consumer": 2 * MINUTE}, 2 * MINUTE),
        (1800, {"of_queue": 2 * MINUTE, "of_consumer": 4 * MINUTE}, 4 * MINUTE),
        (1800, {"of_queue": "soon", "of_consumer": -1}, HALF_AN_HOUR),
        (1, {}, 1000),
    ],
    ids=["settings", "queue", "consumer", "consumer before queue", "no times", "a short time"],
    indirect=["sessions"],
)
def test_the_consumer_says_else_the_queue_else_the_settings(
    sessions: SessionLayer, how: dict[str, Any], used: int
) -> None:
    """RabbitMQ 3.13. A malformed time is not refused there, and ignored; a short time is looked at more often."""
    client, look = holder(sessions, **how), min(LOOK_MILLISECONDS, used // 2)
    wait(sessions, used, look=look)
    assert client.received() == []
    wait(sessions, 2 * look, look=look)
    assert f"Timeout value used: {used} ms" in client.expect_one().reply_text


def test_a_policy_is_heard_like_the_argument(sessions: SessionLayer) -> None:
    """RabbitMQ 3.12, key `consumer-timeout`: at once, for what is outstanding too."""
    client = holder(sessions)
    policy = Policy("p", compiled("q"), "queues", {"consumer-timeout": 2 * MINUTE}, 0)
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
        overdue.look()
        sessions.core.clock.time += LOOK_MILLISECONDS
        if tag > 10:
            client.send(ack(tag - 10))
    (marks,) = overdue._marks.values()
    assert len(marks) <= 11
    client.drop()
    overdue.look()
    assert overdue._marks == {}
