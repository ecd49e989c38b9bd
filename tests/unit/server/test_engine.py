"""Where turns end: what waits for time, for the disk or for room is done when it may be, without anybody's bytes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import lmdb
import pytest

from broker.session.session_settings import SessionSettings
from broker.wire.methods import BasicAck, BasicGetEmpty, ConfirmSelect, QueueDeclareOk
from harness.brokers.broker_core import SMALL, Core
from harness.brokers.broker_server import BrokerServer, eventually, serving
from harness.clients.amqp_peer import Message, publish_frames
from harness.clients.shorthand import ack, consume, get, queue_declare
from storage.messages.keys import SEGMENT


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[BrokerServer]:
    async with serving(tmp_path / "messages") as server:
        yield server


def on_disk(server: BrokerServer) -> int:
    return sum(state.messages for lanes in server.core.store.lanes().values() for state in lanes.values())


async def test_a_confirm_is_there_when_the_message_is_on_disk(server: BrokerServer) -> None:
    client = await server.connect()
    server.core.queue("q")
    await client.ask(ConfirmSelect(False))
    for tag in range(1, 6):
        await client.say(publish_frames(b"x", key="q", persistent=True))
        assert await client.receive() == BasicAck(tag, False)
        assert on_disk(server) == tag


async def test_what_nobody_waits_for_reaches_the_disk_a_little_later(server: BrokerServer) -> None:
    client = await server.connect()
    server.core.queue("q")
    await client.say(publish_frames(b"x", key="q", persistent=True) * 3)
    await eventually(lambda: on_disk(server) == 3, "the messages on disk")
    await client.ask(get("q"))
    await client.send(ack(1))
    await eventually(lambda: on_disk(server) == 2, "the acknowledgement on disk")


async def test_messages_expire_without_anybody_asking(server: BrokerServer) -> None:
    client = await server.connect()
    await client.ask(queue_declare("dl"))
    arguments = {"x-message-ttl": 20, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dl"}
    await client.ask(queue_declare("q", arguments=arguments))
    await client.send(consume("dl", "t", no_ack=True))
    await client.receive()
    await client.say(publish_frames(b"x", key="q"))
    await eventually(lambda: server.core.queue_named("q").ready_messages.resident(), "the message in its queue")
    server.core.clock.time += 1000
    letter = await client.receive()
    assert isinstance(letter, Message)
    assert letter.body == b"x"


async def test_a_timer_that_is_due_sooner_than_all_others_is_not_overslept(server: BrokerServer) -> None:
    called: list[str] = []
    timers, now = server.core.broker.timers, server.core.clock.now()
    timers.at(now + 3_600_000, lambda: called.append("in an hour"))
    await (await server.connect()).ask(queue_declare("q"))
    timers.at(now, lambda: called.append("now"))
    await eventually(lambda: called, "the timer")
    assert called == ["now"]


async def test_a_timer_that_fails_stops_nothing(server: BrokerServer, caplog: pytest.LogCaptureFixture) -> None:
    called: list[int] = []
    now = server.core.clock.now()

    def fail() -> None:
        raise ValueError("on purpose")

    server.core.broker.timers.at(now, fail)
    server.core.broker.timers.at(now, lambda: called.append(1))
    await eventually(lambda: called, "the timer behind it")
    assert "a timer failed" in caplog.text


async def test_one_call_delivers_more_than_fits_at_once(tmp_path: Path) -> None:
    """A queue far larger than the output is delivered to its end, with nothing coming from anybody."""
    async with serving(tmp_path / "messages", SessionSettings(output_bytes_max=8192)) as server:
        client = await server.connect()
        await client.ask(queue_declare("q"))
        await client.say(publish_frames(b"x" * 1000, key="q") * 500)
        await client.send(consume("q", "t"))
        await client.receive()
        for _ in range(500):
            assert isinstance(await client.receive(), Message)


async def test_messages_that_cannot_be_read_are_reported_and_no_longer_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    core = Core(tmp_path / "messages", SMALL)
    core.deposit(core.queue("q"), *(b"%d" % number for number in range(10)))
    core.commit()
    definitions = core.definitions
    core.close()
    with lmdb.open(str(tmp_path / "messages"), max_dbs=0) as environment, environment.begin(write=True) as txn:
        cursor = txn.cursor()
        assert cursor.set_range(SEGMENT)
        key, value = bytes(cursor.key()), bytearray(cursor.value())
        value[-1] ^= 0xFF
        txn.put(key, bytes(value))
    async with serving(tmp_path / "messages", definitions=definitions) as server:
        client = await server.connect()
        bodies = []
        while isinstance(item := await client.ask(get("q", no_ack=True)), Message):
            bodies.append(item.body)
        assert isinstance(item, BasicGetEmpty)
        assert bodies == [b"%d" % number for number in range(9)]
        assert await client.ask(queue_declare("q", durable=True, passive=True)) == QueueDeclareOk("q", 0, 0)
        await eventually(lambda: on_disk(server) == 0, "the counters to agree")
    assert "1 messages of queue 'q' cannot be read and were set aside" in caplog.text
