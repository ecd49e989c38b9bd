"""Tables as large as a frame takes them, and deeper than anybody means them."""

from __future__ import annotations

import pytest

from broker.wire.field_tables import NESTING_MAX, Table, decode_table
from broker.wire.frames import frame, method_frame
from broker.wire.methods import BasicGetOk, BasicPublish, ConfirmSelect, QueueBind, QueueDeclare, QueueDelete
from broker.wire.properties import HEADER_START
from harness.brokers.rabbitmq_reference import differs
from harness.clients.shorthand import get
from harness.clients.wire_client import Client
from tests.conformance import Made

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


def publish(client: Client, key: str, headers: bytes) -> None:
    header = HEADER_START.pack(60, 0, 0) + b"\x20\x00" + headers
    client.send_raw(method_frame(1, BasicPublish("", key, False, False)) + frame(2, 1, header))


def arguments(table: bytes) -> Table:
    return decode_table(table)[0]


@pytest.mark.parametrize("table", [MANY, LONG_ARRAY], ids=["many-entries", "long-array"])
def test_arguments_may_be_as_large_as_a_frame(client: Client, name: Made, table: bytes) -> None:
    queue = name()
    client.ask(QueueDeclare(queue, False, False, False, False, False, arguments(table)))
    client.ask(QueueDeclare(queue, False, False, False, False, False, arguments(table)))
    client.ask(QueueBind(queue, "amq.fanout", "k", False, arguments(table)))
    client.ask(QueueBind(queue, "amq.headers", "k", False, arguments(table)))
    publish(client, queue, table)
    client.send(get(queue, no_ack=True))
    client.expect_message(BasicGetOk)
    client.ask(QueueDelete(queue, False, False, False))


TABLES = {"many-entries": MANY, "equal-names": EQUAL, "long-array": LONG_ARRAY, "nested": nested(NESTING_MAX)}


@pytest.mark.parametrize("headers", TABLES.values(), ids=list(TABLES))
def test_a_message_keeps_its_headers(client: Client, queue: str, headers: bytes) -> None:
    """They come back byte for byte."""
    client.ask(ConfirmSelect(False))
    publish(client, queue, headers)
    client.receive()
    client.send(get(queue, no_ack=True))
    assert client.expect_message(BasicGetOk).header[HEADER_START.size + 2 :] == headers


@differs("tables are read up to 64 deep, so that none exhausts the stack")
@pytest.mark.parametrize("depth", [NESTING_MAX + 1, 10_000])
def test_headers_may_be_nested_at_will(client: Client, queue: str, depth: int) -> None:
    publish(client, queue, nested(depth))
    client.send(get(queue, no_ack=True))
    client.expect_message(BasicGetOk)
