"""What is said of frames that are broken, each in its own way. RabbitMQ 3.10.8 on the wire."""

from __future__ import annotations

import struct

import pytest

from broker.wire.frames import frame, method_frame
from broker.wire.methods import BasicPublish, ConnectionClose, ConnectionCloseOk, QueueDeclare, TxSelect
from broker.wire.properties import HEADER_START
from harness.clients.wire_client import Client

PUBLISH = method_frame(1, BasicPublish("", "nobody", False, False))
DECLARE = QueueDeclare("", False, False, False, False, False, {}).encode()
NOTHING = (0, 0)
OF_PUBLISH = (60, 40)
NO_HEADER = "505 UNEXPECTED_FRAME - expected content header for class 60, got non content header frame instead"


def header(flags: int, properties: bytes = b"", *, size: int = 0, class_id: int = 60, weight: int = 0) -> bytes:
    return frame(2, 1, HEADER_START.pack(class_id, weight, size) + struct.pack(">H", flags) + properties)


def table(content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + content


CASES = {
    "method of no bytes": (frame(1, 1, b""), "501 FRAME_ERROR - type 1, all octets = <<>>: unknown_frame", NOTHING),
    "method of three bytes": (
        frame(1, 1, b"\0\x3c\0"),
        "501 FRAME_ERROR - type 1, all octets = <<0,60,0>>: unknown_frame",
        NOTHING,
    ),
    "the same on channel 0": (
        frame(1, 0, b"\0\x3c\0"),
        "501 FRAME_ERROR - type 1, all octets = <<0,60,0>>: unknown_frame",
        NOTHING,
    ),
    "method cut": (frame(1, 1, DECLARE[:-1]), "501 FRAME_ERROR - cannot decode <<0,0,0,0,0,0,0>>", (50, 10)),
    "method with more": (frame(1, 1, TxSelect().encode() + b"\0"), "501 FRAME_ERROR - cannot decode <<0>>", (90, 10)),
    "method cut on channel 0": (frame(1, 0, DECLARE[:-1]), "541 INTERNAL_ERROR", NOTHING),
    "method with more on channel 0": (
        frame(1, 0, ConnectionClose(200, "", 0, 0).encode() + b"\0"),
        "541 INTERNAL_ERROR",
        NOTHING,
    ),
    "method cut on a channel that is not open": (
        frame(1, 9, DECLARE[:-1]),
        "501 FRAME_ERROR - cannot decode <<0,0,0,0,0,0,0>>",
        (50, 10),
    ),
    "heartbeat with something in it": (
        frame(8, 0, b"abc"),
        '501 FRAME_ERROR - type 8, all octets = <<"abc">>: unknown_frame',
        NOTHING,
    ),
    "body on channel 0": (frame(3, 0, b"x"), '505 UNEXPECTED_FRAME - type 3, all octets = <<"x">>', NOTHING),
    "header on channel 0": (
        frame(2, 0, bytes(12)),
        "505 UNEXPECTED_FRAME - type 2, all octets = <<0,0,0,0,0,0,0,0,0,0,0,0>>",
        NOTHING,
    ),
    "header of two bytes": (
        PUBLISH + frame(2, 1, b"\0\x3c"),
        "501 FRAME_ERROR - type 2, all octets = <<0,60>>: unknown_frame",
        NOTHING,
    ),
    "header without flags": (PUBLISH + frame(2, 1, HEADER_START.pack(60, 0, 0)), "541 INTERNAL_ERROR", NOTHING),
    "header with half of the flags": (
        PUBLISH + frame(2, 1, HEADER_START.pack(60, 0, 0) + b"\0"),
        "541 INTERNAL_ERROR",
        NOTHING,
    ),
    "header with a weight": (PUBLISH + header(0, weight=5), NO_HEADER, OF_PUBLISH),
    "header with a weight before its body": (
        PUBLISH + header(0, weight=5, size=1) + frame(3, 1, b"x"),
        NO_HEADER,
        OF_PUBLISH,
    ),
    "header of another class": (
        PUBLISH + header(0, class_id=50),
        "505 UNEXPECTED_FRAME - expected content header for class 60, got one for class 50 instead",
        OF_PUBLISH,
    ),
    "property cut": (PUBLISH + header(0x8000, b"\5ab"), "541 INTERNAL_ERROR", NOTHING),
    "more than the properties": (PUBLISH + header(0, b"x"), "541 INTERNAL_ERROR", NOTHING),
    "second word of flags": (PUBLISH + header(1, b"\0\0"), "541 INTERNAL_ERROR", NOTHING),
    "unknown type in the headers": (PUBLISH + header(0x2000, table(b"\1aU")), "541 INTERNAL_ERROR", NOTHING),
    "headers that overrun": (PUBLISH + header(0x2000, struct.pack(">I", 100)), "541 INTERNAL_ERROR", NOTHING),
    "value that overruns": (PUBLISH + header(0x2000, table(b"\1aS\0\0\0\x09hi")), "541 INTERNAL_ERROR", NOTHING),
    "name that overruns": (PUBLISH + header(0x2000, table(b"\x09a")), "541 INTERNAL_ERROR", NOTHING),
    "unknown type in an array": (PUBLISH + header(0x2000, table(b"\1aA" + table(b"?"))), "541 INTERNAL_ERROR", NOTHING),
}


@pytest.mark.parametrize("case", CASES)
def test_a_broken_frame_ends_the_connection(client: Client, case: str) -> None:
    wire, said, place = CASES[case]
    client.send_raw(wire)
    close = client.expect(ConnectionClose, channel=0)
    assert f"{close.reply_code} {close.reply_text}" == said
    assert (close.class_id, close.method_id) == place
    client.send(ConnectionCloseOk(), channel=0)
    client.expect_gone()


@pytest.mark.parametrize("weight", [0, 5])
def test_a_weight_is_noticed_within_a_run(client: Client, weight: int) -> None:
    """Many publishes that lie one after the other are handled at once, but not otherwise."""
    whole = PUBLISH + header(0, size=1) + frame(3, 1, b"x")
    client.send_raw(whole * 3 + PUBLISH + header(0, size=1, weight=weight) + frame(3, 1, b"x") + whole)
    if weight:
        assert client.expect(ConnectionClose, channel=0).reply_text.startswith("UNEXPECTED_FRAME")
    else:
        client.ask(TxSelect())
