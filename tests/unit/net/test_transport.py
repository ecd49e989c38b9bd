"""One client's socket: who is sent away and when, and what a slow or a greedy client costs everybody else.

Where a test takes `autojump_clock`, seconds pass as soon as everybody waits; so it may say exactly when something
happens.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from time import thread_time

import pytest
import trio
import trio.testing

from broker.server.engine import LONG_TURN_SECONDS
from broker.server.net.heartbeats import beat_forever
from broker.server.net.transport import CLOSE_SECONDS, RECEIVE_BYTES
from broker.session.connection import SILENT_SECONDS
from broker.session.input.incoming_frames import IncomingFrames
from broker.session.session_settings import SessionSettings
from broker.wire.frames import HEARTBEAT, PROTOCOL_HEADER
from broker.wire.methods import (
    BasicAck,
    BasicDeliver,
    BasicPublish,
    ChannelClose,
    ConfirmSelect,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionUnblocked,
    QueueDeclareOk,
)
from harness.brokers.broker_server import BACKLOG, SOCKET_BYTES, Caller, Station, eventually, let_pass, station
from harness.clients.session_client import publish_frames
from harness.clients.shorthand import consume, get, queue_declare
from harness.clients.wire_client import Message
from storage.batch import SealedBatch

OUTPUT_BYTES = 128 * 1024
HELD_BYTES = 256 * 1024


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Station]:
    """A station whose limits are small."""
    settings = SessionSettings(output_bytes_max=OUTPUT_BYTES, held_bytes_max=HELD_BYTES)
    async with station(tmp_path / "messages", settings) as place:
        yield place


async def seconds_until_gone(caller: Caller) -> float:
    """How long it takes until the broker closes the socket."""
    start = trio.current_time()
    await caller.until_gone()
    return trio.current_time() - start


# Setting up


@pytest.mark.parametrize("said", [b"", b"AMQP", PROTOCOL_HEADER, PROTOCOL_HEADER + b"\x01\0\0\0\0"])
async def test_who_does_not_get_on_is_sent_away(
    autojump_clock: trio.testing.MockClock, place: Station, said: bytes
) -> None:
    caller = place.connect()
    await caller.say(said)
    assert await seconds_until_gone(caller) == pytest.approx(place.limits.handshake_timeout)
    assert place.registry.connections == {}


async def test_a_byte_now_and_then_buys_no_time(autojump_clock: trio.testing.MockClock, place: Station) -> None:
    caller = place.connect()
    await caller.say(PROTOCOL_HEADER)
    for _ in range(6):
        await let_pass(1.5)
        await caller.say(b"\x01")
    assert not caller.connection.ended
    assert await seconds_until_gone(caller) == pytest.approx(place.limits.handshake_timeout - 6 * 1.5)


async def test_who_is_in_has_all_the_time_there_is(autojump_clock: trio.testing.MockClock, place: Station) -> None:
    caller = await place.join()
    await let_pass(86400)
    assert isinstance(await caller.ask(queue_declare("q")), QueueDeclareOk)


async def test_a_refused_login_is_followed_by_silence(autojump_clock: trio.testing.MockClock, place: Station) -> None:
    """RabbitMQ waits three seconds, so that guessing is slow, and says nothing."""
    caller = place.connect()
    await caller.say(PROTOCOL_HEADER)
    assert isinstance(await caller.receive(channel=0), ConnectionStart)
    await caller.send(ConnectionStartOk({}, "PLAIN", b"\0guest\0wrong", "en_US"), channel=0)
    assert await seconds_until_gone(caller) == pytest.approx(SILENT_SECONDS)


# Ends


async def test_who_does_not_answer_a_close_is_sent_away(autojump_clock: trio.testing.MockClock, place: Station) -> None:
    caller = await place.join()
    await caller.send(BasicPublish("", "q", False, True))
    await caller.say(publish_frames(b"x", key="q"))
    start = trio.current_time()
    left = await caller.until_gone()
    assert isinstance(left[0], ConnectionClose)
    assert trio.current_time() - start == pytest.approx(CLOSE_SECONDS)


async def test_a_close_that_is_answered_ends_at_once(autojump_clock: trio.testing.MockClock, place: Station) -> None:
    caller = await place.join()
    caller.connection.force_close("enough")
    place.engine.end_turn()
    close = await caller.receive(channel=0)
    assert isinstance(close, ConnectionClose)
    assert (close.reply_code, close.reply_text) == (320, "CONNECTION_FORCED - enough")
    await caller.send(ConnectionCloseOk(), channel=0)
    assert await seconds_until_gone(caller) == 0


async def test_a_client_that_closes_hears_all_it_asked_for(place: Station) -> None:
    caller = await place.join()
    await caller.send(queue_declare("q"))
    await caller.send(ConnectionClose(200, "bye", 0, 0), channel=0)
    left = await caller.until_gone()
    assert [type(item) for item in left] == [ConnectionCloseOk, QueueDeclareOk], "by channel"


@pytest.mark.parametrize("how", ["end", "reset"])
async def test_what_a_lost_client_held_comes_back(place: Station, how: str) -> None:
    caller, other = await place.join(), await place.join()
    await other.ask(queue_declare("q"))
    await other.say(publish_frames(b"x", key="q"))
    assert isinstance(await caller.ask(get("q")), Message)
    await caller.say(publish_frames(b"cut short", key="q")[:-3])
    if how == "reset":
        linger = struct.pack("ii", 1, 0)
        caller.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    await caller.stream.aclose()
    queue = place.core.queue_named("q")
    await eventually(lambda: not queue.unacked, "the message to be given back")
    assert [entry.redelivered for entry in queue.ready_messages.resident()] == [True]


# Heartbeats


@pytest.fixture
async def beating(place: Station) -> Station:
    """A station that sends heartbeats, and listens for them."""
    place.nursery.start_soon(beat_forever, place.transports, place.engine)
    return place


async def test_a_heartbeat_comes_in_half_the_interval(autojump_clock: trio.testing.MockClock, beating: Station) -> None:
    """RabbitMQ sends one when nothing else was sent for half of it."""
    caller = await beating.join(heartbeat=10)
    for second in range(60):
        await let_pass(1)
        await caller.say(HEARTBEAT)
        if second == 29:
            assert isinstance(await caller.ask(queue_declare("q")), QueueDeclareOk)
    await caller.ask(queue_declare("q"))
    assert 10 <= caller.inbox.heartbeats <= 13


async def test_a_silent_client_is_dropped_after_two_intervals(
    autojump_clock: trio.testing.MockClock, beating: Station
) -> None:
    caller = await beating.join(heartbeat=10)
    assert 20 <= await seconds_until_gone(caller) <= 21
    assert caller.inbox.heartbeats == 4
    assert caller.inbox.everything() == [], "not a word"


@pytest.mark.parametrize("said", [HEARTBEAT, publish_frames(b"", key="q"), publish_frames(b"x", key="q")[:1]])
async def test_any_byte_is_a_sign_of_life(
    autojump_clock: trio.testing.MockClock, beating: Station, said: bytes
) -> None:
    caller = await beating.join(heartbeat=10)
    for at in range(len(said)):
        await let_pass(19)
        await caller.say(said[at : at + 1])
    assert not caller.connection.ended


async def test_without_heartbeats_silence_is_no_crime(autojump_clock: trio.testing.MockClock, beating: Station) -> None:
    caller = await beating.join(heartbeat=0)
    await let_pass(1000)
    assert isinstance(await caller.ask(queue_declare("q")), QueueDeclareOk)
    assert caller.inbox.heartbeats == 0


async def test_a_client_we_do_not_listen_to_is_not_called_silent(
    autojump_clock: trio.testing.MockClock, beating: Station
) -> None:
    """While memory is short the broker stops reading publishers: their heartbeats lie unread."""
    caller = await beating.join(heartbeat=10)
    await caller.ask(queue_declare("q"))
    beating.core.broker.alarms.observe(lambda: unblock(beating))
    beating.core.broker.alarms.set("memory", short=True)
    beating.nursery.start_soon(caller.say, publish_frames(b"x" * 60_000, key="q") * 20)
    await let_pass(1000)
    assert not caller.connection.readable
    assert not caller.connection.ended
    beating.core.broker.alarms.set("memory", short=False)
    queue = beating.core.queue_named("q")
    await eventually(lambda: len(queue.ready_messages) == 20, "everything that was sent")
    assert isinstance(await caller.receive(channel=0), ConnectionBlocked)
    assert isinstance(await caller.receive(channel=0), ConnectionUnblocked)


def unblock(place: Station) -> None:
    if not place.core.broker.alarms.raised:
        for connection in list(place.registry.connections):
            connection.unblock()
        place.engine.end_turn()


# Slow readers


async def test_a_consumer_that_does_not_read_is_given_no_more_than_fits(place: Station) -> None:
    """The rest stays in the queue, and comes in order once it reads."""
    slow, publisher = await place.join(), await place.join()
    await publisher.ask(queue_declare("q"))
    await slow.ask(consume("q", "t", no_ack=True))
    count, body = 2000, b"x" * 10_000
    for number in range(count):
        await publisher.say(publish_frames(b"%06d" % number + body, key="q"))
    assert isinstance(await publisher.ask(queue_declare("q")), QueueDeclareOk)
    queue, output = place.core.queue_named("q"), slow.connection.output
    assert output.pending < OUTPUT_BYTES + 300_000, "the limit, and one run of messages"
    assert len(queue.ready_messages) > count / 2
    for number in range(count):
        message = await slow.receive()
        assert isinstance(message, Message)
        assert isinstance(message.method, BasicDeliver)
        assert message.body == b"%06d" % number + body
    assert len(queue.ready_messages) == 0


async def test_a_slow_consumer_does_not_hold_up_the_others(place: Station) -> None:
    slow, fast, publisher = await place.join(), await place.join(), await place.join()
    await publisher.ask(queue_declare("q"))
    await slow.ask(consume("q", "slow", no_ack=True))
    await fast.ask(consume("q", "fast", no_ack=True))
    body, seen = b"x" * 10_000, 0
    for _ in range(500):
        await publisher.say(publish_frames(body, key="q"))
    await publisher.ask(queue_declare("q"))
    queue = place.core.queue_named("q")
    while len(queue.ready_messages) or seen < 400:
        assert isinstance(await fast.receive(), Message)
        seen += 1
    assert seen >= 400
    assert slow.connection.output.pending < OUTPUT_BYTES + 300_000


@pytest.mark.slow
async def test_a_publisher_need_not_read_its_confirms(place: Station) -> None:
    """All it has first, then the answers: neither it nor anybody else is stuck meanwhile."""
    publisher, other = await place.join(), await place.join()
    await other.ask(queue_declare("q", arguments={"x-max-length": 10}))
    await publisher.ask(ConfirmSelect(False))
    count = 50_000
    with trio.fail_after(60):
        for _ in range(count // 1000):
            await publisher.say(publish_frames(b"", key="q") * 1000)
    assert isinstance(await other.ask(queue_declare("q", passive=True)), QueueDeclareOk)
    confirmed = 0
    while confirmed < count:
        answer = await publisher.receive()
        assert isinstance(answer, BasicAck)
        assert answer.delivery_tag == confirmed + 1 or answer.multiple
        confirmed = answer.delivery_tag
    assert confirmed == count


async def test_who_asks_without_reading_is_no_longer_read(place: Station) -> None:
    """Answers to basic.get and returns are not bounded by credit; so the asking has to be."""
    greedy, other = await place.join(), await place.join()
    body = b"x" * 10_000
    sent = 0

    async def ask_on() -> None:
        nonlocal sent
        while sent < 3000:
            await greedy.say(publish_frames(body, key="nobody", mandatory=True))
            sent += 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask_on)
        await eventually(lambda: not greedy.connection.readable, "the reading to stop")
        assert isinstance(await other.ask(queue_declare("q")), QueueDeclareOk)
        assert greedy.connection.output.pending < 4 * OUTPUT_BYTES + 4 * SOCKET_BYTES + 300_000
        assert sent < 3000
        for _ in range(3000):
            message = await greedy.receive()
            assert isinstance(message, Message)
            assert message.body == body


# Greedy writers


@pytest.mark.slow
async def test_a_flood_takes_turns_with_others(place: Station) -> None:
    """What has been received at once is handled in portions: whoever asks meanwhile is answered between two of them."""
    flood, other = await place.join(), await place.join()
    await other.ask(queue_declare("q"))
    frames, count = publish_frames(b"", key="q"), 60_000
    queue = place.core.queue_named("q")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(flood.say, frames * count)
        await eventually(lambda: len(queue.ready_messages), "the flood to begin")
        answer = await other.ask(queue_declare("q", passive=True))
        assert isinstance(answer, QueueDeclareOk)
        assert 0 < answer.message_count < count, "answered between two portions"
    await eventually(lambda: len(queue.ready_messages) == count, "the rest of the flood")


async def test_after_a_long_turn_others_have_several(
    mock_clock: trio.testing.MockClock, place: Station, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Time stands still here, so whoever has to wait waits until it is moved on."""
    slow, other = await place.join(), await place.join()
    turns, receive = [0], IncomingFrames.receive

    def receive_slowly(frames: IncomingFrames, data: bytes) -> None:
        if data == HEARTBEAT:
            turns[0] += 1
            until = thread_time() + 1.1 * LONG_TURN_SECONDS
            while thread_time() < until:
                receive(frames, b"")
        receive(frames, data)

    monkeypatch.setattr(IncomingFrames, "receive", receive_slowly)
    await slow.say(HEARTBEAT)
    await trio.testing.wait_all_tasks_blocked()
    await slow.say(HEARTBEAT)
    for _ in range(5):
        await other.ask(queue_declare("q"))
    await trio.testing.wait_all_tasks_blocked()
    assert turns == [1], "the second is not obeyed yet"
    mock_clock.jump(1.0)
    await trio.testing.wait_all_tasks_blocked()
    assert turns == [2]


