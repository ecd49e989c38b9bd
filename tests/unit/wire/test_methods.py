"""The generated methods: literal bytes, round trips of every one, and tables without gaps."""

from __future__ import annotations

import inspect

import pytest

from broker.wire import methods
from broker.wire.amqp_errors import DecodeError, reply_text
from broker.wire.constants import ReplyCode
from broker.wire.field_tables import Field
from broker.wire.method import Method
from broker.wire.methods import CLIENT_METHODS, DECODERS, HAS_CONTENT, METHOD_NAMES, BasicAck, TxCommit, TxSelect

ALL_METHODS = [item for item in vars(methods).values() if inspect.isclass(item) and issubclass(item, Method)]
ALL_METHODS.remove(Method)

VECTORS: list[tuple[Method, bytes]] = [
    (methods.ConnectionTune(2047, 131072, 60), b"\x00\x0a\x00\x1e\x07\xff\x00\x02\x00\x00\x00\x3c"),
    (methods.ConnectionSecureOk(b"\x00u\x00p"), b"\x00\x0a\x00\x15\x00\x00\x00\x04\x00u\x00p"),
    (methods.ConnectionOpen("/"), b"\x00\x0a\x00\x28\x01/\x00\x00"),
    (methods.ChannelOpen(), b"\x00\x14\x00\x0a\x00"),
    (methods.ExchangeDeclareOk(), b"\x00\x28\x00\x0b"),
    (
        methods.QueueDeclare("q", False, True, False, True, True, {"x": Field("t", True)}),
        b"\x00\x32\x00\x0a\x00\x00\x01q\x1a\x00\x00\x00\x04\x01xt\x01",
    ),
    (methods.QueueUnbind("q", "e", "k", {}), b"\x00\x32\x00\x32\x00\x00\x01q\x01e\x01k\x00\x00\x00\x00"),
    (methods.BasicQos(0, 10, True), b"\x00\x3c\x00\x0a\x00\x00\x00\x00\x00\x0a\x01"),
    (methods.BasicPublish("ex", "key", True, False), b"\x00\x3c\x00\x28\x00\x00\x02ex\x03key\x01"),
    (
        methods.BasicDeliver("c", 258, True, "", "q"),
        b"\x00\x3c\x00\x3c\x01c\x00\x00\x00\x00\x00\x00\x01\x02\x01\x00\x01q",
    ),
    (BasicAck(1, True), b"\x00\x3c\x00\x50\x00\x00\x00\x00\x00\x00\x00\x01\x01"),
    (methods.BasicNack(1, False, True), b"\x00\x3c\x00\x78\x00\x00\x00\x00\x00\x00\x00\x01\x02"),
    (methods.ConfirmSelect(True), b"\x00\x55\x00\x0a\x01"),
    (TxSelect(), b"\x00\x5a\x00\x0a"),
]


@pytest.mark.parametrize(("method", "wire"), VECTORS, ids=[method.NAME for method, _ in VECTORS])
def test_known_bytes(method: Method, wire: bytes) -> None:
    """The layouts of the 0-9-1 specification's XML, written out by hand."""
    assert method.encode() == wire
    assert DECODERS[method.KEY](wire) == method


@pytest.mark.pure_core("a compiled function does not say what types its arguments have")
@pytest.mark.parametrize("kind", ALL_METHODS, ids=lambda kind: kind.NAME)
def test_every_method_survives_the_wire(kind: type[Method]) -> None:
    """Whole: RabbitMQ 3.10.8 (decode_method_fields) takes neither missing nor additional bytes."""
    kinds = dict(inspect.get_annotations(kind.__init__))
    values = {"str": "\udcff{}", "bytes": b"\0\xff", "Table": {"t": Field("t", True)}}
    arguments = {
        name: number % 2 == 1 if kinds[name] == "bool" else values.get(kinds[name], 1 + number)
        for number, name in enumerate(kind.__slots__)
    }
    method = kind(**arguments)
    wire = method.encode()
    assert int.from_bytes(wire[:4], "big") == method.KEY
    assert DECODERS[method.KEY](wire) == method
    for broken in (wire + b"\x00", *(wire[:end] for end in range(4, len(wire)))):
        with pytest.raises(DecodeError):
            DECODERS[method.KEY](broken)


def test_the_tables_have_no_gaps() -> None:
    """Methods from clients are the chassis elements of the XML; two methods go both ways in RabbitMQ's dialect.

    Methods of two kinds are never equal.
    """
    keys = {method.KEY for method in ALL_METHODS}
    assert len(keys) == len(ALL_METHODS) == 66
    assert DECODERS.keys() == METHOD_NAMES.keys() == keys
    assert all(method.KEY == method.CLASS_ID << 16 | method.METHOD_ID for method in ALL_METHODS)
    assert {method for method in ALL_METHODS if method.HAS_CONTENT} == HAS_CONTENT
    with_content = {METHOD_NAMES[method.KEY] for method in HAS_CONTENT}
    assert with_content == {"basic.publish", "basic.return", "basic.deliver", "basic.get-ok"}
    assert set(ALL_METHODS) >= CLIENT_METHODS
    names = {method.NAME for method in CLIENT_METHODS}
    assert {"basic.publish", "basic.cancel-ok", "channel.flow", "connection.update-secret", "access.request"} <= names
    assert not names & {"basic.deliver", "basic.return", "queue.declare-ok", "connection.start", "connection.blocked"}
    assert TxSelect() == TxSelect() != TxCommit()
    assert repr(BasicAck(1, True)) == "BasicAck(delivery_tag=1, multiple=True)"
    assert len({BasicAck(1, True), BasicAck(1, True), BasicAck(2, True)}) == 2


def test_a_long_reply_text_is_cut_to_a_short_string() -> None:
    """RabbitMQ 3.10.8 on the wire: 255 bytes at most, the last three of a longer one are dots."""
    assert reply_text(ReplyCode.NOT_FOUND, "no queue 'q'") == "NOT_FOUND - no queue 'q'"
    cut = reply_text(ReplyCode.NOT_FOUND, "ä" * 300).encode()
    assert 254 <= len(cut) <= 255
    assert cut.decode().endswith("ä...")
    assert reply_text(ReplyCode.NOT_FOUND, "a" * 300) == f"NOT_FOUND - {'a' * 240}..."
    assert reply_text(ReplyCode.NOT_FOUND, "a" * 243) == f"NOT_FOUND - {'a' * 243}"
