"""What a message carries comes out as it went in: properties, header tables, bodies, names."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from broker.wire.field_tables import Field, Table, encode_table
from broker.wire.frames import frame, method_frame
from broker.wire.methods import BasicDeliver, BasicGetOk, BasicPublish, BasicReturn, ConnectionClose
from broker.wire.properties import BasicProperties, encode_header
from harness.clients.shorthand import consume, get, queue_declare
from harness.clients.wire_client import Client
from tests.unit.wire.test_tables import VECTORS

Name = Callable[..., str]

ALL_PROPERTIES = BasicProperties(
    content_type="text/plain",
    content_encoding="utf-8",
    headers={"k": Field("S", b"v")},
    delivery_mode=2,
    priority=7,
    correlation_id="corr",
    reply_to="somewhere",
    expiration="60000",
    message_id="id-1",
    timestamp=1_700_000_000,
    type="kind",
    user_id="guest",
    app_id="app",
    cluster_id="cluster",
)


@pytest.fixture
def queue(client: Client, name: Name) -> str:
    return str(client.ask(queue_declare(name(), exclusive=True)).queue)


def through(client: Client, queue: str, properties: BasicProperties, body: bytes = b"x") -> bytes:
    """Publish a message, take it out, compare the body, and return the content header that came back."""
    client.publish(body, key=queue, properties=properties)
    client.send(get(queue, no_ack=True))
    message = client.expect_message(BasicGetOk)
    assert message.body == body
    return message.header


def test_all_fourteen_properties(client: Client, queue: str) -> None:
    """0-9-1 specification, 1.8.1."""
    assert through(client, queue, ALL_PROPERTIES) == encode_header(1, ALL_PROPERTIES)


@pytest.mark.parametrize("field", BasicProperties._fields)
def test_each_property_alone(client: Client, queue: str, field: str) -> None:
    """0-9-1 specification, 1.8.1."""
    properties = BasicProperties(**{field: getattr(ALL_PROPERTIES, field)})
    assert through(client, queue, properties) == encode_header(1, properties)


@pytest.mark.parametrize("field", [field for _, field in VECTORS], ids=[repr(raw) for raw, _ in VECTORS])
def test_every_field_type_of_the_dialect(client: Client, queue: str, field: Field) -> None:
    """RabbitMQ's dialect (rabbit_binary_parser, 3.10.8): byte for byte, names that are not UTF-8 included."""
    headers: Table = {"a": field, b"\xff\xfe".decode("utf-8", "surrogateescape"): Field("A", [field])}
    properties = BasicProperties(headers=headers)
    assert through(client, queue, properties) == encode_header(1, properties)


def test_header_order_and_duplicates_stay(client: Client, queue: str) -> None:
    """RabbitMQ passes the table on as it came: nothing sorted, nothing dropped."""
    content = b"".join(b"\x01" + name + b"t\x01" for name in (b"z", b"a", b"z"))
    header = encode_header(1)[:12] + b"\x20\x00" + len(content).to_bytes(4, "big") + content
    client.publish(b"x", key=queue, header=header)
    client.send(get(queue, no_ack=True))
    assert client.expect_message(BasicGetOk).header == header


def test_an_empty_header_table_is_not_an_absent_one(client: Client, queue: str) -> None:
    """0-9-1 specification, 4.2.6.1."""
    properties = BasicProperties(headers={})
    assert through(client, queue, properties) == encode_header(1, properties)
    assert encode_table({}) == bytes(4)


@pytest.mark.parametrize("size", [0, 1, 4087, 131064, 131065, 500_000])
def test_bodies_of_every_size(client: Client, queue: str, size: int) -> None:
    """0-9-1 specification, 4.2.6.2: an empty body has no frame, a long one has several."""
    through(client, queue, BasicProperties(), bytes(range(256)) * (size // 256) + bytes(size % 256))


def test_a_body_in_many_frames(client: Client, queue: str) -> None:
    """0-9-1 specification, 4.2.6.2: the publisher may cut as it likes, empty frames included."""
    wire = method_frame(1, BasicPublish("", queue, False, False)) + frame(2, 1, encode_header(5))
    for piece in (b"a", b"", b"bc", b"d", b"e"):
        wire += frame(3, 1, piece)
    for offset in range(0, len(wire), 3):
        client.send_raw(wire[offset : offset + 3])
    client.send(get(queue, no_ack=True))
    assert client.expect_message(BasicGetOk).body == b"abcde"


def test_a_name_that_is_not_utf8(client: Client, name: Name) -> None:
    """RabbitMQ keeps routing keys as bytes (3.10.8 on the wire)."""
    key = b"\xff\xfe\x00".decode("utf-8", "surrogateescape")
    client.publish(b"x", key=key, mandatory=True)
    returned = client.expect_message(BasicReturn)
    assert returned.method.routing_key == key


def test_a_delivery_carries_the_same(client: Client, queue: str) -> None:
    """0-9-1 specification, basic.deliver."""
    client.ask(consume(queue, "tag", no_ack=True))
    client.publish(b"x", key=queue, properties=ALL_PROPERTIES)
    message = client.expect_message(BasicDeliver)
    assert message.method == BasicDeliver("tag", 1, False, "", queue)
    assert message.header == encode_header(1, ALL_PROPERTIES)


def test_broken_headers_end_the_publisher(client: Client, queue: str) -> None:
    """No consumer could read it. RabbitMQ 3.10.8 drops the connection or the channel without naming the reason."""
    header = encode_header(1)[:12] + b"\x20\x00" + b"\x00\x00\x00\x03\x01aU"
    client.publish(b"x", key=queue, header=header)
    before = client.expect_gone()
    assert all(isinstance(item, ConnectionClose) for item in before)
