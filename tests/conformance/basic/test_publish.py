"""basic.publish: returns, immediate, and the properties that are looked at."""

from __future__ import annotations

from typing import Any

import pytest

from broker.wire.field_tables import Field, from_python
from broker.wire.frames import content_frames, method_frame
from broker.wire.methods import BasicPublish, BasicReturn
from broker.wire.properties import BasicProperties, encode_header
from harness.clients.contents import with_headers
from harness.clients.queue_steps import drain, drain_messages
from harness.clients.shorthand import exchange_declare
from harness.clients.wire_client import Client
from tests.conformance import Made


def test_an_unroutable_message_comes_back_if_it_is_mandatory(client: Client, name: Made) -> None:
    """0-9-1 specification, basic.return: with its content unchanged. If not, it is dropped in silence."""
    key = name("nobody")
    properties = BasicProperties(message_id="m", headers=from_python({"n": 1}))
    for mandatory in (False, True):
        client.publish(b"body", key=key, mandatory=mandatory, properties=properties)
    returned = client.expect_message(BasicReturn)
    assert returned.method == BasicReturn(312, "NO_ROUTE", "", key)
    assert (returned.properties, returned.body) == (properties, b"body")
    client.ask(exchange_declare("amq.direct", passive=True))
    assert client.arrived() == []


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
        (BasicProperties(delivery_mode=3), "invalid message: {delivery_mode_unknown,3}"),
        (BasicProperties(delivery_mode=0), "invalid message: {delivery_mode_unknown,0}"),
        (BasicProperties(reply_to="amq.rabbitmq.reply-to"), "fast reply consumer does not exist"),
    ],
    ids=lambda value: repr(value)[:60] if isinstance(value, str) else "",
)  # fmt: skip
def test_properties_that_are_refused(client: Client, queue: str, properties: BasicProperties, text: str) -> None:
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
    """They pass unchanged."""
    client.publish(b"x", key=queue, properties=properties)
    assert [message.properties for message in drain_messages(client, queue)] == [properties]


def test_copies_by_header(client: Client, new_queue: Made, name: Made) -> None:
    """RabbitMQ's sender-selected distribution: CC and BCC are further keys; BCC is taken off, of returns too."""
    one, two, blind = (new_queue() for _ in range(3))
    headers = {"CC": [two, one], "BCC": [blind], "n": 1}
    client.publish(b"x", key=one, properties=with_headers(headers))
    for reached in (one, two, blind):
        (message,) = drain_messages(client, reached)
        assert message.properties.headers == from_python({"CC": [two, one], "n": 1})
        assert message.method.routing_key == one
    client.publish(b"x", key=name(), mandatory=True, properties=with_headers({"BCC": [blind, "k" * 300]}))
    assert drain(client, blind) == [b"x"]
    client.publish(b"y", key=name(), mandatory=True, properties=with_headers({"BCC": [name()], "a": 1}))
    assert client.expect_message(BasicReturn).properties.headers == from_python({"a": 1})


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
    """The CC header is read first."""
    client.publish(b"x", key=queue, properties=with_headers(headers))
    text = f"channel 406 PRECONDITION_FAILED - invalid message: {{unacceptable_type_in_header,{problem}}}"
    assert client.closing(BasicPublish) == text
    assert drain(client, queue) == []


@pytest.mark.parametrize("values", [[], [1], [None, {"k": 1}]], ids=str)
def test_copies_to_what_is_no_text(client: Client, queue: str, new_queue: Made, values: list[Any]) -> None:
    """A key that is no string is passed over, and passed on."""
    other = new_queue()
    headers = {"CC": [*values, other], "BCC": values}
    client.publish(b"x", key=queue, properties=with_headers(headers, delivery_mode=1))
    for reached in (queue, other):
        (message,) = drain_messages(client, reached)
        assert message.properties.headers == from_python({"CC": [*values, other]})
