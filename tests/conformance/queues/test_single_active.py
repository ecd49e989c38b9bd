"""Who is served: single active consumers and their heirs, priorities, exclusive consumers.

Everything was recorded from RabbitMQ 3.10.8 on the wire.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from broker.wire.methods import (
    BasicCancel,
    BasicConsumeOk,
    BasicDeliver,
    ChannelClose,
    ChannelCloseOk,
    QueueDeleteOk,
    QueuePurge,
)
from harness.clients.queue_steps import deposit, drain
from harness.clients.shorthand import ack, consume, nack, prefetch, queue_declare, queue_delete
from harness.clients.wire_client import Client
from harness.waiting import eventually

Name = Callable[..., str]
Connect = Callable[..., Client]


@pytest.fixture
def queue(client: Client, name: Name) -> str:
    """A queue with a single active consumer."""
    arguments = {"x-single-active-consumer": True}
    return str(client.ask(queue_declare(name(), exclusive=True, arguments=arguments)).queue)


@pytest.fixture
def shared(client: Client, name: Name) -> str:
    """Such a queue for several connections. It goes with its last consumer."""
    arguments = {"x-single-active-consumer": True}
    return str(client.ask(queue_declare(name(), auto_delete=True, arguments=arguments)).queue)


def served(client: Client, queue: str, body: bytes) -> str:
    """Publish a message and see which consumer on channel 1 gets it."""
    deposit(client, body, key=queue)
    message = client.expect_message(BasicDeliver)
    assert message.body == body
    return str(message.method.consumer_tag)


def test_only_the_first_is_served_until_it_goes(client: Client, queue: str) -> None:
    for tag in ("a", "b", "c"):
        client.ask(consume(queue, tag))
    assert [served(client, queue, body) for body in (b"1", b"2")] == ["a", "a"]
    client.ask(BasicCancel("b", False))
    assert served(client, queue, b"3") == "a"
    client.ask(BasicCancel("a", False))
    assert served(client, queue, b"4") == "c"


def test_the_heir_has_the_highest_priority_and_of_equals_came_first(client: Client, queue: str) -> None:
    """But no priority unseats the active one."""
    client.ask(consume(queue, "first"))
    for tag, priority in (("low", 0), ("high", 5), ("late", 5)):
        client.ask(consume(queue, tag, arguments={"x-priority": priority}))
    assert served(client, queue, b"1") == "first"
    client.ask(BasicCancel("first", False))
    assert served(client, queue, b"2") == "high"
    client.ask(BasicCancel("high", False))
    assert served(client, queue, b"3") == "late"


def test_one_without_credit_is_still_the_active_one(client: Client, queue: str) -> None:
    client.ask(prefetch(1))
    client.ask(consume(queue, "a"))
    client.ask(consume(queue, "b"))
    assert served(client, queue, b"1") == "a"
    deposit(client, b"2", key=queue)
    client.send(ack(1))
    message = client.expect_message(BasicDeliver)
    assert (message.body, message.method.consumer_tag) == (b"2", "a")


def test_what_the_active_one_gives_back_goes_to_its_heir(client: Client, queue: str) -> None:
    client.ask(consume(queue, "a"))
    client.ask(consume(queue, "b"))
    assert served(client, queue, b"1") == "a"
    client.ask(BasicCancel("a", False))
    client.send(nack(1))
    message = client.expect_message(BasicDeliver)
    assert message.method == BasicDeliver("b", 2, True, "", queue)


@pytest.mark.parametrize("end", ["channel", "error", "connection"])
def test_however_the_active_one_ends_there_is_an_heir(client: Client, connect: Connect, shared: str, end: str) -> None:
    other = connect(channels=(1, 2))
    other.ask(consume(shared, "active"))
    client.ask(consume(shared, "heir"))
    deposit(client, b"x", key=shared)
    assert other.expect_message(BasicDeliver).method.consumer_tag == "active"
    if end == "channel":
        other.close_channel(1)
    elif end == "error":
        other.refusal(ack(99))
    else:
        other.close()
    assert client.expect_message(BasicDeliver).method == BasicDeliver("heir", 1, True, "", shared)


def test_an_exclusive_consumer_is_refused(client: Client, queue: str) -> None:
    """Even the first; and it leaves no trace."""
    refused = f"channel 403 ACCESS_REFUSED - queue '{queue}' in vhost '/' in exclusive use"
    assert client.refusal(consume(queue, "a", exclusive=True)) == refused
    client.ask(consume(queue, "a"))
    assert client.refusal(consume(queue, "b", exclusive=True)) == refused


# Without it


def test_a_higher_priority_has_all_until_its_credit_is_used_up(client: Client, name: Name) -> None:
    queue = str(client.ask(queue_declare(name(), exclusive=True)).queue)
    client.ask(prefetch(2))
    for tag, priority in (("low", -5), ("high", 10), ("none", None), ("high too", 10)):
        client.ask(consume(queue, tag, arguments={} if priority is None else {"x-priority": priority}))
    tags = [served(client, queue, b"%d" % number) for number in range(8)]
    assert tags == ["high", "high too", "high", "high too", "none", "none", "low", "low"]
    deposit(client, b"8", b"9", key=queue)
    client.send(ack(5))
    assert client.expect_message(BasicDeliver).method.consumer_tag == "none"
    client.send(ack(2))
    assert client.expect_message(BasicDeliver).method.consumer_tag == "high too"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"x-priority": "5"}, "invalid arg 'x-priority' {q}: \"expected integer, got longstr\""),
        ({"x-priority": 1.5}, "invalid arg 'x-priority' {q}: \"expected integer, got double\""),
        (
            {"x-cancel-on-ha-failover": "yes"},
            "invalid arg 'x-cancel-on-ha-failover' {q}: {{unacceptable_type,longstr}}",
        ),
        ({"x-cancel-on-ha-failover": 1}, "invalid arg 'x-cancel-on-ha-failover' {q}: {{unacceptable_type,signedint}}"),
    ],
    ids=str,
)
def test_arguments_that_are_refused(client: Client, queue: str, arguments: dict[str, object], problem: str) -> None:
    text = problem.format(q=f"for queue '{queue}' in vhost '/'")
    assert client.refusal(consume(queue, "t", arguments=arguments)) == f"channel 406 PRECONDITION_FAILED - {text}"
    client.ask(consume(queue, "t", arguments={"x-cancel-on-ha-failover": True, "x-priority": 1, "other": "x"}))


def test_an_exclusive_consumer_keeps_only_consumers_out(client: Client, connect: Connect, name: Name) -> None:
    """Others may purge, get and delete; then it is told."""
    queue, other = name(), connect()
    client.ask(queue_declare(queue))
    client.ask(prefetch(1))
    client.ask(consume(queue, "alone", exclusive=True))
    deposit(client, b"1", b"2", b"3", key=queue)
    client.expect_message(BasicDeliver)
    other.send(QueuePurge(queue, False))
    assert other.receive().message_count == 2  # type: ignore[union-attr]
    deposit(client, b"4", key=queue)
    assert drain(other, queue) == [b"4"]
    assert other.ask(queue_delete(queue)) == QueueDeleteOk(0)
    assert client.expect(BasicCancel).consumer_tag == "alone"


def test_exclusive_use_ends_with_the_consumers_connection(client: Client, connect: Connect, name: Name) -> None:
    queue, other = name(), connect()
    client.ask(queue_declare(queue, auto_delete=True))
    client.ask(consume(queue, "watch"))
    refused = f"channel 403 ACCESS_REFUSED - queue '{queue}' in vhost '/' in exclusive use"
    assert other.refusal(consume(queue, "alone", exclusive=True)) == refused
    keeper = str(client.ask(queue_declare(name())).queue)
    other.ask(consume(keeper, "alone", exclusive=True))
    assert (
        client.refusal(consume(keeper, "t"))
        == f"channel 403 ACCESS_REFUSED - queue '{keeper}' in vhost '/' in exclusive use"
    )
    other.close()

    def free() -> bool:
        client.send(consume(keeper, "t"))
        if isinstance(item := client.receive(), BasicConsumeOk):
            return True
        assert isinstance(item, ChannelClose)
        client.send(ChannelCloseOk())
        client.open_channel(1)
        return False

    eventually(free, "the queue to be free")
    client.ask(queue_delete(keeper))
