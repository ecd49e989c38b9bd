"""Ends of turns: things that wait for time, for the disk or for room are done when they may be, without anybody's
bytes."""

from __future__ import annotations

import math
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from broker.entities.scheduling.pending_batches import OnDisk
from broker.server.commits import commit_policy
from broker.wire.methods import BasicGetEmpty, QueueDeclareOk
from harness.brokers.broker_core import SMALL, Core, flip
from harness.brokers.broker_server import BrokerServer, eventually, serving
from harness.clients.amqp_peer import Message, publish_frames
from harness.clients.shorthand import ack, get, queue_declare
from storage.messages import lmdb_environment
from storage.messages.keys import SEGMENT
from storage.messages.message_writer import CorruptRecord


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[BrokerServer]:
    async with serving(tmp_path / "messages") as server:
        yield server


def on_disk(server: BrokerServer) -> int:
    return sum(state.messages for lanes in server.core.store.lanes().values() for state in lanes.values())


async def test_what_nobody_waits_for_reaches_the_disk_a_little_later(server: BrokerServer) -> None:
    client = await server.connect()
    server.core.queue("q")
    await client.say(publish_frames(b"x", key="q", persistent=True) * 3)
    await eventually(lambda: on_disk(server) == 3, "the messages on disk")
    await client.ask(get("q"))
    await client.send(ack(1))
    await eventually(lambda: on_disk(server) == 2, "the acknowledgement on disk")


async def test_clients_with_something_ready_share_a_batch(
    server: BrokerServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit_policy, "GATHER_SECONDS", math.inf)
    await (await server.connect()).ask(queue_declare("q"))
    await eventually(lambda: not server.engine.committer.unfinished, "nothing to be under way")
    batches = server.core.broker.batches
    numbers, waiters = [batches.current.number], [OnDisk(batches)]
    for _ in range(3):
        numbers.append(batches.current.number)
        waiters.append(OnDisk(batches))
        server.engine.end_turn()
    assert len(set(numbers)) == 1
    await eventually(lambda: all(waiter.done for waiter in waiters), "the batch")


async def test_a_timer_that_is_due_sooner_than_all_others_is_not_overslept(
    server: BrokerServer, caplog: pytest.LogCaptureFixture
) -> None:
    """One that fails stops nothing."""
    called: list[str] = []
    timers, now = server.core.broker.timers, server.core.clock.now()
    timers.at(now + 3_600_000, lambda: called.append("in an hour"))
    await (await server.connect()).ask(queue_declare("q"))
    timers.at(now, lambda: [][0])
    timers.at(now, lambda: called.append("now"))
    await eventually(lambda: called, "the timer")
    assert called == ["now"]
    assert "a timer failed" in caplog.text


async def test_messages_that_cannot_be_read_are_reported_and_no_longer_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    core = Core(tmp_path / "messages", SMALL)
    core.deposit(core.queue("q"), *(b"%d" % number for number in range(10)))
    core.commit()
    definitions = core.definitions
    core.close()
    with lmdb_environment.open_environment(tmp_path / "messages") as environment:
        flip(environment, SEGMENT)
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


@pytest.mark.pure_core("it follows Python's lines")
async def test_no_report_of_damage_is_lost_between_two_threads(server: BrokerServer) -> None:
    """The committer may find damage between any two lines of what tells of damage that was found before."""
    queue, store, lines = server.core.queue("q"), server.core.store, set[int]()
    queue.store.state.messages = 100
    record = CorruptRecord(queue.store.queue_id, 0, 1, "for a test", 1, 0, whole_segment=True)

    def find(frame: FrameType, event: str, _argument: object) -> Any:
        if event == "line" and frame.f_lineno not in lines:
            lines.add(frame.f_lineno)
            store.corrupt.append(record)
        return find if "corrupt" in frame.f_code.co_name else None

    before = sys.gettrace()
    store.corrupt.append(record)
    sys.settrace(find)
    server.engine.end_turn()
    sys.settrace(before)
    server.engine.end_turn()
    assert lines
    assert queue.store.state.messages == 100 - 1 - len(lines)
