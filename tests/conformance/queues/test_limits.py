"""Time to live and length limits: what queues let go of by themselves, and what they refuse.

Everything was recorded from RabbitMQ 3.10.8 on the wire.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from broker.wire.methods import (
    BasicAck,
    BasicDeliver,
    BasicGetEmpty,
    BasicGetOk,
    BasicNack,
    ConfirmSelect,
    TxCommit,
    TxSelect,
)
from broker.wire.properties import BasicProperties
from harness.clients.amqp_peer import Message
from harness.clients.queue_steps import deposit, drain, drain_messages
from harness.clients.shorthand import ack, consume, exchange_declare, get, nack, prefetch, queue_bind, queue_declare
from harness.clients.wire_client import Client
from harness.waiting import eventually

Name = Callable[..., str]
Declare = Callable[..., str]

LONG = BasicProperties(expiration="600000")
SHORT = BasicProperties(expiration="1")


@pytest.fixture
def declare(client: Client, name: Name) -> Declare:
    """A function that declares an exclusive queue; `max_length=3` is the argument x-max-length."""

    def declared(**arguments: Any) -> str:
        table = {"x-" + key.replace("_", "-"): value for key, value in arguments.items()}
        return str(client.ask(queue_declare(name(), exclusive=True, arguments=table)).queue)

    return declared


def ready(client: Client, queue: str, *, channel: int = 1) -> int:
    return int(client.ask(queue_declare(queue, passive=True), channel=channel).message_count)


def fetch(client: Client, queue: str, count: int = 1) -> list[bytes]:
    """Take messages without acknowledging them."""
    for _ in range(count):
        client.send(get(queue))
    return [client.expect_message(BasicGetOk).body for _ in range(count)]


# Time


@pytest.mark.parametrize(("ttl", "properties"), [(600_000, SHORT), (1, LONG), (1, None), (None, SHORT)])
def test_the_shorter_time_to_live_counts(
    client: Client, declare: Declare, ttl: int | None, properties: BasicProperties | None
) -> None:
    queue = declare() if ttl is None else declare(message_ttl=ttl)
    deposit(client, b"x", key=queue, properties=properties)
    eventually(lambda: ready(client, queue) == 0, "the message to expire")


def test_messages_expire_at_the_head_only(client: Client, declare: Declare) -> None:
    """What has expired behind one that has not is counted until it gets to the head; then it is gone at once."""
    queue, marker = declare(), declare(message_ttl=30)
    deposit(client, b"first", key=queue, properties=LONG)
    deposit(client, b"second", b"third", key=queue, properties=SHORT)
    deposit(client, b"", key=marker)
    eventually(lambda: ready(client, marker) == 0, "the time of the others to be over")
    assert ready(client, queue) == 3
    client.send(get(queue))
    message = client.expect_message(BasicGetOk)
    assert (message.body, message.method.message_count) == (b"first", 0)


def test_what_expired_behind_a_fetched_message_dies_at_once(client: Client, declare: Declare) -> None:
    dead = declare()
    queue = declare(dead_letter_exchange="", dead_letter_routing_key=dead)
    deposit(client, b"first", key=queue, properties=LONG)
    deposit(client, b"second", key=queue, properties=BasicProperties(expiration="50"))
    assert fetch(client, queue) == [b"first"]
    eventually(lambda: drain(client, dead) == [b"second"], "the dead letter")


def test_no_time_at_all_reaches_a_waiting_consumer(client: Client, declare: Declare) -> None:
    """But not one without credit, nor a get."""
    dead = declare()
    queue = declare(message_ttl=0, dead_letter_exchange="", dead_letter_routing_key=dead)
    client.open_channel(2)
    client.ask(prefetch(1), channel=2)
    client.ask(consume(queue, "t"), channel=2)
    deposit(client, b"1", b"2", key=queue)
    assert client.expect_message(BasicDeliver, channel=2).body == b"1"
    eventually(lambda: drain(client, dead) == [b"2"], "the dead letter")
    client.send(get(queue))
    client.expect(BasicGetEmpty)


def test_an_expired_message_that_comes_back_dies_before_it_is_delivered(client: Client, declare: Declare) -> None:
    dead = declare()
    queue = declare(message_ttl=30, dead_letter_exchange="", dead_letter_routing_key=dead)
    marker = declare(message_ttl=60)
    client.open_channel(2)
    client.ask(consume(queue, "t"), channel=2)
    deposit(client, b"x", key=queue)
    client.expect_message(BasicDeliver, channel=2)
    deposit(client, b"", key=marker)
    eventually(lambda: ready(client, marker) == 0, "its time to be over")
    client.send(nack(1), channel=2)
    eventually(lambda: drain(client, dead) == [b"x"], "the dead letter")
    ready(client, queue, channel=2)
    assert client.arrived(channel=2) == []


def test_what_expired_while_it_was_out_is_passed_over(client: Client, declare: Declare) -> None:
    """Given back behind a message that lasts, it goes when it comes to the head."""
    queue, marker = declare(), declare(message_ttl=600)
    deposit(client, b"lasting", key=queue)
    fetch(client, queue)
    deposit(client, b"brief", key=queue, properties=BasicProperties(expiration="500"))
    fetch(client, queue)
    deposit(client, b"", key=marker)
    eventually(lambda: ready(client, marker) == 0, "its time to be over")
    client.send(nack(2, multiple=True))
    deposit(client, b"end", key=queue)
    client.ask(consume(queue, no_ack=True))
    assert [client.expect_message(BasicDeliver).body for _ in range(2)] == [b"lasting", b"end"]


def test_an_expired_message_makes_room(client: Client, declare: Declare) -> None:
    queue = declare(max_length=1, overflow="reject-publish")
    deposit(client, b"1", key=queue, properties=SHORT)
    eventually(lambda: ready(client, queue) == 0, "the message to expire")
    deposit(client, b"2", key=queue)
    assert drain(client, queue) == [b"2"]


def test_a_queue_that_expires_leaves_no_dead_letters(client: Client, declare: Declare) -> None:
    dead = declare()
    queue = declare(expires=30, dead_letter_exchange="", dead_letter_routing_key=dead)
    deposit(client, b"x", key=queue)

    client.open_channel(2)
    client.ask(ConfirmSelect(False), channel=2)

    def gone() -> bool:
        # A publish is no use of the queue, unlike a get or a declaration.
        client.publish(b"", key=queue, mandatory=True, channel=2)
        returned = isinstance(client.receive(channel=2), Message)
        if returned:
            client.expect(BasicAck, channel=2)
        return returned

    eventually(gone, "the queue to be gone")
    assert drain(client, dead) == []


# Length


def test_the_oldest_go_when_there_are_too_many(client: Client, declare: Declare) -> None:
    """To the dead letters in their order. Bytes are those of the bodies; what does not fit at all does not stay."""
    dead = declare()
    queue = declare(max_length_bytes=4, dead_letter_exchange="", dead_letter_routing_key=dead)
    deposit(client, b"1", b"2", b"3", b"4", b"5555", key=queue)
    assert drain(client, queue) == [b"5555"]
    deposit(client, b"66666", key=queue)
    assert drain(client, queue) == []
    eventually(lambda: ready(client, dead) == 5, "the dead letters")
    assert drain(client, dead) == [b"1", b"2", b"3", b"4", b"66666"]


def test_bodies_of_no_length_need_no_room(client: Client, declare: Declare) -> None:
    queue = declare(max_length_bytes=0)
    deposit(client, b"", b"1", b"", key=queue)
    assert drain(client, queue) == [b""]


def test_what_is_unacknowledged_does_not_count_until_it_comes_back(client: Client, declare: Declare) -> None:
    """Then the oldest go at once: as a rule what has just come back."""
    dead = declare()
    queue = declare(max_length=2, dead_letter_exchange="", dead_letter_routing_key=dead)
    deposit(client, b"1", b"2", key=queue)
    fetch(client, queue, 2)
    deposit(client, b"3", b"4", key=queue)
    client.send(nack(2, multiple=True))
    eventually(lambda: ready(client, dead) == 2, "the dead letters")
    assert (drain(client, dead), drain(client, queue)) == ([b"1", b"2"], [b"3", b"4"])


def test_a_queue_that_refuses_lets_go_of_nothing(client: Client, declare: Declare) -> None:
    """What comes back may be more than the limit, and then nothing new is taken."""
    queue = declare(max_length=1, overflow="reject-publish")
    deposit(client, b"1", key=queue)
    fetch(client, queue)
    deposit(client, b"2", key=queue)
    client.send(nack(1))
    client.ask(ConfirmSelect(False))
    client.publish(b"3", key=queue)
    assert client.expect(BasicNack).delivery_tag == 1
    messages = drain_messages(client, queue)
    assert [(message.body, message.method.redelivered) for message in messages] == [(b"1", True), (b"2", False)]


def test_a_waiting_consumer_comes_before_the_limit_but_not_before_a_refusal(client: Client, declare: Declare) -> None:
    dropping, refusing = declare(max_length=0), declare(max_length=0, overflow="reject-publish")
    client.open_channel(2)
    for queue in (dropping, refusing):
        client.ask(consume(queue, queue, no_ack=True), channel=2)
    client.ask(ConfirmSelect(False))
    client.publish(b"1", key=dropping)
    client.expect(BasicAck)
    client.publish(b"2", key=refusing)
    client.expect(BasicNack)
    assert client.expect_message(BasicDeliver, channel=2).body == b"1"
    ready(client, refusing, channel=2)
    assert client.arrived(channel=2) == []


def test_one_refusal_refuses_the_publish_and_the_others_keep_it(client: Client, declare: Declare, name: Name) -> None:
    exchange, refusing, taking = name(), declare(max_length=0, overflow="reject-publish"), declare()
    client.ask(exchange_declare(exchange, "fanout", auto_delete=True))
    for queue in (refusing, taking):
        client.ask(queue_bind(queue, exchange))
    client.ask(ConfirmSelect(False))
    client.publish(b"x", exchange=exchange, mandatory=True)
    assert client.expect(BasicNack).delivery_tag == 1
    assert drain(client, taking) == [b"x"]


def test_a_refusal_is_no_return(client: Client, declare: Declare) -> None:
    """The message was routed; that the queue did not take it is for confirms to say."""
    client.ask(ConfirmSelect(False))
    client.publish(b"x", key=declare(max_length=0, overflow="reject-publish"), mandatory=True)
    assert client.expect(BasicNack).requeue is True


def test_a_refusal_in_a_transaction_fails_the_commit(client: Client, declare: Declare) -> None:
    """Only then, and all else that was in it is done. The specification knows no such end of a commit."""
    queue, settled = declare(max_length=1, overflow="reject-publish"), declare()
    deposit(client, b"settled", key=settled)
    client.ask(TxSelect())
    fetch(client, settled)
    client.send(ack(1))
    client.publish(b"1", key=queue)
    client.publish(b"2", key=queue)
    assert client.refusal(TxCommit()) == "channel 406 PRECONDITION_FAILED - partial tx completion"
    assert (drain(client, queue), drain(client, settled)) == ([b"1"], [])


def test_a_transaction_may_drop_what_it_brought(client: Client, declare: Declare) -> None:
    queue = declare(max_length=1)
    client.ask(TxSelect())
    for body in (b"1", b"2", b"3"):
        client.publish(body, key=queue)
    client.ask(TxCommit())
    client.open_channel(2)
    assert drain(client, queue, channel=2) == [b"3"]
