"""Tables as large as a frame takes them, and deeper than anybody means them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from broker.wire.field_tables import NESTING_MAX, Table, decode_table, encode_table
from broker.wire.frames import frame, method_frame
from broker.wire.methods import BasicGetOk, BasicPublish, ConfirmSelect, QueueBind, QueueDeclare, QueueDelete
from broker.wire.properties import HEADER_START
from harness.brokers.rabbitmq_reference import differs
from harness.clients.amqp_peer import Message
from harness.clients.shorthand import get, queue_declare
from harness.clients.wire_client import Client

VOID = b"V"


def block(content: bytes) -> bytes:
    return len(content).to_bytes(4, "big") + content


def nested(depth: int) -> bytes:
    content = b""
    for _ in range(depth - 1):
        content = b"\x01aF" + block(content)
    return block(content)


MANY = block(b"".join(b"\x04%04x" % number + VOID for number in range(20_000)))
EQUAL = block((b"\x01a" + VOID) * 40_000)
LONG_ARRAY = block(b"\x01aA" + block(VOID * 120_000))
LARGE = [MANY, EQUAL, LONG_ARRAY]
NAMES = ["many-entries", "equal-names", "long-array"]


def publish(client: Client, key: str, headers: bytes) -> None:
    header = HEADER_START.pack(60, 0, 0) + b"\x20\x00" + headers
    client.send_raw(method_frame(1, BasicPublish("", key, False, False)) + frame(2, 1, header))


def arguments(table: bytes) -> Table:
    return decode_table(table)[0]


@pytest.mark.parametrize("headers", LARGE, ids=NAMES)
def test_a_message_keeps_headers_as_large_as_a_frame(client: Client, name: Callable[..., str], headers: bytes) -> None:
    """RabbitMQ 3.10.8 on the wire: they come back byte for byte."""
    queue = name()
    client.ask(queue_declare(queue))
    client.ask(ConfirmSelect(False))
    publish(client, queue, headers)
    client.receive()
    client.send(get(queue, no_ack=True))
    message = client.expect_message(BasicGetOk)
    assert isinstance(message, Message)
    assert message.header[HEADER_START.size + 2 :] == headers
    client.ask(QueueDelete(queue, False, False, False))


@pytest.mark.parametrize("table", [MANY, LONG_ARRAY], ids=["many-entries", "long-array"])
def test_arguments_may_be_as_large_as_a_frame(client: Client, name: Callable[..., str], table: bytes) -> None:
    queue = name()
    client.ask(QueueDeclare(queue, False, False, False, False, False, arguments(table)))
    client.ask(QueueDeclare(queue, False, False, False, False, False, arguments(table)))
    client.ask(QueueBind(queue, "amq.fanout", "k", False, arguments(table)))
    client.ask(QueueBind(queue, "amq.headers", "k", False, arguments(table)))
    publish(client, queue, table)
    client.send(get(queue, no_ack=True))
    client.expect_message(BasicGetOk)
    client.ask(QueueDelete(queue, False, False, False))


def test_tables_within_tables_come_back(client: Client, name: Callable[..., str]) -> None:
    queue, headers = name(), nested(NESTING_MAX)
    client.ask(queue_declare(queue))
    publish(client, queue, headers)
    client.send(get(queue, no_ack=True))
    assert client.expect_message(BasicGetOk).header[HEADER_START.size + 2 :] == headers
    assert encode_table(arguments(headers)) == headers
    client.ask(QueueDelete(queue, False, False, False))


@differs("tables are read up to 64 deep, so that none exhausts the stack")
@pytest.mark.parametrize("depth", [NESTING_MAX + 1, 10_000])
def test_headers_may_be_nested_at_will(client: Client, name: Callable[..., str], depth: int) -> None:
    queue = name()
    client.ask(queue_declare(queue))
    publish(client, queue, nested(depth))
    client.send(get(queue, no_ack=True))
    client.expect_message(BasicGetOk)
    client.ask(QueueDelete(queue, False, False, False))
