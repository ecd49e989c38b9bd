"""One client's socket: which sockets are closed and when, and what a slow or a greedy client costs everybody else.

With `autojump_clock` seconds pass as soon as everybody waits, so that a test can assert exact moments.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import trio
import trio.testing

from broker.server.engine import LONG_TURN_SECONDS
from broker.server.net.heartbeats import beat_forever
from broker.server.net.tls_context import Security
from broker.server.net.transport import CLOSE_SECONDS, RECEIVE_BYTES
from broker.session.connection import DISCARD_SECONDS
from broker.session.session_settings import SessionSettings
from broker.wire.frames import HEARTBEAT, PROTOCOL_HEADER, method_frame
from broker.wire.methods import (
    BasicAck,
    BasicDeliver,
    BasicGet,
    BasicPublish,
    BasicReject,
    ChannelClose,
    ConfirmSelect,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionUnblocked,
    QueueDeclareOk,
)
from harness.brokers.broker_server import BACKLOG, BrokerServer, ServerClient, eventually, let_pass, serving
from harness.brokers.certificate_authority import Authority
from harness.brokers.held_disk import HeldDisk
from harness.clients.amqp_peer import Message, publish_frames
from harness.clients.shorthand import consume, get, queue_declare

OUTPUT_BYTES = 128 * 1024
HELD_BYTES = 256 * 1024


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[BrokerServer]:
    """A server whose limits are small."""
    settings = SessionSettings(output_bytes_max=OUTPUT_BYTES, held_bytes_max=HELD_BYTES)
    async with serving(tmp_path / "messages", settings) as server:
        yield server


Anyone = Callable[[], ServerClient]


@pytest.fixture(params=["plain", "TLS"])
def anyone(request: pytest.FixtureRequest, server: BrokerServer, authority: Authority) -> Anyone:
    """A function that makes clients who have said nothing yet: without TLS, and with it."""
    security = Security(authority.settings()) if request.param == "TLS" else None

    def client() -> ServerClient:
        made = server.client(security)
        if security:
            made.stream = trio.SSLStream(made.stream, authority.client(), server_hostname="localhost")
        return made

    return client


async def seconds_until_gone(client: ServerClient) -> float:
    """Return seconds until the broker closes the socket."""
    start = trio.current_time()
    await client.until_gone()
    return trio.current_time() - start


# Setting up


@pytest.mark.parametrize("said", [b"", b"AMQP", PROTOCOL_HEADER, PROTOCOL_HEADER + b"\x01\0\0\0\0"])
async def test_who_does_not_get_on_is_sent_away(
    autojump_clock: trio.testing.MockClock, server: BrokerServer, said: bytes
) -> None:
    """A byte now and then buys no time."""
    client, slow = server.client(), server.client()
    start = trio.current_time()
    await client.say(said)
    await slow.say(PROTOCOL_HEADER)
    for _ in range(6):
        await let_pass(1.5)
        await slow.say(b"\x01")
    assert not slow.connection.ended
    for each in (client, slow):
        await each.until_gone()
        assert trio.current_time() - start == pytest.approx(server.limits.handshake_timeout)
    assert server.registry.connections == {}


# Ends


async def test_who_does_not_answer_a_close_is_sent_away(
    autojump_clock: trio.testing.MockClock, anyone: Anyone, caplog: pytest.LogCaptureFixture
) -> None:
    """The log has one line for that: why it was closed."""
    client = anyone()
    await client.shake_hands()
    await client.send(BasicPublish("", "q", False, True))
    await client.say(publish_frames(b"x", key="q"))
    start = trio.current_time()
    left = await client.until_gone()
    assert isinstance(left[0], ConnectionClose)
    assert trio.current_time() - start == pytest.approx(CLOSE_SECONDS)
    assert len(caplog.messages) == 1


async def test_a_client_that_leaves_without_answering_a_close_is_logged_once(
    anyone: Anyone, caplog: pytest.LogCaptureFixture
) -> None:
    client = anyone()
    await client.shake_hands()
    await client.send(BasicPublish("", "q", False, True))
    await client.say(publish_frames(b"x", key="q"))
    assert isinstance(await client.receive(channel=0), ConnectionClose)
    client.socket.shutdown(socket.SHUT_WR)
    await client.until_gone()
    assert len(caplog.messages) == 1


async def test_a_close_that_is_answered_ends_at_once(
    autojump_clock: trio.testing.MockClock, server: BrokerServer
) -> None:
    """A client that was told goodbye may be closed, and no other: the broker stops, or needs the socket."""
    client, leaving, other = [await server.connect() for _ in range(3)]
    client.connection.force_close("enough")
    server.engine.end_turn()
    close = await client.receive(channel=0)
    assert isinstance(close, ConnectionClose)
    assert (close.reply_code, close.reply_text) == (320, "CONNECTION_FORCED - enough")
    await client.send(ConnectionCloseOk(), channel=0)
    assert await seconds_until_gone(client) == 0
    assert isinstance(await leaving.ask(ConnectionClose(200, "bye", 0, 0), channel=0), ConnectionCloseOk)
    for transport in server.transports:
        transport.dismiss()
    assert await seconds_until_gone(leaving) == 0
    assert isinstance(await other.ask(queue_declare("q")), QueueDeclareOk)


@pytest.mark.parametrize(("heartbeat", "seconds"), [(0, DISCARD_SECONDS), (5, 5), (60, DISCARD_SECONDS)])
async def test_a_client_that_closes_hears_all_it_asked_for(
    autojump_clock: trio.testing.MockClock, server: BrokerServer, heartbeat: int, seconds: float
) -> None:
    """Then it has as long as in RabbitMQ to close its socket; what it sends meanwhile buys no time."""
    client = await server.connect(heartbeat=heartbeat)
    await client.send(queue_declare("q"))
    await client.send(ConnectionClose(200, "bye", 0, 0), channel=0)
    start = trio.current_time()
    await let_pass(seconds / 2)
    await client.say(b"whatever")
    left = await client.until_gone()
    assert trio.current_time() - start == pytest.approx(seconds)
    assert [type(item) for item in left] == [ConnectionCloseOk, QueueDeclareOk], "by channel"


@pytest.mark.parametrize("how", ["end", "reset"])
async def test_what_a_lost_client_held_comes_back(
    server: BrokerServer, anyone: Anyone, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    client, other = anyone(), await server.connect()
    await client.shake_hands()
    await other.ask(queue_declare("q"))
    await other.say(publish_frames(b"x", key="q"))
    assert isinstance(await client.ask(get("q")), Message)
    await client.say(publish_frames(b"cut short", key="q")[:-3])
    if how == "end":
        await client.stream.aclose()
    else:
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.socket.close()
    queue = server.core.queue_named("q")
    await eventually(lambda: not queue.unacked, "the message to be given back")
    assert [entry.redelivered for entry in queue.ready_messages.resident()] == [True]
    assert "client unexpectedly closed TCP connection" in caplog.text


# Heartbeats


@pytest.fixture
async def beating(server: BrokerServer) -> BrokerServer:
    """A server that sends heartbeats, and listens for them."""
    server.nursery.start_soon(beat_forever, server.transports, server.engine)
    return server


async def test_a_heartbeat_comes_in_half_the_interval(
    autojump_clock: trio.testing.MockClock, beating: BrokerServer
) -> None:
    """RabbitMQ sends one when nothing else was sent for half of it. Without heartbeats silence is no crime."""
    client, silent = await beating.connect(heartbeat=10), await beating.connect(heartbeat=0)
    for second in range(60):
        await let_pass(1)
        await client.say(HEARTBEAT)
        if second == 29:
            assert isinstance(await client.ask(queue_declare("q")), QueueDeclareOk)
    await client.ask(queue_declare("q"))
    assert 10 <= client.peer.heartbeats <= 13
    await let_pass(100)
    assert isinstance(await silent.ask(queue_declare("q")), QueueDeclareOk)
    assert silent.peer.heartbeats == 0


async def test_a_silent_client_is_dropped_after_two_intervals(
    autojump_clock: trio.testing.MockClock, beating: BrokerServer, anyone: Anyone
) -> None:
    client = anyone()
    await client.shake_hands(heartbeat=10)
    assert 20 <= await seconds_until_gone(client) <= 21
    assert client.peer.heartbeats == 4
    assert client.peer.everything() == [], "not a word"


@pytest.mark.parametrize("said", [HEARTBEAT, publish_frames(b"", key="q"), publish_frames(b"x", key="q")[:1]])
async def test_any_byte_is_a_sign_of_life(
    autojump_clock: trio.testing.MockClock, beating: BrokerServer, said: bytes
) -> None:
    client = await beating.connect(heartbeat=10)
    for at in range(len(said)):
        await let_pass(19)
        await client.say(said[at : at + 1])
    assert not client.connection.ended


async def test_a_client_we_do_not_listen_to_is_not_called_silent(
    autojump_clock: trio.testing.MockClock, beating: BrokerServer
) -> None:
    """While memory is short the broker stops reading publishers: their heartbeats lie unread."""
    client = await beating.connect(heartbeat=10)
    await client.ask(queue_declare("q"))
    beating.core.broker.alarms.observe(lambda: unblock(beating))
    beating.core.broker.alarms.set("memory", short=True)
    beating.nursery.start_soon(client.say, publish_frames(b"x" * 60_000, key="q") * 20)
    await let_pass(100)
    assert not client.connection.readable
    assert not client.connection.ended
    beating.core.broker.alarms.set("memory", short=False)
    queue = beating.core.queue_named("q")
    await eventually(lambda: len(queue.ready_messages) == 20, "everything that was sent")
    assert isinstance(await client.receive(channel=0), ConnectionBlocked)
    assert isinstance(await client.receive(channel=0), ConnectionUnblocked)


async def test_a_client_that_stands_in_line_is_not_called_silent(
    autojump_clock: trio.testing.MockClock, beating: BrokerServer
) -> None:
    """A client with more to do than a turn allows waits for others; its further input lies unread."""
    client, count = await beating.connect(heartbeat=10), 8000
    await client.ask(queue_declare("q"))
    async with beating.engine.committer.round_robin:
        beating.nursery.start_soon(client.say, publish_frames(b"x", key="q") * count)
        await eventually(
            lambda: beating.engine.committer.round_robin.statistics().tasks_waiting, "the client to stand in line"
        )
        await let_pass(100)
        assert not client.connection.ended
    await eventually(lambda: len(beating.core.queue_named("q").ready_messages) == count, "everything that was sent")


async def test_a_client_that_neither_reads_nor_sends_is_given_up(
    autojump_clock: trio.testing.MockClock, beating: BrokerServer
) -> None:
    """It is not read from while it does not take its answers; but its heartbeats lie unread, more and more of them."""
    client = await beating.connect(heartbeat=10)
    await client.ask(queue_declare("q"))
    beating.core.deposit(beating.core.queue_named("q"), b"x" * 500_000)
    gets = ((BasicGet("q", False), BasicReject(tag, True)) for tag in range(1, 60))
    await client.say(b"".join(method_frame(1, method) for pair in gets for method in pair))
    await eventually(lambda: client.connection.write_blocked, "answers that nobody takes")
    for _ in range(6):
        await let_pass(19)
        await client.say(HEARTBEAT)
        assert not client.connection.ended
    await let_pass(41)
    assert client.connection.ended


def unblock(server: BrokerServer) -> None:
    if not server.core.broker.alarms.raised:
        for connection in list(server.registry.connections):
            connection.unblock()
        server.engine.end_turn()


# Slow readers


async def test_a_consumer_that_does_not_read_is_given_no_more_than_fits(server: BrokerServer, anyone: Anyone) -> None:
    """The rest stays in the queue, and comes in order once it reads."""
    slow, publisher = anyone(), await server.connect()
    await slow.shake_hands()
    await publisher.ask(queue_declare("q"))
    await slow.ask(consume("q", "t", no_ack=True))
    count, body = 500, b"x" * 30_000
    for number in range(count):
        await publisher.say(publish_frames(b"%06d" % number + body, key="q"))
    assert isinstance(await publisher.ask(queue_declare("q")), QueueDeclareOk)
    queue, output = server.core.queue_named("q"), slow.connection.output
    assert output.pending < OUTPUT_BYTES + 300_000, "the limit, and one run of messages"
    assert len(queue.ready_messages) > count / 2
    for number in range(count):
        message = await slow.receive()
        assert isinstance(message, Message)
        assert isinstance(message.method, BasicDeliver)
        assert message.body == b"%06d" % number + body
    assert len(queue.ready_messages) == 0


# Greedy writers


async def test_after_a_long_turn_others_have_several(mock_clock: trio.testing.MockClock, server: BrokerServer) -> None:
    """Time stands still here, so whoever has to wait waits until it is moved on."""
    slow, other = await server.connect(), await server.connect()
    turns, long = server.engine.turn_seconds, 1.1 * LONG_TURN_SECONDS
    server.turn_seconds = long
    await slow.say(HEARTBEAT)
    await trio.testing.wait_all_tasks_blocked()
    server.turn_seconds = 0.0
    await slow.say(HEARTBEAT)
    for _ in range(5):
        await other.ask(queue_declare("q"))
    await trio.testing.wait_all_tasks_blocked()
    assert turns.total == pytest.approx(long)
    server.turn_seconds = long
    mock_clock.jump(1.0)
    await trio.testing.wait_all_tasks_blocked()
    assert turns.total == pytest.approx(2 * long), "the second was obeyed only now"


FLOOD, FLOOD_BYTES = 300, 100_000


async def flood(client: ServerClient) -> None:
    for _ in range(FLOOD):
        await client.say(publish_frames(bytes(FLOOD_BYTES), key="q", persistent=True))


async def test_a_publisher_faster_than_the_disk_waits_for_it(
    server: BrokerServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bounded number of batches waits for the disk; then it is not read. Clients that do not publish now are
    served."""
    client, other, queue = await server.connect(), await server.connect(), server.core.queue("q")
    await client.ask(ConfirmSelect(False))
    await other.say(publish_frames(b"once", key="nobody"))
    await other.ask(queue_declare("own"))
    disk, confirmed = HeldDisk(server.core.store, monkeypatch), 0
    disk.open.clear()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(flood, client)
        await eventually(lambda: server.committer.behind > BACKLOG.batches_max, "batches to wait")
        await trio.testing.wait_all_tasks_blocked()
        for _ in range(3):
            assert isinstance(await other.ask(queue_declare("own")), QueueDeclareOk)
        assert server.committer.behind <= BACKLOG.batches_max + 1
        assert len(queue.ready_messages) < FLOOD / 2
        disk.open.set()
        while confirmed < FLOOD:
            answer = await client.receive()
            assert isinstance(answer, BasicAck)
            confirmed = answer.delivery_tag
    assert len(queue.ready_messages) == FLOOD


