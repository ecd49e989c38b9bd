"""Delivery timeouts of quorum queues in RabbitMQ 4.3, as measured on 4.3.6, in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.entities.arguments.name_patterns import compiled
from broker.entities.arguments.personality import PERSONALITIES
from broker.entities.arguments.policies import Policy
from broker.session.session_settings import SessionSettings
from broker.wire.field_tables import to_python
from broker.wire.methods import BasicCancel, BasicConsumeOk, BasicDeliver, BasicGetOk, ChannelClose
from harness.brokers.broker_core import Core
from harness.clients.session_client import SessionClient, SessionLayer
from harness.clients.shorthand import ack, consume, get, nack, queue_declare

PERSONALITY = PERSONALITIES["4.3"]
TEXT = (
    "PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out. Timeout value used: -1 ms. "
    "This timeout value can be configured, see consumers doc guide to learn more"
)


@pytest.fixture
def sessions(tmp_path: Path) -> Iterator[SessionLayer]:
    core = Core(tmp_path / "messages", personality=PERSONALITY)
    sessions = SessionLayer(core, SessionSettings(consumer_timeout=60, personality=PERSONALITY))
    yield sessions
    core.close()


@pytest.fixture
def queue(sessions: SessionLayer) -> Callable[..., SessionClient]:
    """Return a function that declares queue `q` with arguments, publishes bodies, and returns its client."""

    def declared(*bodies: bytes, client: SessionClient | None = None, **arguments: Any) -> SessionClient:
        client = client or sessions.connect(channels=2)
        named = {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
        client.ask(queue_declare("q", durable=True, arguments={"x-queue-type": "quorum", **named}))
        for body in bodies:
            client.publish(body, key="q")
        sessions.core.commit()
        return client

    return declared


def begin(client: SessionClient, tag: str, queue: str = "q", *, channel: int = 1, **arguments: Any) -> list[Any]:
    """Start a consumer, and return its first deliveries."""
    named = {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
    client.send(consume(queue, tag, arguments=named), channel=channel)
    started, *items = client.received(channel=channel)
    assert isinstance(started, BasicConsumeOk)
    return items


def deliveries(client: SessionClient) -> list[tuple[int, bool, bytes]]:
    items = client.received()
    assert all(isinstance(item.method, BasicDeliver) for item in items), items
    return [(item.method.delivery_tag, item.method.redelivered, item.body) for item in items]


def returned(sessions: SessionLayer) -> dict[str, Any]:
    """Return the counts of the only message that comes back: to be late is no failure."""
    (item,) = begin(sessions.connect(), "next")
    counts: dict[str, Any] = to_python(item.properties.headers)
    return counts


def test_the_consumer_is_cancelled_and_its_channel_goes_on(sessions: SessionLayer, queue: Any) -> None:
    """All its deliveries go to others, in order; acknowledgements that were on their way are no errors."""
    client, other = queue(b"1", b"2", b"3"), sessions.connect()
    assert [item.method.delivery_tag for item in begin(client, "t", consumer_timeout=1000)] == [1, 2, 3]
    sessions.core.advance(600)
    client.send(ack(2))
    sessions.core.advance(399)
    assert client.received() == []
    sessions.core.advance(1)
    assert client.received() == [BasicCancel("t", True)]
    items = begin(other, "u")
    assert [(item.method.redelivered, item.body) for item in items] == [(True, b"1"), (True, b"3")]
    counts = [to_python(item.properties.headers) for item in items]
    assert counts == [{"x-acquired-count": 1}] * 2
    client.send(ack(1))
    client.send(nack(3))
    client.send(ack(3, multiple=True))
    assert client.ask(queue_declare("q", passive=True)).message_count == 0
    other.send(ack(0, multiple=True))
    assert client.ask(queue_declare("q", passive=True), channel=2).consumer_count == 1


def test_each_delivery_has_its_time(sessions: SessionLayer, queue: Any) -> None:
    """A consumer that acknowledges in time goes on; an idle one is never cancelled."""
    client = queue(consumer_timeout=1000)
    begin(client, "t")
    sessions.core.advance(10_000)
    for tag in range(1, 20):
        client.publish(b"x", key="q")
        sessions.core.commit()
        assert [number for number, _, _ in deliveries(client)] == [tag]
        sessions.core.advance(300)
        client.send(ack(tag))
        sessions.core.advance(100)
        assert client.received() == []
    client.publish(b"late", key="q")
    sessions.core.commit()
    deliveries(client)
    sessions.core.advance(1000)
    assert client.received() == [BasicCancel("t", True)]


def test_others_on_the_channel_are_not_concerned(sessions: SessionLayer, queue: Any) -> None:
    client = queue(b"1", b"2")
    client.ask(queue_declare("classic", durable=True))
    client.publish(b"c", key="classic")
    begin(client, "c", "classic")
    begin(client, "t", consumer_timeout=1000)
    sessions.core.advance(30_000)
    assert client.received() == [BasicCancel("t", True)]
    client.send(ack(1))
    assert client.ask(queue_declare("classic", passive=True)).consumer_count == 1
    sessions.core.advance(600_000)
    assert client.received() == []


@pytest.mark.parametrize(
    ("of_queue", "of_consumer", "of_policy", "used"),
    [
        (None, None, None, 60_000),
        (30_000, None, None, 30_000),
        (60_000, 1000, None, 1000),
        (1000, 60_000, None, 60_000),
        (5000, None, 2000, 2000),
        (2000, None, 5000, 2000),
        (None, 0, None, 0),
    ],
)
def test_whose_timeout_counts(
    sessions: SessionLayer, queue: Any, of_queue: int | None, of_consumer: int | None, of_policy: int | None, used: int
) -> None:
    """The consumer's, else the smaller one of queue and policy, else that of the settings."""
    client = queue(b"x", **({} if of_queue is None else {"consumer_timeout": of_queue}))
    if of_policy is not None:
        policy = Policy("p", compiled("q"), "queues", {"consumer-timeout": of_policy}, 0)
        sessions.core.vhost.policy_application.put(policy, operator=False)
    begin(client, "t", **({} if of_consumer is None else {"consumer_timeout": of_consumer}))
    if used:
        sessions.core.advance(used - 1)
        assert client.received() == []
    sessions.core.advance(1)
    assert client.received() == [BasicCancel("t", True)]


