"""TLS on a client's socket: what plain sockets do, sealed; and whoever comes through the wrong door."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio
import trio.testing

from broker.server.net.tls_context import Security
from broker.server.net.tls_transport import SecureTransport
from broker.server.net.transport import CLOSE_SECONDS
from broker.session.connection import SILENT_SECONDS
from broker.session.session_settings import SessionSettings
from broker.wire.frames import HEARTBEAT, PROTOCOL_HEADER
from broker.wire.methods import BasicDeliver, ConnectionClose, ConnectionCloseOk, ConnectionStart, ConnectionStartOk
from harness.brokers.broker_server import Caller, Station, eventually, let_pass, station
from harness.brokers.certificate_authority import Authority
from harness.clients.session_client import publish_frames
from harness.clients.shorthand import consume, get, queue_declare
from harness.clients.wire_client import Message

OUTPUT_BYTES = 128 * 1024
MEBIBYTE = 1 << 20


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Station]:
    async with station(tmp_path / "messages", SessionSettings(output_bytes_max=OUTPUT_BYTES)) as place:
        yield place


@pytest.fixture
def security(authority: Authority) -> Security:
    return Security(authority.settings())


def seal(caller: Caller, context: ssl.SSLContext) -> Caller:
    """Have a caller speak TLS from now on."""
    caller.stream = trio.SSLStream(caller.stream, context, server_hostname="localhost")
    return caller


async def join(place: Station, security: Security, context: ssl.SSLContext, *, heartbeat: int = 0) -> Caller:
    """Somebody who is through both handshakes and has channel 1 open."""
    caller = seal(place.connect(security), context)
    await caller.shake_hands(heartbeat=heartbeat)
    return caller


# As on a plain socket


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_large_messages_go_both_ways(
    place: Station, security: Security, authority: Authority, version: ssl.TLSVersion
) -> None:
    context = authority.client()
    context.minimum_version = context.maximum_version = version
    caller = await join(place, security, context)
    await caller.ask(queue_declare("q"))
    bodies = [bytes([number]) * size for number, size in enumerate([0, 1, 16384, 131072, MEBIBYTE, 3 * MEBIBYTE])]
    await caller.say(b"".join(publish_frames(body, key="q") for body in bodies))
    for body in bodies:
        got = await caller.ask(get("q", no_ack=True))
        assert isinstance(got, Message)
        assert got.body == body
    secured = caller.connection.peer.secured
    assert secured is not None
    assert secured.version == {"TLSv1_2": "TLSv1.2", "TLSv1_3": "TLSv1.3"}[version.name]
    assert secured.certificate is None


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
    place: Station, security: Security, authority: Authority, size: int
) -> None:
    caller = place.connect(security)
    caller.stream = Pieces(caller.stream, size)
    await seal(caller, authority.client()).shake_hands()
    await caller.ask(queue_declare("q"))
    await caller.say(publish_frames(b"body" * 100, key="q"))
    got = await caller.ask(get("q"))
    assert isinstance(got, Message)
    assert got.body == b"body" * 100


async def test_the_first_words_may_come_with_the_handshake_s_end(
    place: Station, security: Security, authority: Authority
) -> None:
    """A client writes its AMQP header right behind the last record of the handshake: one packet for both."""
    caller = place.connect(security)
    raw, incoming, outgoing = caller.stream, ssl.MemoryBIO(), ssl.MemoryBIO()
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


async def test_a_slow_reader_gets_everything_in_order_and_bounds_what_waits(
    place: Station, security: Security, authority: Authority
) -> None:
    slow, other = [await join(place, security, authority.client()) for _ in range(2)]
    await other.ask(queue_declare("q"))
    await slow.ask(consume("q", no_ack=True))
    count, body = 200, b"x" * 20_000
    for number in range(count):
        await other.say(publish_frames(b"%d " % number + body, key="q"))
    await other.ask(queue_declare("other"))
    assert slow.connection.output.pending < 2 * OUTPUT_BYTES
    for number in range(count):
        message = await slow.receive()
        assert isinstance(message, Message)
        assert isinstance(message.method, BasicDeliver)
        assert message.body == b"%d " % number + body


async def test_heartbeats(
    autojump_clock: trio.testing.MockClock, place: Station, security: Security, authority: Authority
) -> None:
    caller = await join(place, security, authority.client(), heartbeat=2)
    transport = place.transports[0]
    assert isinstance(transport, SecureTransport)
    for _ in range(6):
        await let_pass(1)
        transport.beat(trio.current_time())
        place.engine.end_turn()
        await caller.say(HEARTBEAT)
    await caller.ask(queue_declare("q"))
    assert caller.inbox.heartbeats >= 5
    for _ in range(5):
        await let_pass(1)
        transport.beat(trio.current_time())
    assert caller.connection.ended, "silent for two intervals"


async def test_a_refused_login_is_followed_by_silence(
    autojump_clock: trio.testing.MockClock, place: Station, security: Security, authority: Authority
) -> None:
    caller = seal(place.connect(security), authority.client())
    await caller.say(PROTOCOL_HEADER)
    start = await caller.receive(channel=0)
    assert isinstance(start, ConnectionStart)
    assert start.mechanisms == b"PLAIN AMQPLAIN"
    await caller.send(ConnectionStartOk({}, "PLAIN", b"\0guest\0wrong", "en_US"), channel=0)
    began = trio.current_time()
    assert await caller.until_gone() == []
    assert trio.current_time() - began == pytest.approx(SILENT_SECONDS)


# Ends


async def test_the_broker_says_that_nothing_more_will_come(
    place: Station, security: Security, authority: Authority
) -> None:
    """trio raises an error where a stream ends without TLS's own word for it: somebody might have cut it short."""
    caller = await join(place, security, authority.client())
    await caller.send(ConnectionClose(200, "bye", 0, 0), channel=0)
    assert isinstance(await caller.receive(channel=0), ConnectionCloseOk)
    assert await caller.stream.receive_some(1) == b""