async def test_without_confirms_little_gathers_behind_a_commit(
    server: BrokerServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everybody's confirms come behind it. Once the disk is free the flood goes on, in commits as small."""
    client, queue = await server.connect(), server.core.queue("q")
    disk = HeldDisk(server.core.store, monkeypatch)
    disk.open.clear()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(flood, client)
        await eventually(lambda: server.committer.behind, "messages to gather behind a commit")
        await trio.testing.wait_all_tasks_blocked()
        gathered = len(queue.ready_messages) * FLOOD_BYTES
        disk.open.set()
    await eventually(lambda: sum(disk.sizes) == FLOOD, "everything to be written")
    assert gathered <= 2 * (BACKLOG.lazy_bytes_max + RECEIVE_BYTES)
    assert max(disk.sizes) * FLOOD_BYTES <= BACKLOG.lazy_bytes_max + RECEIVE_BYTES


async def test_errors_are_heard_in_spite_of_much_output(server: BrokerServer) -> None:
    client = await server.connect()
    await client.ask(queue_declare("q"))
    for _ in range(100):
        await client.say(publish_frames(b"x" * 5000, key="q"))
    await client.send(consume("q", "t", no_ack=True, no_wait=True), get("not there"))
    while not isinstance(item := await client.receive(), ChannelClose):
        assert isinstance(item, Message)
    assert item.reply_code == 404