async def test_a_publisher_faster_than_the_disk_waits_for_it(place: Station, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bounded number of batches waits for the disk; then the socket is not read. Who does not publish is served."""
    opened, commit = threading.Event(), place.core.store.commit

    def slow_commit(batch: object) -> None:
        assert opened.wait(60), "nobody opened the disk"
        commit(batch)  # type: ignore[arg-type]

    flood, other = await place.join(), await place.join()
    place.core.queue("q")
    await flood.ask(ConfirmSelect(False))
    monkeypatch.setattr(place.core.store, "commit", slow_commit)
    count, confirmed = 300, 0

    async def publish() -> None:
        for _ in range(count):
            await flood.say(publish_frames(b"x" * 100_000, key="q", persistent=True))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(publish)
        await eventually(lambda: place.committer.behind > BACKLOG.batches_max, "batches to wait")
        await trio.testing.wait_all_tasks_blocked()
        assert isinstance(await other.ask(queue_declare("own")), QueueDeclareOk)
        assert place.committer.behind <= BACKLOG.batches_max + 1
        assert len(place.core.queue_named("q").ready_messages) < count / 2
        opened.set()
        while confirmed < count:
            answer = await flood.receive()
            assert isinstance(answer, BasicAck)
            confirmed = answer.delivery_tag
    assert len(place.core.queue_named("q").ready_messages) == count


async def test_without_confirms_little_gathers_behind_a_commit(place: Station, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everybody's confirms come behind it. Once the disk is free the flood goes on, in commits as small."""
    opened, commit, count, size = threading.Event(), place.core.store.commit, 300, 100_000
    written: list[int] = []

    def slow_commit(batch: SealedBatch) -> None:
        assert opened.wait(60), "nobody opened the disk"
        written.append(sum(len(lane.puts) for lane in batch.lanes) * size)
        commit(batch)

    flood = await place.join()
    queue = place.core.queue("q")
    monkeypatch.setattr(place.core.store, "commit", slow_commit)

    async def publish() -> None:
        for _ in range(count):
            await flood.say(publish_frames(bytes(size), key="q", persistent=True))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(publish)
        await eventually(lambda: place.committer.behind, "messages to gather behind a commit")
        await trio.testing.wait_all_tasks_blocked()
        gathered = len(queue.ready_messages) * size
        opened.set()
    await eventually(lambda: sum(written) == count * size, "everything to be written")
    assert gathered <= 2 * (BACKLOG.lazy_bytes_max + RECEIVE_BYTES)
    assert max(written) <= BACKLOG.lazy_bytes_max + RECEIVE_BYTES


async def test_errors_are_heard_in_spite_of_much_output(place: Station) -> None:
    caller = await place.join()
    await caller.ask(queue_declare("q"))
    for _ in range(100):
        await caller.say(publish_frames(b"x" * 5000, key="q"))
    await caller.ask(consume("q", "t", no_ack=True))
    await caller.send(get("not there"))
    while not isinstance(item := await caller.receive(), ChannelClose):
        assert isinstance(item, Message)
    assert item.reply_code == 404
