"""A message comes out as it went in: properties, header tables, bodies, names."""

from __future__ import annotations

import pytest

from broker.wire.field_tables import Field, Table
from broker.wire.frames import frame, method_frame
from broker.wire.methods import BasicDeliver, BasicGetOk, BasicPublish, BasicReturn, ConnectionClose
from broker.wire.properties import BasicProperties, encode_header
from harness.clients.contents import ALL_PROPERTIES
from harness.clients.shorthand import consume, get, queue_declare
from harness.clients.wire_client import Client
from tests.conformance import Connect, Made
from tests.unit.wire.test_tables import VECTORS


def through(client: Client, queue: str, properties: BasicProperties, body: bytes = b"x") -> bytes:
    """Publish a message, take it out, compare the body, and return the content header that came back."""
    client.publish(body, key=queue, properties=properties)
    client.send(get(queue, no_ack=True))
    message = client.expect_message(BasicGetOk)
    assert message.body == body
    return message.header


EACH = {
    "all": ALL_PROPERTIES,
    **{field: BasicProperties(**{field: getattr(ALL_PROPERTIES, field)}) for field in BasicProperties._fields},
    "empty headers": BasicProperties(headers={}),
}


@pytest.mark.parametrize("properties", EACH.values(), ids=list(EACH))
def test_each_property_alone_and_all_together(client: Client, queue: str, properties: BasicProperties) -> None:
    """0-9-1 specification, 1.8.1 and 4.2.6.1: an empty header table is not an absent one."""
    assert through(client, queue, properties) == encode_header(1, properties)


@pytest.mark.parametrize("field", [field for _, field in VECTORS], ids=[repr(raw) for raw, _ in VECTORS])
def test_every_field_type_of_the_dialect(client: Client, queue: str, field: Field) -> None:
    """RabbitMQ's dialect (rabbit_binary_parser, 3.10.8): byte for byte, names that are not UTF-8 included."""
    headers: Table = {"a": field, b"\xff\xfe".decode("utf-8", "surrogateescape"): Field("A", [field])}
    properties = BasicProperties(headers=headers)
    assert through(client, queue, properties) == encode_header(1, properties)


def test_header_order_and_duplicates_stay(client: Client, queue: str) -> None:
    """RabbitMQ passes the table on as it came: nothing sorted, nothing dropped.

    One that is broken no consumer could read. RabbitMQ 3.10.8 drops the connection or the channel without a reason.
    """
    start = encode_header(1)[:12] + b"\x20\x00"
    content = b"".join(b"\x01" + name + b"t\x01" for name in (b"z", b"a", b"z"))
    header = start + len(content).to_bytes(4, "big") + content
    client.publish(b"x", key=queue, header=header)
    client.send(get(queue, no_ack=True))
    assert client.expect_message(BasicGetOk).header == header
    client.publish(b"x", key=queue, header=start + b"\x00\x00\x00\x03\x01aU")
    assert all(isinstance(item, ConnectionClose) for item in client.expect_gone())


@pytest.mark.parametrize("size", [0, 1, 4087, 131064, 131065, 5_000_000])
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


def test_a_name_that_is_not_utf8(client: Client, name: Made) -> None:
    """RabbitMQ keeps routing keys as bytes (3.10.8 on the wire)."""
    key = b"\xff\xfe\x00".decode("utf-8", "surrogateescape")
    client.publish(b"x", key=key, mandatory=True)
    returned = client.expect_message(BasicReturn)
    assert returned.method.routing_key == key


def test_each_content_of_a_channel_is_whole(connect: Connect, name: Made) -> None:
    """0-9-1 specification, 4.2.6: contents of different channels may interleave, those of one channel may not; the client checks both."""
    client, queues = connect(channels=range(1, 9)), [name() for _ in range(8)]
    for channel, queue in enumerate(queues, 1):
        client.ask(queue_declare(queue, exclusive=True), channel=channel)
        client.ask(consume(queue, "t", no_ack=True), channel=channel)
    bodies = [bytes([number]) * 300_000 for number in range(8)]
    for queue, body in zip(queues, bodies, strict=True):
        client.publish(body, key=queue)
    assert [client.expect_message(BasicDeliver, channel=channel).body for channel in range(1, 9)] == bodies
