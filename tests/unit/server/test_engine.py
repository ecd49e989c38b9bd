"""Where turns end: what waits for time, for the disk or for room is done when it may be, without anybody's bytes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import lmdb
import pytest

from broker.session.session_settings import SessionSettings
from broker.wire.methods import BasicAck, BasicGetEmpty, ConfirmSelect, QueueDeclareOk
from harness.brokers.broker_core import SMALL, Core
from harness.brokers.broker_server import Station, eventually, station
from harness.clients.session_client import publish_frames
from harness.clients.shorthand import ack, consume, get, queue_declare
from harness.clients.wire_client import Message
from storage.messages.keys import SEGMENT


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Station]:
    async with station(tmp_path / "messages") as place:
        yield place


def on_disk(place: Station) -> int:
    return sum(state.messages for lanes in place.core.store.lanes().values() for state in lanes.values())


async def test_a_confirm_is_there_when_the_message_is_on_disk(place: Station) -> None:
    caller = await place.join()
    place.core.queue("q")
    await caller.ask(ConfirmSelect(False))
    for tag in range(1, 6):
        await caller.say(publish_frames(b"x", key="q", persistent=True))
        assert await caller.receive() == BasicAck(tag, False)
        assert on_disk(place) == tag


async def test_what_nobody_waits_for_reaches_the_disk_a_little_later(place: Station) -> None:
    caller = await place.join()
    place.core.queue("q")
    await caller.say(publish_frames(b"x", key="q", persistent=True) * 3)
    await eventually(lambda: on_disk(place) == 3, "the messages on disk")
    await caller.ask(get("q"))
    await caller.send(ack(1))
    await eventually(lambda: on_disk(place) == 2, "the acknowledgement on disk")


async def test_messages_expire_without_anybody_asking(place: Station) -> None:
    caller = await place.join()
    await caller.ask(queue_declare("dl"))
    arguments = {"x-message-ttl": 20, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dl"}
    await caller.ask(queue_declare("q", arguments=arguments))
    await caller.send(consume("dl", "t", no_ack=True))
    await caller.receive()
    await caller.say(publish_frames(b"x", key="q"))
    await eventually(lambda: place.core.queue_named("q").ready_messages.resident(), "the message in its queue")
    place.core.clock.time += 1000
    letter = await caller.receive()
    assert isinstance(letter, Message)
    assert letter.body == b"x"


async def test_a_timer_that_is_due_sooner_than_all_others_is_not_overslept(place: Station) -> None:
    called: list[str] = []
    timers, now = place.core.broker.timers, place.core.clock.now()
    timers.at(now + 3_600_000, lambda: called.append("in an hour"))
    await (await place.join()).ask(queue_declare("q"))
    timers.at(now, lambda: called.append("now"))
    await eventually(lambda: called, "the timer")
    assert called == ["now"]


async def test_a_timer_that_fails_stops_nothing(place: Station, caplog: pytest.LogCaptureFixture) -> None:
    called: list[int] = []
    now = place.core.clock.now()

    def fail() -> None:
        raise ValueError("on purpose")

    place.core.broker.timers.at(now, fail)
    place.core.broker.timers.at(now, lambda: called.append(1))
    await eventually(lambda: called, "the timer behind it")
    assert "a timer failed" in caplog.text


async def test_one_call_delivers_more_than_fits_at_once(tmp_path: Path) -> None:
    """A queue far larger than the output is delivered to its end, with nothing coming from anybody."""
    async with station(tmp_path / "messages", SessionSettings(output_bytes_max=8192)) as place:
        caller = await place.join()
        await caller.ask(queue_declare("q"))
        await caller.say(publish_frames(b"x" * 1000, key="q") * 500)
        await caller.send(consume("q", "t"))
        await caller.receive()
        for _ in range(500):
            assert isinstance(await caller.receive(), Message)


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
    async with station(tmp_path / "messages", definitions=definitions) as place:
        caller = await place.join()
        bodies = []
        while isinstance(item := await caller.ask(get("q", no_ack=True)), Message):
            bodies.append(item.body)
        assert isinstance(item, BasicGetEmpty)
        assert bodies == [b"%d" % number for number in range(9)]
        assert await caller.ask(queue_declare("q", durable=True, passive=True)) == QueueDeclareOk("q", 0, 0)
        await eventually(lambda: on_disk(place) == 0, "the counters to agree")
    assert "1 messages of queue 'q' cannot be read and were set aside" in caplog.text
