"""basic.publish: returns, immediate, and the properties that are looked at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from broker.wire.field_tables import Field, from_python
from broker.wire.frames import content_frames, method_frame
from broker.wire.methods import BasicGetOk, BasicPublish, BasicReturn
from broker.wire.properties import BasicProperties, encode_header
from harness.clients.contents import with_headers
from harness.clients.queue_steps import drain, drain_messages
from harness.clients.shorthand import exchange_declare, get, queue_declare
from harness.clients.wire_client import Client

Name = Callable[..., str]


@pytest.fixture
def queue(client: Client, name: Name) -> str:
    return str(client.ask(queue_declare(name(), exclusive=True)).queue)


def test_an_unroutable_mandatory_message_comes_back(client: Client, name: Name) -> None:
    """RabbitMQ 3.10.8 on the wire; 0-9-1 specification, basic.return: with its content unchanged."""
    key = name("nobody")
    properties = BasicProperties(message_id="m", headers=from_python({"n": 1}))
    client.publish(b"body", key=key, mandatory=True, properties=properties)
    returned = client.expect_message(BasicReturn)
    assert returned.method == BasicReturn(312, "NO_ROUTE", "", key)
    assert (returned.properties, returned.body) == (properties, b"body")


def test_an_unroutable_message_is_dropped_in_silence(client: Client, name: Name) -> None:
    """0-9-1 specification, basic.publish, mandatory."""
    client.publish(b"x", key=name())
    client.ask(exchange_declare("amq.direct", passive=True))
    assert client.arrived() == []


def test_a_routed_mandatory_message_does_not_come_back(client: Client, queue: str) -> None:
    """0-9-1 specification, basic.publish."""
    client.publish(b"x", key=queue, mandatory=True)
    assert drain(client, queue) == [b"x"]


def test_immediate_is_not_offered(client: Client, queue: str) -> None:
    """RabbitMQ since 3.0."""
    publish = method_frame(1, BasicPublish("", queue, False, True))
    client.send_raw(publish + content_frames(1, encode_header(1), b"x", 0))
    assert client.closing(BasicPublish) == "connection 540 NOT_IMPLEMENTED - immediate=true"


@pytest.mark.parametrize(
    ("properties", "text"),
    [
        (BasicProperties(expiration="abc"), "invalid expiration 'abc': no_integer"),
        (BasicProperties(expiration="-1"), "invalid expiration '-1': {value_negative,-1}"),
        (BasicProperties(expiration="1.5"), "invalid expiration '1.5': {leftover_string,\".5\"}"),
        (BasicProperties(expiration=""), "invalid expiration '': no_integer"),
        (BasicProperties(expiration="10 "), "invalid expiration '10 ': {leftover_string,\" \"}"),
        (BasicProperties(expiration="9" * 15), f"invalid expiration '{'9' * 15}': {{value_too_large,{'9' * 15}}}"),
        (BasicProperties(user_id="bob"), "user_id property set to 'bob' but authenticated user was 'guest'"),
        (BasicProperties(headers=from_python({"CC": "q"})),
         'invalid message: {unacceptable_type_in_header,"CC",longstr}'),
        (BasicProperties(headers=from_python({"BCC": 5})),
         'invalid message: {unacceptable_type_in_header,"BCC",signedint}'),
        (BasicProperties(delivery_mode=3), "invalid message: {delivery_mode_unknown,3}"),
        (BasicProperties(delivery_mode=0), "invalid message: {delivery_mode_unknown,0}"),
        (BasicProperties(reply_to="amq.rabbitmq.reply-to"), "fast reply consumer does not exist"),
    ],
    ids=lambda value: repr(value)[:60] if isinstance(value, str) else "",
)  # fmt: skip
def test_properties_that_are_refused(client: Client, queue: str, properties: BasicProperties, text: str) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    client.publish(b"x", key=queue, properties=properties)
    assert client.closing(BasicPublish) == f"channel 406 PRECONDITION_FAILED - {text}"


@pytest.mark.parametrize(
    "properties",
    [
        BasicProperties(expiration="60000"),
        BasicProperties(expiration="+60000"),
        BasicProperties(user_id="guest"),
        BasicProperties(delivery_mode=1),
        BasicProperties(delivery_mode=2),
        BasicProperties(priority=255),
        BasicProperties(reply_to="some.queue"),
        BasicProperties(headers={"CC": Field("A", [])}),
    ],
    ids=str,
)
def test_properties_that_are_accepted(client: Client, queue: str, properties: BasicProperties) -> None:
    """RabbitMQ 3.10.8 on the wire: they pass unchanged."""
    client.publish(b"x", key=queue, properties=properties)
    client.send(get(queue, no_ack=True))
    assert client.expect_message(BasicGetOk).properties == properties


def test_copies_by_header(client: Client, name: Name) -> None:
    """RabbitMQ's sender-selected distribution: CC and BCC are further keys; BCC is taken off."""
    queues = [name() for _ in range(3)]
    for item in queues:
        client.ask(queue_declare(item, exclusive=True))
    headers = from_python({"CC": [queues[1], queues[0]], "BCC": [queues[2]], "n": 1})
    client.publish(b"x", key=queues[0], properties=BasicProperties(headers=headers))
    for item in queues:
        (message,) = drain_messages(client, item)
        assert message.properties.headers == from_python({"CC": [queues[1], queues[0]], "n": 1})
        assert message.method.routing_key == queues[0]


