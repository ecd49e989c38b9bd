"""Target `handshake`: a client that is not in yet says anything; the step it has reached is one of the choices."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from broker.session.login.handshake import ACCEPTED_HEADERS
from broker.wire.field_tables import Field, Table, encode_table
from broker.wire.frames import PROTOCOL_HEADER, frame, method_frame
from broker.wire.method import Method
from broker.wire.methods import (
    ChannelOpen,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionSecureOk,
    ConnectionStartOk,
    ConnectionTuneOk,
)
from tests.security.fuzz.broker_under_test import floor
from tests.security.fuzz.choices import Choices, once_in, pick
from tests.security.fuzz.fuzz_client import FuzzClient
from tests.security.fuzz.grammar import ALL_METHODS, any_table, integer, method_of, name

_HEADERS = (*(8 * (PROTOCOL_HEADER,)), ACCEPTED_HEADERS[1], b"AMQP\x00\x01\x00\x00", b"AMQP\x03\x01\x00\x00", b"HELP")
_PASSWORDS = (b"guest", b"guest", b"", b"wrong", b"\0", b"\xff" * 300)


def _start_ok(choices: Choices) -> Method:
    capabilities = {
        key: Field("t", bool(choices.number(0, 1))) for key in ("authentication_failure_close", "basic.nack")
    }
    properties: Table = {"capabilities": Field("F", capabilities)}
    if once_in(choices, 4):
        properties = any_table(choices) | {"capabilities": Field("F", any_table(choices))}
    mechanism = pick(choices, ("PLAIN", "PLAIN", "AMQPLAIN", "AMQPLAIN", "EXTERNAL", "", "plain"))
    return ConnectionStartOk(properties, mechanism, _response(choices, mechanism), name(choices, ("en_US", "")))


def _response(choices: Choices, mechanism: str) -> bytes:
    if once_in(choices, 4):
        return choices.data(300)
    user, password = pick(choices, (b"guest", b"guest", b"nobody", b"\xff", b"")), pick(choices, _PASSWORDS)
    if mechanism == "AMQPLAIN":
        kind = pick(choices, "SSSSx")
        return encode_table({"LOGIN": Field(kind, user), "PASSWORD": Field("S", password)})[4:]
    return b"\0".join((choices.data(4) if once_in(choices, 4) else b"", user, password))


def _tune_ok(choices: Choices) -> Method:
    if choices.number(0, 1):
        return ConnectionTuneOk(2047, pick(choices, (4096, 131072)), integer(choices, 16))
    return ConnectionTuneOk(integer(choices, 16), integer(choices, 32), integer(choices, 16))


def _open(choices: Choices) -> Method:
    return ConnectionOpen(name(choices, ("/", "/", "/", "none", "")))


_IN_ORDER: tuple[Callable[[Choices], Method], ...] = (_start_ok, _tune_ok, _open)


def _anything(choices: Choices) -> bytes:
    """Return bytes that have no place here."""
    kind = choices.number(0, 4)
    if kind == 0:
        return choices.data(200)
    if kind == 1:
        return frame(integer(choices, 8), integer(choices, 16), choices.data(60))
    if kind == 2:
        return pick(choices, _HEADERS)
    if kind == 3:
        others = (ConnectionClose(200, "", 0, 0), ConnectionCloseOk(), ConnectionSecureOk(b""), ChannelOpen())
        return method_frame(choices.number(0, 1), pick(choices, others))
    payload = method_of(choices, pick(choices, ALL_METHODS)).encode()
    return frame(1, choices.number(0, 1), payload[: choices.number(0, len(payload))])


def _words(choices: Choices) -> list[bytes]:
    said = [pick(choices, _HEADERS) if choices.number(0, 15) else choices.data(40)]
    for step in _IN_ORDER:
        if once_in(choices, 6):
            said.append(_anything(choices))
        if not once_in(choices, 16):
            said.append(method_frame(0, step(choices)))
    if choices.number(0, 1):
        said.append(_anything(choices))
    return said


def _say(client: FuzzClient, choices: Choices, words: list[bytes]) -> None:
    """Piece by piece as they come, or all at once, or cut anywhere."""
    how = choices.number(0, 2)
    if how == 0:
        for piece in words:
            client.say(piece)
        return
    wire = b"".join(words)
    at = choices.number(0, len(wire)) if how == 1 else len(wire)
    client.say(wire[:at])
    client.say(wire[at:])


@contextmanager
def opened() -> Iterator[Callable[[Choices], None]]:
    """The target, ready for inputs."""
    with floor() as place:

        def greet(choices: Choices) -> None:
            client = FuzzClient(place.sessions)
            try:
                _say(client, choices, _words(choices))
            finally:
                place.sweep(client)

        yield greet