@pytest.mark.parametrize("how", ["in order", "cut off"])
async def test_what_a_lost_client_held_comes_back(
    place: Station, security: Security, authority: Authority, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    caller, other = [await join(place, security, authority.client()) for _ in range(2)]
    await other.ask(queue_declare("q"))
    await other.say(publish_frames(b"x", key="q"))
    await other.ask(queue_declare("q"))
    assert isinstance(await caller.ask(get("q")), Message)
    if how == "in order":
        await caller.stream.aclose()
    else:
        caller.socket.close()
    await eventually(lambda: caller.connection not in place.registry.connections, "the broker to see it")
    assert isinstance(await other.ask(get("q")), Message)
    assert "client unexpectedly closed TCP connection" in caplog.text


async def test_who_does_not_answer_a_close_is_sent_away(
    autojump_clock: trio.testing.MockClock, place: Station, security: Security, authority: Authority
) -> None:
    caller = await join(place, security, authority.client())
    caller.connection.force_close("enough")
    place.engine.end_turn()
    assert isinstance(await caller.receive(channel=0), ConnectionClose)
    began = trio.current_time()
    assert await caller.stream.receive_some(1) == b""
    assert trio.current_time() - began == pytest.approx(CLOSE_SECONDS)


async def test_damaged_records_cost_only_their_own_connection(
    place: Station, security: Security, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    caller, other = [await join(place, security, authority.client()) for _ in range(2)]
    stream = caller.stream
    assert isinstance(stream, trio.SSLStream)
    await stream.transport_stream.send_all(b"\x17\x03\x03\x00\x20" + bytes(32))
    await eventually(lambda: caller.connection not in place.registry.connections, "the end")
    assert "TLS failed: decryption failed or bad record mac" in caplog.text
    assert "unexpectedly" not in caplog.text
    await other.ask(queue_declare("q"))


# The wrong door


async def until_closed(caller: Caller) -> bytes:
    """Everything that comes until the broker closes the socket."""
    said = b""
    with trio.fail_after(30):
        while True:
            try:
                part = await caller.stream.receive_some(1 << 16)
            except trio.BrokenResourceError:
                return said
            if not part:
                return said
            said += part


@pytest.mark.parametrize(
    ("said", "logged"),
    [
        (PROTOCOL_HEADER, "a client without TLS on a TLS port; amqp clients use a port of server.listen"),
        (b"GET / HTTP/1.1\r\n\r\n", "an HTTP client on an AMQP port with TLS, it said b'GET / HT'"),
        (b"\x80\x2e\x01\0\x02noise noise noise noise noise noise noise noise", "TLS handshake failed: "),
    ],
)
async def test_who_does_not_speak_tls_is_sent_away_at_once(
    place: Station, security: Security, caplog: pytest.LogCaptureFixture, said: bytes, logged: str
) -> None:
    caller = place.connect(security)
    await caller.say(said)
    assert b"AMQP" not in await until_closed(caller)
    assert logged in caplog.text
    assert place.registry.connections == {}


@pytest.mark.parametrize(
    ("said", "logged"),
    [
        (b"", "a TLS client on a plain port; amqps clients use the port of tls.listen"),
        (b"GET / HTTP/1.1\r\n\r\n", "an HTTP client on an AMQP port, it said b'GET / HT'"),
    ],
)
async def test_who_speaks_tls_on_a_plain_port_is_told_the_protocol(
    place: Station, caplog: pytest.LogCaptureFixture, said: bytes, logged: str
) -> None:
    """The answer is RabbitMQ's: the AMQP header of the version that is spoken here, and the end."""
    caller, outgoing = place.connect(), ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    await caller.say(said or outgoing.read())
    assert await until_closed(caller) == PROTOCOL_HEADER
    assert logged in caplog.text


@pytest.mark.parametrize("said", [b"", b"\x16\x03\x01\x02\x00\x01"])
async def test_who_does_not_get_on_with_the_handshake_is_sent_away(
    autojump_clock: trio.testing.MockClock, place: Station, security: Security, said: bytes
) -> None:
    caller = place.connect(security)
    await caller.say(said)
    began = trio.current_time()
    await until_closed(caller)
    assert trio.current_time() - began == pytest.approx(place.limits.handshake_timeout)
    assert place.registry.connections == {}


async def refused(place: Station, security: Security, context: ssl.SSLContext) -> None:
    """A handshake that comes to nothing, on whichever side."""
    caller = seal(place.connect(security), context)
    with pytest.raises((trio.BrokenResourceError, EOFError)):
        await caller.shake_hands()
    await eventually(lambda: place.registry.connections == {}, "the end")


async def test_an_old_version_is_refused(
    place: Station, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    context = authority.client()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    await refused(place, Security(authority.settings(minimum_version="TLSv1.3")), context)
    assert "the client speaks no version from tls.minimum_version up" in caplog.text


async def test_ciphers_that_are_not_ours(
    place: Station, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    context = authority.client()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305")
    ours = "ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384"
    await refused(place, Security(authority.settings(ciphers=ours)), context)
    assert "the client knows none of our ciphers" in caplog.text


# Clients' certificates


async def test_a_certificate_that_is_asked_for_may_be_missing(place: Station, authority: Authority) -> None:
    caller = await join(place, Security(authority.settings(verify="peer")), authority.client())
    secured = caller.connection.peer.secured
    assert secured is not None
    assert (secured.asked, secured.certificate) == (True, None)


async def test_a_certificate_that_is_demanded_may_not(
    place: Station, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    await refused(place, Security(authority.settings(verify="peer", require_certificate=True)), authority.client())
    assert "TLS handshake failed: the client has shown no certificate" in caplog.text


async def test_a_stranger_s_certificate_is_refused(
    place: Station, authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stranger = Authority(tmp_path).issue("stranger", common_name="guest")
    await refused(place, Security(authority.settings(verify="peer")), authority.client(*stranger))
    assert "the client's certificate is refused: " in caplog.text


async def test_who_comes_back_with_a_ticket_is_still_who_it_was(place: Station, authority: Authority) -> None:
    security = Security(authority.settings(verify="peer"))
    context = authority.client(*authority.issue("returning", common_name="returning"))
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    first = await join(place, security, context)
    assert isinstance(first.stream, trio.SSLStream)
    second = place.connect(security)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(incoming, outgoing, server_hostname="localhost", session=first.stream.session)
    while second.connection.peer.secured is None:
        try:
            client.do_handshake()
        except ssl.SSLWantReadError:
            pass
        await second.stream.send_all(outgoing.read())
        await trio.testing.wait_all_tasks_blocked()
        if second.connection.peer.secured is None:
            incoming.write(await second.stream.receive_some(1 << 16))
    assert client.session_reused
    assert second.connection.peer.secured == first.connection.peer.secured