@pytest.mark.parametrize(
    ("headers", "problem"),
    [
        ({"CC": "k"}, '"CC",longstr'),
        ({"BCC": "k"}, '"BCC",longstr'),
        ({"CC": None}, '"CC",void'),
        ({"CC": {"k": 1}}, '"CC",table'),
        ({"BCC": 1, "CC": 1}, '"CC",signedint'),
    ],
    ids=str,
)
def test_copies_that_are_no_array(client: Client, queue: str, headers: dict[str, Any], problem: str) -> None:
    """RabbitMQ 3.10.8 on the wire: the CC header is read first."""
    client.publish(b"x", key=queue, properties=with_headers(headers))
    text = f"channel 406 PRECONDITION_FAILED - invalid message: {{unacceptable_type_in_header,{problem}}}"
    assert client.closing(BasicPublish) == text
    assert drain(client, queue) == []


@pytest.mark.parametrize("values", [[], [1], [None, {"k": 1}]], ids=str)
def test_copies_to_what_is_no_text(client: Client, queue: str, name: Name, values: list[Any]) -> None:
    """RabbitMQ 3.10.8 on the wire: what is no string among the keys is passed over, and passed on."""
    other = str(client.ask(queue_declare(name(), exclusive=True)).queue)
    headers = {"CC": [*values, other], "BCC": values}
    client.publish(b"x", key=queue, properties=with_headers(headers, delivery_mode=1))
    for reached in (queue, other):
        (message,) = drain_messages(client, reached)
        assert message.properties.headers == from_python({"CC": [*values, other]})


def test_a_blind_copy_may_be_the_only_one(client: Client, queue: str, name: Name) -> None:
    """RabbitMQ 3.10.8 on the wire: then it is routed; if not, what is returned has lost the header too."""
    client.publish(b"x", key=name(), mandatory=True, properties=with_headers({"BCC": [queue, "k" * 300]}))
    assert drain(client, queue) == [b"x"]
    client.publish(b"y", key=name(), mandatory=True, properties=with_headers({"BCC": [name()], "a": 1}))
    assert client.expect_message(BasicReturn).properties.headers == from_python({"a": 1})


def test_a_message_of_the_largest_kind(client: Client, queue: str) -> None:
    """0-9-1 specification, 4.2.6.2: a body of many frames each way."""
    body = bytes(range(256)) * 20_000
    client.publish(body, key=queue)
    assert drain(client, queue) == [body]
