"""The real broker on a disk that is really full. I7: publishers are held, acknowledgements go on, and all resumes.

The file systems need root and the right to mount; a limit on the size of files always runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from broker.wire.methods import (
    BasicAck,
    BasicDeliver,
    BasicGetEmpty,
    ConfirmSelect,
    ConnectionBlocked,
    ConnectionUnblocked,
    QueuePurge,
)
from harness.brokers.broker_process import BrokerProcess
from harness.clients.amqp_peer import Message
from harness.clients.contents import PERSISTENT
from harness.clients.shorthand import ack, consume, get, prefetch, queue_declare
from harness.clients.wire_client import Client
from harness.waiting import eventually
from storage.messages.verify_messages import verify
from tests.durability.faults.full_disks import KINDS, Limit, SmallDisk
from tests.durability.ledgers.oracle import Debt, Found, Owed, verdicts

pytestmark = pytest.mark.slow

CONFIG = "[disk]\nfree_limit_bytes = {limit}\ncheck_interval_seconds = 0.05\n"
BODY_BYTES = 60_000
WINDOW = 10
PATIENCE_SECONDS = 0.3


class FullDiskServer:
    """A broker whose data is on a disk, and one publisher and one consumer that keep a ledger."""

    def __init__(self, directory: Path, data: Path, limit: int) -> None:
        config = directory / "leveret.toml"
        config.write_text(CONFIG.format(limit=limit))
        self.broker = BrokerProcess(data, "--config", str(config))
        self.broker.log_file = directory / "log"
        self.published = 0
        self.confirmed: set[int] = set()
        self.acked: set[int] = set()
        self.blocked = False
        self.clients: list[Client] = []

    def connect(self) -> Client:
        self.clients.append(Client.connect(self.broker.address))
        return self.clients[-1]

    def start(self) -> None:
        """Start, and be ready to publish."""
        self.broker.start()
        self.publisher = self.connect()
        self.publisher.ask(queue_declare("q", durable=True))
        self.publisher.ask(ConfirmSelect(False))

    def publish(self) -> None:
        """One more message."""
        body = b"%d " % self.published
        self.publisher.publish(body.ljust(BODY_BYTES, b"."), key="q", properties=PERSISTENT)
        self.published += 1

    def hear(self, timeout: float = 10.0) -> None:
        """Take in one thing that the publisher is told."""
        item = self.publisher.receive(timeout=timeout)
        if isinstance(item, BasicAck):
            first = 1 if item.multiple else item.delivery_tag
            self.confirmed |= set(range(first - 1, item.delivery_tag))
        else:
            assert isinstance(item, ConnectionBlocked | ConnectionUnblocked), item
            self.blocked = isinstance(item, ConnectionBlocked)

    def publish_until_blocked(self, most: int = 5000) -> None:
        """Publish until told to stop."""
        while not self.blocked:
            assert self.published < most, "never blocked"
            self.publish()
            try:
                while self.published - len(self.confirmed) > WINDOW and not self.blocked:
                    self.hear(PATIENCE_SECONDS)
            except TimeoutError:
                pass  # only who publishes is told

    def hear_all(self) -> None:
        """Everything that was published is confirmed in the end, and the publisher may go on."""
        while len(self.confirmed) < self.published or self.blocked:
            self.hear()

    def drain(self, consumer: Client, count: int) -> None:
        """Acknowledge the next messages, which come in order."""
        for _ in range(count):
            message = consumer.expect_message(BasicDeliver)
            number = int(message.body[: message.body.index(b" ")])
            assert number == len(self.acked)
            consumer.send(ack(message.method.delivery_tag))
            self.acked.add(number)
        consumer.ask(queue_declare("q", passive=True), channel=2)  # so the acknowledgements have been handled

    def consumer(self) -> Client:
        client = self.connect()
        client.open_channel(2)
        client.ask(prefetch(20))
        client.ask(consume("q", "t"))
        return client

    def expect_after_restart(self, *, kill: bool = False) -> None:
        """Started again, the queue holds what was published and not acknowledged; after a kill, what was confirmed."""
        for client in self.clients:
            client.close()
        if kill:
            self.broker.kill()
        else:
            assert self.broker.stop() == 0, self.broker.log()
        assert verify(self.broker.data_dir / "messages").problems == []
        self.broker.start()
        client, found = self.connect(), list[Found]()
        while True:
            client.send(get("q", no_ack=True))
            item = client.receive()
            if isinstance(item, BasicGetEmpty):
                break
            assert isinstance(item, Message)
            found.append(Found(int(item.body[: item.body.index(b" ")]), item.method.redelivered))
        left = [number for number in range(self.published) if number not in self.acked]
        owed = [Owed(number, frozenset("q"), not kill or number in self.confirmed) for number in left]
        assert verdicts(Debt(owed, order=lambda queue, number: ("", number)), {"q": found}) == []
        assert "Traceback" not in self.broker.log()

    def close(self) -> None:
        for client in self.clients:
            client.close()
        if self.broker.running:
            self.broker.kill()


Begin = Callable[[int], FullDiskServer]


@pytest.fixture(params=KINDS)
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SmallDisk]:
    with KINDS[request.param](tmp_path) as mounted:
        if not mounted:
            pytest.skip(f"{request.param} cannot be mounted here")
        yield SmallDisk(tmp_path / "disk")


@pytest.fixture
def begin(disk: SmallDisk, tmp_path: Path) -> Iterator[Begin]:
    """A function that starts a broker on the disk, with a limit of free bytes."""
    servers: list[FullDiskServer] = []

    def begun(limit: int) -> FullDiskServer:
        servers.append(FullDiskServer(tmp_path, disk.directory / "data", limit))
        servers[-1].start()
        return servers[-1]

    yield begun
    for server in servers:
        server.close()


def test_filled_by_its_own_messages(disk: SmallDisk, begin: Begin) -> None:
    """Nothing warns before the disk is full. Consumers go on; with room made by somebody else publishers go on, too."""
    disk.fill(leave=40 << 20)
    server = begin(0)
    server.publish_until_blocked()
    assert len(server.confirmed) < server.published
    consumer = server.consumer()
    server.drain(consumer, 50)
    disk.empty()
    server.hear_all()
    server.drain(consumer, 50)
    server.expect_after_restart()


def test_filled_by_somebody_else(disk: SmallDisk, begin: Begin) -> None:
    server = begin(0)
    for _ in range(50):
        server.publish()
    server.hear_all()
    disk.fill()
    server.publish_until_blocked()
    consumer = server.consumer()
    server.drain(consumer, 30)
    disk.empty()
    server.hear_all()
    server.drain(consumer, 20)
    server.expect_after_restart()


def test_acknowledgements_reach_a_disk_below_its_limit(begin: Begin) -> None:
    """While the alarm holds publishers, what is acknowledged gets to the disk: a kill does not bring it back."""
    server = begin(24 << 20)
    server.publisher.ask(queue_declare("empty", durable=True))
    server.publish_until_blocked()
    consumer = server.consumer()
    server.drain(consumer, 60)
    consumer.ask(QueuePurge("empty", False), channel=2)  # it is on disk, and what was said before it
    assert server.blocked
    server.expect_after_restart(kill=True)


def test_full_at_the_start(disk: SmallDisk, begin: Begin) -> None:
    """The start takes the ballast: clients can connect, consume and acknowledge, publishers wait for room."""
    server = begin(0)
    for _ in range(50):
        server.publish()
    server.hear_all()
    server.broker.stop()
    disk.fill()
    server.broker.start()
    server.publisher = server.connect()
    consumer = server.consumer()
    server.drain(consumer, 20)
    disk.empty()
    server.publisher.ask(queue_declare("another", durable=True))
    server.drain(consumer, 20)
    ballast = server.broker.data_dir / "messages" / "ballast"
    eventually(ballast.exists, "the ballast to be there again")
    server.expect_after_restart()


def test_a_limit_on_files(tmp_path: Path) -> None:
    """The same as a full disk, where nothing can be mounted: the store cannot grow."""
    server = FullDiskServer(tmp_path, tmp_path / "data", 0)
    try:
        server.start()
        limit = Limit(server.broker.data_dir)
        limit.fill(server.broker.pid, leave=3 << 20)
        server.publish_until_blocked()
        assert len(server.confirmed) < server.published
        consumer = server.consumer()
        server.drain(consumer, 20)
        limit.empty()
        server.hear_all()
        server.expect_after_restart()
    finally:
        server.close()
