"""TLS on a client's socket: what plain sockets do, sealed; and whoever comes through the wrong door."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from broker.server.net.tls_context import Security
from broker.session.session_settings import SessionSettings
from broker.wire.frames import PROTOCOL_HEADER
from broker.wire.methods import ConnectionClose, ConnectionCloseOk
from harness.brokers.broker_server import BrokerServer, ServerClient, eventually, serving
from harness.brokers.certificate_authority import Authority
from harness.clients.amqp_peer import Message, publish_frames
from harness.clients.shorthand import get, queue_declare

OUTPUT_BYTES = 128 * 1024
DAMAGED = "decryption failed or bad record mac", "record layer failure"
"""Reasons that OpenSSL gives for a damaged record: 3.0, and 3.6."""


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[BrokerServer]:
    async with serving(tmp_path / "messages", SessionSettings(output_bytes_max=OUTPUT_BYTES)) as server:
        yield server


@pytest.fixture
def security(authority: Authority) -> Security:
    return Security(authority.settings())


def seal(client: ServerClient, context: ssl.SSLContext) -> ServerClient:
    """Have a client speak TLS from now on."""
    client.stream = trio.SSLStream(client.stream, context, server_hostname="localhost")
    return client


async def join(server: BrokerServer, security: Security, context: ssl.SSLContext) -> ServerClient:
    """Somebody who is through both handshakes and has channel 1 open."""
    client = seal(server.client(security), context)
    await client.shake_hands()
    return client


# As on a plain socket


class Pieces(trio.abc.Stream):
    """A stream that sends in pieces, each only when the broker has taken the one before and waits for more."""

    def __init__(self, inner: trio.abc.Stream, size: int) -> None:
        self.inner = inner
        self.size = size

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        for start in range(0, len(data), self.size):
            await self.inner.send_all(data[start : start + self.size])
            await trio.testing.wait_all_tasks_blocked()

    async def wait_send_all_might_not_block(self) -> None:
        await self.inner.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        return await self.inner.receive_some(max_bytes)

    async def aclose(self) -> None:
        await self.inner.aclose()


@pytest.mark.parametrize("size", [1, 5, 1000])
async def test_records_may_come_in_any_pieces(
    server: BrokerServer, security: Security, authority: Authority, size: int
) -> None:
    client = server.client(security)
    client.stream = Pieces(client.stream, size)
    await seal(client, authority.client()).shake_hands()
    await client.ask(queue_declare("q"))
    await client.say(publish_frames(b"body" * 100, key="q"))
    got = await client.ask(get("q"))
    assert isinstance(got, Message)
    assert got.body == b"body" * 100


async def test_the_first_words_may_come_with_the_handshake_s_end(
    server: BrokerServer, security: Security, authority: Authority
) -> None:
    """A client writes its AMQP header right behind the last record of the handshake: one packet for both."""
    client = server.client(security)
    raw, incoming, outgoing = client.stream, ssl.MemoryBIO(), ssl.MemoryBIO()
    theirs = authority.client().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        theirs.do_handshake()
    await raw.send_all(outgoing.read())
    while True:
        incoming.write(await raw.receive_some(1 << 16))
        try:
            theirs.do_handshake()
            break
        except ssl.SSLWantReadError:
            pass
    theirs.write(PROTOCOL_HEADER)
    await raw.send_all(outgoing.read())
    said = b""
    while b"product" not in said:
        incoming.write(await raw.receive_some(1 << 16))
        try:
            said += theirs.read(1 << 16)
        except ssl.SSLWantReadError:
            pass


# Ends


async def test_the_broker_says_that_nothing_more_will_come(
    autojump_clock: trio.testing.MockClock, server: BrokerServer, security: Security, authority: Authority
) -> None:
    """trio raises an error where a stream ends without TLS's own word for it: somebody might have cut it short."""
    client = await join(server, security, authority.client())
    await client.send(ConnectionClose(200, "bye", 0, 0), channel=0)
    assert isinstance(await client.receive(channel=0), ConnectionCloseOk)
    assert await client.stream.receive_some(1) == b""


