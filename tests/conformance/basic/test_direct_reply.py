"""Direct reply-to: requests whose answers go to the asking channel, through no queue.

Everything was recorded from RabbitMQ 3.10.8 on the wire.
"""

from __future__ import annotations

import pytest

from broker.wire.method import Method
from broker.wire.methods import (
    BasicAck,
    BasicCancel,
    BasicDeliver,
    BasicPublish,
    BasicReturn,
    ConfirmSelect,
    QueuePurge,
    TxCommit,
    TxSelect,
)
from broker.wire.properties import BasicProperties
from harness.clients.contents import with_headers
from harness.clients.queue_steps import deposit, drain_messages
from harness.clients.shorthand import consume, get, queue_bind, queue_declare, queue_delete, queue_unbind
from harness.clients.wire_client import Client
from tests.conformance import Made

REPLY_TO = "amq.rabbitmq.reply-to"
REQUEST = BasicProperties(reply_to=REPLY_TO)


@pytest.fixture
def address(client: Client, queue: str) -> str:
    """The address of channel 1, as somebody who got its request reads it. Channel 2 is open to answer on."""
    client.ask(consume(REPLY_TO, "t", no_ack=True))
    client.publish(b"ask", key=queue, properties=REQUEST)
    (request,) = drain_messages(client, queue)
    client.open_channel(2)
    return str(request.properties.reply_to)


def expect_answer(client: Client, body: bytes) -> None:
    message = client.expect_message(BasicDeliver)
    assert (message.method.consumer_tag, message.body) == ("t", body)


@pytest.mark.parametrize(
    ("method", "text"),
    [
        (consume(REPLY_TO, "t"), "406 PRECONDITION_FAILED - reply consumer cannot acknowledge"),
        (get(REPLY_TO), f"404 NOT_FOUND - no queue '{REPLY_TO}' in vhost '/'"),
        (QueuePurge(REPLY_TO, False), f"404 NOT_FOUND - no queue '{REPLY_TO}' in vhost '/'"),
        (queue_bind(REPLY_TO, "amq.direct", "k"), f"404 NOT_FOUND - no queue '{REPLY_TO}' in vhost '/'"),
        (queue_declare(f"{REPLY_TO}.x", passive=True), f"404 NOT_FOUND - no queue '{REPLY_TO}.x' in vhost '/'"),
    ],
    ids=["acknowledge", "get", "purge", "bind", "ask for nobody"],
)
def test_what_it_is_no_queue_for(client: Client, method: Method, text: str) -> None:
    assert client.refusal(method) == f"channel {text}"


def test_declaring_deleting_and_unbinding_it_change_nothing(client: Client) -> None:
    for passive in (False, True):
        answer = client.ask(queue_declare(REPLY_TO, passive=passive))
        assert (answer.queue, answer.message_count, answer.consumer_count) == (REPLY_TO, 0, 1)
    assert client.ask(queue_delete(REPLY_TO)).message_count == 0
    client.ask(queue_unbind(REPLY_TO, "amq.direct", "k"))


def test_one_consumer_a_channel(client: Client) -> None:
    """Exclusive or with whatever arguments: neither is looked at."""
    client.ask(consume(REPLY_TO, "t", no_ack=True, exclusive=True, arguments={"x-priority": "none"}))
    text = "channel 406 PRECONDITION_FAILED - reply consumer already set"
    assert client.refusal(consume(REPLY_TO, "u", no_ack=True)) == text
    client.ask(consume(REPLY_TO, no_ack=True))
    client.open_channel(2)
    client.ask(consume(REPLY_TO, "t", no_ack=True), channel=2)


def test_who_asks_must_listen_on_the_same_channel(client: Client, queue: str) -> None:
    client.ask(consume(REPLY_TO, "t", no_ack=True))
    client.open_channel(2)
    client.publish(b"ask", key=queue, properties=REQUEST, channel=2)
    refused = "channel 406 PRECONDITION_FAILED - fast reply consumer does not exist"
    assert client.closing(BasicPublish, channel=2) == refused


def test_an_answer_has_its_content_and_no_tag_of_its_own(client: Client, queue: str, address: str) -> None:
    """Answers are not counted: the first delivery that is counted has tag 1, however many answers came before."""
    properties = with_headers({"a": 1})._replace(correlation_id="c")
    for _ in range(2):
        client.publish(b"answer", key=address, channel=2, properties=properties)
        answer = client.expect_message(BasicDeliver)
        assert answer.method == BasicDeliver("t", 2, False, "", address)
        assert (answer.properties, answer.body) == (properties, b"answer")
    client.ask(consume(queue, "counted"))
    deposit(client, b"x", key=queue)
    assert client.expect_message(BasicDeliver).method == BasicDeliver("counted", 2, False, "", queue)


def test_an_answer_is_confirmed_and_if_mandatory_returned_too(client: Client, address: str) -> None:
    client.ask(ConfirmSelect(False), channel=2)
    client.publish(b"1", key=address, channel=2)
    assert client.expect(BasicAck, channel=2).delivery_tag == 1
    client.publish(b"2", key=address, channel=2, mandatory=True)
    assert client.expect_message(BasicReturn, channel=2).body == b"2"
    assert client.expect(BasicAck, channel=2).delivery_tag == 2
    expect_answer(client, b"1")
    expect_answer(client, b"2")


def test_how_an_answer_gets_there(client: Client, address: str, name: Made) -> None:
    """By a copy too; by no other exchange than the default one; and without waiting for a commit."""
    client.publish(b"copy", key=name(), channel=2, properties=with_headers({"CC": [address]}))
    expect_answer(client, b"copy")
    client.publish(b"x", exchange="amq.direct", key=address, channel=2, mandatory=True)
    assert client.expect_message(BasicReturn, channel=2).body == b"x"
    client.ask(TxSelect(), channel=2)
    client.publish(b"in a transaction", key=address, channel=2)
    expect_answer(client, b"in a transaction")
    client.ask(TxCommit(), channel=2)
    client.ask(queue_declare(REPLY_TO, passive=True))
    assert client.arrived() == []


def test_an_address_ends_with_its_consumer(client: Client, queue: str, address: str) -> None:
    """A client that consumes again has another address."""
    assert client.ask(queue_declare(address, passive=True), channel=2).consumer_count == 1
    client.ask(BasicCancel("t", False))
    client.publish(b"x", key=address, channel=2, mandatory=True)
    assert client.expect_message(BasicReturn, channel=2).body == b"x"
    client.ask(consume(REPLY_TO, "t", no_ack=True))
    client.publish(b"ask", key=queue, properties=REQUEST)
    (request,) = drain_messages(client, queue)
    assert request.properties.reply_to not in (None, address)
    text = f"channel 404 NOT_FOUND - no queue '{address}' in vhost '/'"
    assert client.refusal(queue_declare(address, passive=True), channel=2) == text
