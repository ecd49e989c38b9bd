"""A start's records of the messages that are there, while other things happen to them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import trio
import trio.testing

from broker.server.event_log import Events
from broker.server.recovery import open_stores, recover
from broker.settings_loader import load
from broker.wire.properties import BasicProperties
from harness.brokers.broker_core import BY_HAND
from harness.brokers.broker_process import BrokerProcess
from harness.brokers.broker_server import let_pass
from harness.brokers.recording_broker import events_of, recording_broker
from harness.clients.queue_steps import deposit
from harness.clients.shorthand import queue_declare
from harness.clients.wire_client import Client


@pytest.fixture
def left(tmp_path: Path) -> BrokerProcess:
    """A broker that was killed with a message in each of two queues."""
    broker = recording_broker(tmp_path)
    broker.start()
    client = Client.connect(broker.address)
    for queue in ("first", "second"):
        client.ask(queue_declare(queue, durable=True))
        deposit(client, b"x", key=queue, properties=BasicProperties(delivery_mode=2))
    client.close()
    broker.kill()
    return broker


async def test_nothing_is_told_of_behind_the_purge_that_has_taken_it(
    left: BrokerProcess, tmp_path: Path, autojump_clock: object
) -> None:
    """A purge that is not on disk yet: what the store still has of the queue would seem to have outlived it."""
    config = load(tmp_path / "config.toml", {}, data_dir=str(left.data_dir))
    stores = open_stores(left.data_dir)
    try:
        events = Events(config, stores.messages)
        broker = recover(config, stores, BY_HAND, recorder=events.recorder).broker
        async with trio.open_nursery() as nursery:
            nursery.start_soon(events.run, broker)
            await trio.testing.wait_all_tasks_blocked()
            for queue in broker.vhosts["/"].queues.values():
                queue.purge()
            await let_pass(60)
            nursery.cancel_scope.cancel()
        events.close()
    finally:
        stores.definitions.close()
        stores.messages.close()
        os.close(stores.lock)
    told = [event.kind for event in events_of(left) if event.boot == 2 and event.kind != "declare"]
    assert told == ["boot", "queued", "purge", "purge", "snapshot"]