async def test_damaged_records_cost_only_their_own_connection(
    server: BrokerServer, security: Security, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    client, other = [await join(server, security, authority.client()) for _ in range(2)]
    stream = client.stream
    assert isinstance(stream, trio.SSLStream)
    await stream.transport_stream.send_all(b"\x17\x03\x03\x00\x20" + bytes(32))
    await eventually(lambda: client.connection not in server.registry.connections, "the end")
    assert any(f"TLS failed: {reason}" in caplog.text for reason in DAMAGED)
    assert "unexpectedly" not in caplog.text
    await other.ask(queue_declare("q"))


# The wrong door


async def until_closed(client: ServerClient) -> bytes:
    """Everything that comes until the broker closes the socket."""
    said = b""
    with trio.fail_after(30):
        while True:
            try:
                part = await client.stream.receive_some(1 << 16)
            except trio.BrokenResourceError:
                return said
            if not part:
                return said
            said += part


def hello() -> bytes:
    """Return the beginning of a TLS client."""
    outgoing = ssl.MemoryBIO()
    secured = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        secured.do_handshake()
    return outgoing.read()


NOISE = b"\x80\x2e\x01\0\x02noise noise noise noise noise noise noise noise"


@pytest.mark.parametrize(
    ("tls", "said", "logged"),
    [
        (True, PROTOCOL_HEADER, "a client without TLS on a TLS port; amqp clients use a port of server.listen"),
        (True, b"GET / HTTP/1.1\r\n\r\n", "an HTTP client on an AMQP port with TLS, it sent b'GET / HT'"),
        (True, NOISE, "TLS handshake failed: "),
        (False, hello(), "a TLS client on a plain port; amqps clients use the port of tls.listen"),
        (False, b"GET / HTTP/1.1\r\n\r\n", "an HTTP client on an AMQP port, it sent b'GET / HT'"),
    ],
    ids=["AMQP to TLS", "HTTP to TLS", "noise to TLS", "TLS to AMQP", "HTTP to AMQP"],
)
async def test_who_comes_through_the_wrong_door_is_sent_away_at_once(
    server: BrokerServer, security: Security, caplog: pytest.LogCaptureFixture, tls: bool, said: bytes, logged: str
) -> None:
    """On a plain port the answer is RabbitMQ's: the AMQP header of the version that is spoken here, and the end."""
    client = server.client(security if tls else None)
    await client.say(said)
    answer = await until_closed(client)
    assert b"AMQP" not in answer if tls else answer == PROTOCOL_HEADER
    assert logged in caplog.text
    assert server.registry.connections == {}


@pytest.mark.parametrize("said", [b"", b"\x16\x03\x01\x02\x00\x01"])
async def test_who_does_not_get_on_with_the_handshake_is_sent_away(
    autojump_clock: trio.testing.MockClock, server: BrokerServer, security: Security, said: bytes
) -> None:
    client = server.client(security)
    await client.say(said)
    began = trio.current_time()
    await until_closed(client)
    assert trio.current_time() - began == pytest.approx(server.limits.handshake_timeout)
    assert server.registry.connections == {}


async def refused(server: BrokerServer, security: Security, context: ssl.SSLContext) -> None:
    """A handshake that comes to nothing, on whichever side."""
    client = seal(server.client(security), context)
    with pytest.raises((trio.BrokenResourceError, EOFError)):
        await client.shake_hands()
    await eventually(lambda: server.registry.connections == {}, "the end")


def limited(authority: Authority, ciphers: str = "") -> ssl.SSLContext:
    """A client that speaks no more than TLS 1.2, and with these ciphers."""
    context = authority.client()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    if ciphers:
        context.set_ciphers(ciphers)
    return context


OURS = "ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384"
OTHERS = "ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305"


@pytest.mark.parametrize(
    ("settings", "client", "logged"),
    [
        ({"minimum_version": "TLSv1.3"}, limited, "the client speaks no version from tls.minimum_version up"),
        ({"ciphers": OURS}, partial(limited, ciphers=OTHERS), "the client knows none of our ciphers"),
        (
            {"verify": "peer", "require_certificate": True},
            Authority.client,
            "TLS handshake failed: the client has shown no certificate",
        ),
    ],
    ids=["an old version", "ciphers that are not ours", "no certificate"],
)
async def test_a_handshake_that_is_refused(
    server: BrokerServer,
    authority: Authority,
    caplog: pytest.LogCaptureFixture,
    settings: dict[str, Any],
    client: Callable[[Authority], ssl.SSLContext],
    logged: str,
) -> None:
    await refused(server, Security(authority.settings(**settings)), client(authority))
    assert logged in caplog.text


# Clients' certificates


async def test_a_certificate_that_is_asked_for_may_be_missing_but_not_a_stranger_s(
    server: BrokerServer, authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    security = Security(authority.settings(verify="peer"))
    stranger = Authority(tmp_path).issue("stranger", common_name="guest")
    await refused(server, security, authority.client(*stranger))
    assert "the client's certificate is refused: " in caplog.text
    client = await join(server, security, authority.client())
    secured = client.connection.peer.secured
    assert secured is not None
    assert (secured.asked, secured.certificate) == (True, None)


async def test_who_comes_back_with_a_ticket_is_still_who_it_was(server: BrokerServer, authority: Authority) -> None:
    security = Security(authority.settings(verify="peer"))
    context = authority.client(*authority.issue("returning", common_name="returning"))
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    first = await join(server, security, context)
    assert isinstance(first.stream, trio.SSLStream)
    second = server.client(security)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    secured = context.wrap_bio(incoming, outgoing, server_hostname="localhost", session=first.stream.session)
    while second.connection.peer.secured is None:
        try:
            secured.do_handshake()
        except ssl.SSLWantReadError:
            pass
        await second.stream.send_all(outgoing.read())
        await trio.testing.wait_all_tasks_blocked()
        if second.connection.peer.secured is None:
            incoming.write(await second.stream.receive_some(1 << 16))
    assert secured.session_reused
    assert second.connection.peer.secured == first.connection.peer.secured
