"""A disk that runs short, seen from clients of the real process."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.wire.methods import (
    BasicAck,
    BasicDeliver,
    ConfirmSelect,
    ConnectionBlocked,
    ConnectionUnblocked,
    QueueDeclareOk,
)
from harness.brokers.broker_process import BrokerProcess
from harness.clients.shorthand import ack, consume, queue_declare
from harness.clients.wire_client import Client
from harness.waiting import eventually

pytestmark = pytest.mark.slow

FREE_BYTES_MIN = 3 << 30
SPARE_BYTES_MAX = 4 << 30


class Filler:
    """A file that takes so much of the disk that the limit is passed.

    `spare` is how far the limit is from what is free, in bytes: enough for whatever else writes there meanwhile.
    """

    def __init__(self, path: Path, free: int) -> None:
        self._path = path
        self.spare = min(free // 8, SPARE_BYTES_MAX)

    def fill(self) -> None:
        with self._path.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, 2 * self.spare)

    def empty(self) -> None:
        self._path.unlink()


@pytest.fixture
def filler(tmp_path: Path) -> Filler:
    free = shutil.disk_usage(tmp_path).free
    if free < FREE_BYTES_MIN:
        pytest.skip("the temporary directory has too little room to play with")
    return Filler(tmp_path / "filler", free)


@pytest.fixture
def broker(tmp_path: Path, filler: Filler) -> Iterator[BrokerProcess]:
    """A broker that counts the disk as short when the filler is there."""
    limit = shutil.disk_usage(tmp_path).free - filler.spare
    config = tmp_path / "leveret.toml"
    config.write_text(f"[disk]\nfree_limit_bytes = {limit}\ncheck_interval_seconds = 0.05\n")
    process = BrokerProcess(tmp_path / "data", "--config", str(config))
    process.start()
    yield process
    process.kill()


@pytest.fixture
def connect(broker: BrokerProcess) -> Iterator[Callable[..., Client]]:
    clients: list[Client] = []

    def connected(**options: Any) -> Client:
        clients.append(Client.connect(broker.address, **options))
        return clients[-1]

    yield connected
    for client in clients:
        client.close()


def alarmed(broker: BrokerProcess, times: int = 1) -> None:
    eventually(lambda: broker.log().count("disk alarm raised") >= times, "the alarm")


def test_publishers_wait_and_consumers_go_on(
    broker: BrokerProcess, filler: Filler, connect: Callable[..., Client]
) -> None:
    """RabbitMQ's resource alarms: the one that publishes is told and held, what it sent comes through later."""
    publisher, consumer = connect(), connect()
    publisher.ask(queue_declare("q", durable=True))
    publisher.ask(ConfirmSelect(False))
    publisher.publish(b"before", key="q")
    publisher.expect(BasicAck)
    filler.fill()
    alarmed(broker)
    publisher.publish(b"during", key="q")
    assert publisher.expect(ConnectionBlocked, channel=0).reason == "low on disk"
    consumer.ask(consume("q", "t"))
    assert consumer.expect_message(BasicDeliver).body == b"before"
    consumer.send(ack(1))
    assert consumer.ask(queue_declare("q", passive=True)) == QueueDeclareOk("q", 0, 1)
    assert publisher.arrived() == []
    filler.empty()
    publisher.expect(ConnectionUnblocked, channel=0)
    publisher.expect(BasicAck)
    assert consumer.expect_message(BasicDeliver).body == b"during"


def test_a_publisher_that_also_consumes_can_acknowledge(
    broker: BrokerProcess, filler: Filler, connect: Callable[..., Client]
) -> None:
    """Acknowledgements pass held publishes on the same channel: they are what makes room."""
    client, other = connect(), connect()
    client.ask(queue_declare("q"))
    client.publish(b"one", key="q")
    client.ask(consume("q", "t"))
    tag = client.expect_message(BasicDeliver).method.delivery_tag
    filler.fill()
    alarmed(broker)
    client.publish(b"two", key="q")
    client.expect(ConnectionBlocked, channel=0)
    client.send(ack(tag))
    client.finish()
    eventually(lambda: other.ask(queue_declare("q", passive=True)).consumer_count == 0, "the consumer to be gone")
    assert other.ask(queue_declare("q", passive=True)).message_count == 0, "acknowledged, not given back"


def test_a_client_that_cannot_hear_it_is_held_all_the_same(
    broker: BrokerProcess, filler: Filler, connect: Callable[..., Client]
) -> None:
    """connection.blocked goes only to who announced the capability."""
    deaf = connect(capabilities={})
    deaf.ask(queue_declare("q"))
    filler.fill()
    alarmed(broker)
    deaf.publish(b"held", key="q")
    other = connect()
    assert other.ask(queue_declare("q", passive=True)).message_count == 0
    filler.empty()
    eventually(lambda: other.ask(queue_declare("q", passive=True)).message_count == 1, "the held publish")
    assert deaf.arrived(channel=0) == []