def test_a_policy_does_not_concern_deliveries_before_it(sessions: SessionLayer, queue: Any) -> None:
    client = queue(b"x")
    begin(client, "t")
    policy = Policy("p", compiled("q"), "queues", {"consumer-timeout": 1000}, 0)
    sessions.core.vhost.policy_application.put(policy, operator=False)
    sessions.core.advance(59_999)
    assert client.received() == []
    sessions.core.advance(1)
    assert client.received() == [BasicCancel("t", True)]


def test_a_client_that_knows_no_cancellation_has_its_channel_closed(sessions: SessionLayer, queue: Any) -> None:
    client = queue(b"x", client=sessions.connect(capabilities={}), consumer_timeout=1000)
    begin(client, "t")
    sessions.core.advance(1000)
    assert client.expect_one() == ChannelClose(406, TEXT, 0, 0)
    assert returned(sessions) == {"x-acquired-count": 1}


def test_who_has_got_a_message_has_the_channel_closed(sessions: SessionLayer, queue: Any) -> None:
    client = queue(b"x", b"y", consumer_timeout=1000)
    client.send(get("q"))
    assert isinstance(client.expect_one().method, BasicGetOk)
    client.send(ack(1))
    sessions.core.advance(800)
    client.send(get("q"))
    assert isinstance(client.expect_one().method, BasicGetOk)
    sessions.core.advance(999)
    assert client.received() == []
    sessions.core.advance(1)
    assert client.expect_one() == ChannelClose(406, TEXT, 0, 0)
    assert returned(sessions) == {"x-acquired-count": 1}


def test_the_next_single_active_consumer_takes_over(sessions: SessionLayer, queue: Any) -> None:
    client = queue(b"1", b"2", consumer_timeout=1000, single_active_consumer=True)
    begin(client, "t")
    begin(client, "u", channel=2)
    sessions.core.advance(1000)
    assert client.received() == [BasicCancel("t", True)]
    assert [item.body for item in client.received(channel=2)] == [b"1", b"2"]


def test_a_cancelled_consumers_deliveries_are_left_to_it(sessions: SessionLayer, queue: Any) -> None:
    """basic.cancel by the client: they stay unacknowledged."""
    client = queue(b"1", consumer_timeout=1000)
    begin(client, "t")
    client.ask(BasicCancel("t", False))
    sessions.core.advance(5000)
    assert client.received() == []
    client.send(ack(1))
    assert client.ask(queue_declare("q", passive=True)).message_count == 0


@pytest.mark.parametrize(
    ("of_queue", "value", "problem"),
    [
        ("quorum", -1, ": {value_negative,-1}"),
        ("quorum", "x", ': "expected integer, got longstr"'),
        ("quorum", True, ': "expected integer, got bool"'),
        ("quorum", 1.5, ': "expected integer, got double"'),
        ("classic", 1000, " of queue type rabbit_classic_queue"),
    ],
)
def test_wrong_arguments(sessions: SessionLayer, of_queue: str, value: Any, problem: str) -> None:
    client = sessions.connect()
    client.ask(queue_declare("w", durable=True, arguments={"x-queue-type": of_queue}))
    client.send(consume("w", "t", arguments={"x-consumer-timeout": value}))
    text = f"PRECONDITION_FAILED - invalid arg 'x-consumer-timeout' for queue 'w' in vhost '/'{problem}"
    closed = client.expect_one()
    assert isinstance(closed, ChannelClose)
    assert (closed.reply_code, closed.reply_text) == (406, text)
