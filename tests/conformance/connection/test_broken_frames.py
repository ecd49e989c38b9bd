"""Answers to broken frames, each broken in its own way. RabbitMQ 3.10.8 on the wire."""

from __future__ import annotations

import struct

import pytest

from broker.wire.frames import frame, method_frame
from broker.wire.methods import BasicPublish, ConnectionClose, ConnectionCloseOk, QueueDeclare, TxSelect
from broker.wire.properties import HEADER_START
from harness.clients.amqp_peer import publish_frames
from harness.clients.shorthand import queue_declare, queue_delete
from harness.clients.wire_client import Client
from tests.conformance import Connect, Made

PUBLISH = method_frame(1, BasicPublish("", "nobody", False, False))
DECLARE = QueueDeclare("", False, False, False, False, False, {}).encode()
NOTHING = (0, 0)
OF_PUBLISH = (60, 40)
NO_HEADER = "505 UNEXPECTED_FRAME - expected content header for class 60, got non content header frame instead"


def header(flags: int, properties: bytes = b"", *, size: int = 0, class_id: int = 60, weight: int = 0) -> bytes:
    return frame(2, 1, HEADER_START.pack(class_id, weight, size) + struct.pack(">H", flags) + properties)


def table(content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + content


UNKNOWN = "501 FRAME_ERROR - type {}: unknown_frame"
NO_BODY = "505 UNEXPECTED_FRAME - expected content body, got non content body frame instead"
NO_METHOD = "505 UNEXPECTED_FRAME - expected method frame, got non method frame instead"
OTHER_CLASS = "505 UNEXPECTED_FRAME - expected content header for class 60, got one for class 50 instead"
CUT = "501 FRAME_ERROR - cannot decode <<0,0,0,0,0,0,0>>"
NO_END = "501 FRAME_ERROR - type 1, all octets = <<0,20,0,10>>: {invalid_frame_end_marker,0}"
TOO_LARGE = "501 FRAME_ERROR - type 3, all octets = <<>>: {frame_too_large,1048576,131064}"
INTERNAL = "541 INTERNAL_ERROR"

CASES = {
    "no frame end": (b"\x01\x00\x01\x00\x00\x00\x04\x00\x14\x00\x0a\x00", NO_END, NOTHING),
    "larger than agreed": (b"\x03\x00\x01\x00\x10\x00\x00", TOO_LARGE, NOTHING),
    "unknown type": (frame(9, 0, b"a"), UNKNOWN.format('9, all octets = <<"a">>'), NOTHING),
    "unknown type and long": (
        frame(9, 1, b"abcdefghijklmnopq"),
        UNKNOWN.format('9, first 16 octets = <<"abcdefghijklmnop">>'),
        NOTHING,
    ),
    "heartbeat on channel 1": (frame(8, 1, b""), "505 UNEXPECTED_FRAME - type 8, all octets = <<>>", NOTHING),
    "heartbeat with something in it": (frame(8, 0, b"abc"), UNKNOWN.format('8, all octets = <<"abc">>'), NOTHING),
    "method of no bytes": (frame(1, 1, b""), UNKNOWN.format("1, all octets = <<>>"), NOTHING),
    "method of three bytes": (frame(1, 1, b"\0\x3c\0"), UNKNOWN.format("1, all octets = <<0,60,0>>"), NOTHING),
    "the same on channel 0": (frame(1, 0, b"\0\x3c\0"), UNKNOWN.format("1, all octets = <<0,60,0>>"), NOTHING),
    "method cut": (frame(1, 1, DECLARE[:-1]), CUT, (50, 10)),
    "method with more": (frame(1, 1, TxSelect().encode() + b"\0"), "501 FRAME_ERROR - cannot decode <<0>>", (90, 10)),
    "method cut on channel 0": (frame(1, 0, DECLARE[:-1]), INTERNAL, NOTHING),
    "method with more on channel 0": (frame(1, 0, ConnectionClose(200, "", 0, 0).encode() + b"\0"), INTERNAL, NOTHING),
    "method cut on a channel that is not open": (frame(1, 9, DECLARE[:-1]), CUT, (50, 10)),
    "body on channel 0": (frame(3, 0, b"x"), '505 UNEXPECTED_FRAME - type 3, all octets = <<"x">>', NOTHING),
    "header on channel 0": (
        frame(2, 0, bytes(12)),
        "505 UNEXPECTED_FRAME - type 2, all octets = <<0,0,0,0,0,0,0,0,0,0,0,0>>",
        NOTHING,
    ),
    "body alone": (frame(3, 1, b"x"), NO_METHOD, NOTHING),
    "header alone": (header(0), NO_METHOD, NOTHING),
    "method for a header": (PUBLISH + frame(1, 1, DECLARE), NO_HEADER, OF_PUBLISH),
    "body for a header": (PUBLISH + frame(3, 1, b"x"), NO_HEADER, OF_PUBLISH),
    "method for a body": (PUBLISH + header(0, size=3) + frame(1, 1, DECLARE), NO_BODY, OF_PUBLISH),
    "header of two bytes": (PUBLISH + frame(2, 1, b"\0\x3c"), UNKNOWN.format("2, all octets = <<0,60>>"), NOTHING),
    "header without flags": (PUBLISH + frame(2, 1, HEADER_START.pack(60, 0, 0)), INTERNAL, NOTHING),
    "header with half of the flags": (PUBLISH + frame(2, 1, HEADER_START.pack(60, 0, 0) + b"\0"), INTERNAL, NOTHING),
    "header with a weight": (PUBLISH + header(0, weight=5), NO_HEADER, OF_PUBLISH),
    "header with a weight before its body": (
        PUBLISH + header(0, weight=5, size=1) + frame(3, 1, b"x"),
        NO_HEADER,
        OF_PUBLISH,
    ),
    "header of another class": (PUBLISH + header(0, class_id=50), OTHER_CLASS, OF_PUBLISH),
    "property cut": (PUBLISH + header(0x8000, b"\5ab"), INTERNAL, NOTHING),
    "more than the properties": (PUBLISH + header(0, b"x"), INTERNAL, NOTHING),
    "second word of flags": (PUBLISH + header(1, b"\0\0"), INTERNAL, NOTHING),
    "unknown type in the headers": (PUBLISH + header(0x2000, table(b"\1aU")), INTERNAL, NOTHING),
    "headers that overrun": (PUBLISH + header(0x2000, struct.pack(">I", 100)), INTERNAL, NOTHING),
    "value that overruns": (PUBLISH + header(0x2000, table(b"\1aS\0\0\0\x09hi")), INTERNAL, NOTHING),
    "name that overruns": (PUBLISH + header(0x2000, table(b"\x09a")), INTERNAL, NOTHING),
    "unknown type in an array": (PUBLISH + header(0x2000, table(b"\1aA" + table(b"?"))), INTERNAL, NOTHING),
}


@pytest.mark.parametrize("case", CASES)
def test_a_broken_frame_ends_the_connection(client: Client, case: str) -> None:
    """The answer to the close is found behind what the client goes on to send."""
    wire, said, place = CASES[case]
    client.send_raw(wire + publish_frames(b"ignored" * 50, key="nobody") * 20)
    close = client.expect(ConnectionClose, channel=0)
    assert f"{close.reply_code} {close.reply_text}" == said
    assert (close.class_id, close.method_id) == place
    client.send(ConnectionCloseOk(), channel=0)
    client.expect_gone()


def test_what_follows_an_error_of_the_connection_counts_no_more(client: Client, connect: Connect, name: Made) -> None:
    other, queue = connect(), name()
    other.ask(queue_declare(queue))
    client.send_raw(frame(3, 1, b"x") + publish_frames(b"ignored", key=queue) * 20)
    client.expect(ConnectionClose, channel=0)
    client.send(ConnectionCloseOk(), channel=0)
    client.expect_gone()
    assert other.ask(queue_delete(queue)).message_count == 0


@pytest.mark.parametrize("weight", [0, 5])
def test_a_weight_is_noticed_within_a_run(client: Client, weight: int) -> None:
    """Many publishes that lie one after the other are handled at once, but not otherwise."""
    whole = PUBLISH + header(0, size=1) + frame(3, 1, b"x")
    client.send_raw(whole * 3 + PUBLISH + header(0, size=1, weight=weight) + frame(3, 1, b"x") + whole)
    if weight:
        assert client.expect(ConnectionClose, channel=0).reply_text.startswith("UNEXPECTED_FRAME")
    else:
        client.ask(TxSelect())
