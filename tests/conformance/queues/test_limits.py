"""Time to live and length limits: what queues let go of by themselves, and what they refuse.

Everything was recorded from RabbitMQ 3.10.8 on the wire.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from broker.wire.methods import BasicAck, BasicDeliver, BasicGetEmpty, BasicNack, ConfirmSelect, TxCommit, TxSelect
from broker.wire.properties import BasicProperties
from harness.clients.amqp_peer import Message
from harness.clients.queue_steps import bodies, deliveries, deposit, drain, fetch, ready
from harness.clients.shorthand import ack, consume, get, nack, prefetch
from harness.clients.wire_client import Client
from harness.waiting import eventually
from tests.conformance import Made

DeadLettered = Callable[..., tuple[str, str]]


@pytest.fixture
def dead_lettered(declare: Made) -> DeadLettered:
    """A function that declares a queue and another for its dead letters."""

    def declared(**arguments: int) -> tuple[str, str]:
        dead = declare()
        return declare(dead_letter_exchange="", dead_letter_routing_key=dead, **arguments), dead

    return declared


LONG = BasicProperties(expiration="600000")
SHORT = BasicProperties(expiration="1")


# Time


@pytest.mark.parametrize(("ttl", "properties"), [(600_000, SHORT), (1, LONG), (1, None), (None, SHORT)])
def test_the_shorter_time_to_live_counts(
    client: Client, declare: Made, ttl: int | None, properties: BasicProperties | None
) -> None:
    queue = declare() if ttl is None else declare(message_ttl=ttl)
    deposit(client, b"x", key=queue, properties=properties)
    eventually(lambda: ready(client, queue) == 0, "the message to expire")


def test_messages_expire_at_the_head_only(client: Client, declare: Made, dead_lettered: DeadLettered) -> None:
    """A message expired behind one that is not counts as ready until it gets to the head; then it is gone at once."""
    (queue, dead), marker = dead_lettered(), declare(message_ttl=30)
    deposit(client, b"first", key=queue, properties=LONG)
    deposit(client, b"second", b"third", key=queue, properties=SHORT)
    deposit(client, b"", key=marker)
    eventually(lambda: ready(client, marker) == 0, "the time of the others to be over")
    assert ready(client, queue) == 3
    (message,) = fetch(client, queue)
    assert (message.body, message.method.message_count) == (b"first", 0)
    dead_letters: list[bytes] = []
    eventually(
        lambda: dead_letters.extend(drain(client, dead)) or dead_letters == [b"second", b"third"], "the dead letters"
    )


def test_no_time_at_all_reaches_a_waiting_consumer(client: Client, dead_lettered: DeadLettered) -> None:
    """But not one without credit, nor a get."""
    queue, dead = dead_lettered(message_ttl=0)
    client.open_channel(2)
    client.ask(prefetch(1), channel=2)
    client.ask(consume(queue, "t"), channel=2)
    deposit(client, b"1", b"2", key=queue)
    assert client.expect_message(BasicDeliver, channel=2).body == b"1"
    eventually(lambda: drain(client, dead) == [b"2"], "the dead letter")
    client.send(get(queue))
    client.expect(BasicGetEmpty)


def test_an_expired_message_that_comes_back_dies_before_it_is_delivered(
    client: Client, declare: Made, dead_lettered: DeadLettered
) -> None:
    queue, dead = dead_lettered(message_ttl=30)
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


def test_what_expired_while_it_was_out_is_passed_over(client: Client, declare: Made) -> None:
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
    assert bodies(deliveries(client, 2)) == [b"lasting", b"end"]


def test_an_expired_message_makes_room(client: Client, declare: Made) -> None:
    queue = declare(max_length=1, overflow="reject-publish")
    deposit(client, b"1", key=queue, properties=SHORT)
    eventually(lambda: ready(client, queue) == 0, "the message to expire")
    deposit(client, b"2", key=queue)
    assert drain(client, queue) == [b"2"]


def test_a_queue_that_expires_leaves_no_dead_letters(client: Client, dead_lettered: DeadLettered) -> None:
    queue, dead = dead_lettered(expires=30)
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


def test_a_waiting_consumer_comes_before_the_limit_but_not_before_a_refusal(client: Client, declare: Made) -> None:
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


def test_one_refusal_refuses_the_publish_and_the_others_keep_it(
    client: Client, new_exchange: Made, new_queue: Made
) -> None:
    """It is no return: the message was routed, and that a queue did not take it is for confirms to say."""
    exchange = new_exchange("fanout")
    refusing, taking = new_queue(exchange, max_length=0, overflow="reject-publish"), new_queue(exchange)
    client.ask(ConfirmSelect(False))
    client.publish(b"x", exchange=exchange, mandatory=True)
    assert client.expect(BasicNack).delivery_tag == 1
    assert drain(client, taking) == [b"x"]
    client.publish(b"x", key=refusing, mandatory=True)
    assert client.expect(BasicNack).requeue is True


def test_a_refusal_in_a_transaction_fails_the_commit(client: Client, declare: Made) -> None:
    """Only then, and all else that was in it is done. The specification knows no such end of a commit.

    Messages of the transaction may be dropped by it as well.
    """
    dropping, queue, settled = declare(max_length=1), declare(max_length=1, overflow="reject-publish"), declare()
    deposit(client, b"settled", key=settled)
    client.ask(TxSelect())
    for body in (b"1", b"2", b"3"):
        client.publish(body, key=dropping)
    client.ask(TxCommit())
    fetch(client, settled)
    client.send(ack(1))
    client.publish(b"1", key=queue)
    client.publish(b"2", key=queue)
    assert client.refusal(TxCommit()) == "channel 406 PRECONDITION_FAILED - partial tx completion"
    assert [drain(client, each) for each in (dropping, queue, settled)] == [[b"3"], [b"1"], []]


def test_a_message_without_time_that_comes_back_is_gone(client: Client, declare: Made) -> None:
    """Though the one that gave it back waits for more, however quickly that was."""
    queue = declare(message_ttl=0)
    client.open_channel(2)
    client.ask(consume(queue, "t"))
    for _ in range(24):
        client.publish(b"x", key=queue)
        client.send(nack(client.expect_message(BasicDeliver).method.delivery_tag))
        client.send(get(queue))
        client.expect(BasicGetEmpty)
