"""The real broker on a disk that is really full. I7: publishers are held, acknowledgements go on, and all resumes.

The file systems need root and the right to mount; a limit on the size of files always runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from broker.wire.constants import ReplyCode
from broker.wire.method import Method
from broker.wire.methods import (
    BasicDeliver,
    BasicReject,
    ChannelClose,
    ConfirmSelect,
    QueuePurge,
    TxCommit,
    TxSelect,
)
from harness.brokers.broker_process import BrokerProcess
from harness.clients.amqp_peer import Message
from harness.clients.contents import PERSISTENT
from harness.clients.shorthand import ack, consume, prefetch, queue_declare
from harness.clients.wire_client import Client
from harness.waiting import eventually, pass_by
from storage.offline.verify_messages import verify
from tests.durability.faults.full_disks import KINDS, SmallDisk
from tests.durability.kills.adapters.client_adapter import Publication
from tests.durability.kills.adapters.with_wire_client import WireAdapter
from tests.durability.kills.queue_contents import look
from tests.durability.ledgers.oracle import Debt, Found, Owed, verdicts

pytestmark = pytest.mark.slow

INTERVAL_SECONDS = 0.05
CONFIG = f"[disk]\nfree_limit_bytes = {{limit}}\ncheck_interval_seconds = {INTERVAL_SECONDS}\n"
BODY_BYTES = 60_000
WINDOW = 10
LARGE_BYTES = 12 << 20
PATIENCE_SECONDS = 0.3
ANSWER_SECONDS = 60.0


def number_of(message: Message) -> int:
    return int(message.body[: message.body.index(b" ")])


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
        self.clients: list[Client | WireAdapter] = []

    def connect(self) -> Client:
        client = Client.connect(self.broker.address)
        self.clients.append(client)
        return client

    def start(self) -> None:
        """Start, and be ready to publish."""
        self.broker.start()
        self.publisher = WireAdapter(self.broker.address)
        self.clients.append(self.publisher)
        self.publisher.connect(lambda: False)
        self.publisher.ask(queue_declare("q", durable=True))

    def publish(self) -> None:
        """One more message."""
        body = (b"%d " % self.published).ljust(BODY_BYTES, b".")
        self.publisher.send(Publication(self.published, body, "", "q"))
        self.published += 1

    def publish_until_blocked(self, most: int = 5000) -> None:
        """Publish until told to stop. Only who publishes is told."""
        while not self.publisher.blocked:
            assert self.published < most, "never blocked"
            self.publish()
            while len(self.publisher.unanswered) > WINDOW and not self.publisher.blocked:
                if not self.publisher.hear(PATIENCE_SECONDS, self.confirmed.add):
                    break

    def hear_all(self) -> None:
        """Everything that was published is confirmed in the end, and the publisher may go on."""
        while self.publisher.unanswered or self.publisher.blocked:
            assert self.publisher.hear(ANSWER_SECONDS, self.confirmed.add), "no answer"

    def drain(self, consumer: Client, count: int, settle: Callable[[int], Method] = ack) -> None:
        """Acknowledge the next messages, which come in order, or settle them for good in another way."""
        for _ in range(count):
            message = consumer.expect_message(BasicDeliver)
            assert number_of(message) == len(self.acked)
            consumer.send(settle(message.method.delivery_tag))
            self.acked.add(len(self.acked))
        consumer.ask(queue_declare("q", passive=True), channel=2)  # so the acknowledgements have been handled

    def consumer(self) -> Client:
        client = self.connect()
        client.open_channel(2)
        client.ask(prefetch(20))
        client.ask(consume("q", "t"))
        return client

    def expect_after_restart(self, *, kill: bool = False) -> None:
        """Started again, the queue holds what was published and not acknowledged; after a kill, what was confirmed."""
        self.hang_up()
        if kill:
            self.broker.kill()
        else:
            assert self.broker.stop() == 0, self.broker.log()
        assert verify(self.broker.data_dir / "messages").problems == []
        self.broker.start()
        found = [Found(number_of(message), message.method.redelivered) for message in look(self.connect(), "q")]
        left = [number for number in range(self.published) if number not in self.acked]
        owed = [Owed(number, frozenset("q"), not kill or number in self.confirmed) for number in left]
        assert verdicts(Debt(owed, order=lambda queue, number: ("", number)), {"q": found}) == []
        assert "Traceback" not in self.broker.log()

    def hang_up(self) -> None:
        while self.clients:
            self.clients.pop().close()

    def close(self) -> None:
        self.hang_up()
        if self.broker.running:
            self.broker.kill()


@pytest.fixture(params=KINDS)
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SmallDisk]:
    with KINDS[request.param](tmp_path) as mounted:
        if not mounted:
            pytest.skip(f"{request.param} cannot be mounted here")
        yield SmallDisk(tmp_path / "disk")


@contextmanager
def serving(directory: Path, data: Path, limit: int = 0) -> Iterator[FullDiskServer]:
    """A broker that begins, with a limit of free bytes."""
    server = FullDiskServer(directory, data, limit)
    try:
        server.start()
        yield server
    finally:
        server.close()


def test_a_full_disk(disk: SmallDisk, tmp_path: Path) -> None:
    """Filled by its own messages and by somebody else: consumers go on; with room publishers go on, too.

    A start on a full disk takes the ballast: clients can connect, consume and acknowledge, publishers wait for room.
    """
    disk.fill(leave=40 << 20)
    with serving(tmp_path, disk.directory / "data") as server:
        server.publish_until_blocked()
        assert len(server.confirmed) < server.published
        consumer = server.consumer()
        server.drain(consumer, 50)
        disk.empty()
        server.hear_all()
        disk.fill()
        server.publish_until_blocked()
        server.drain(consumer, 50)
        disk.empty()
        server.hear_all()
        server.broker.stop()
        disk.fill()
        server.broker.start()
        server.publisher.connect(lambda: False)
        consumer = server.consumer()
        server.drain(consumer, 20)
        disk.empty()
        server.publisher.ask(queue_declare("another", durable=True))
        server.drain(consumer, 20)
        ballast = server.broker.data_dir / "messages" / "ballast"
        eventually(ballast.exists, "the ballast to be there again")
        server.expect_after_restart()


def test_too_large_for_the_disk(disk: SmallDisk, tmp_path: Path) -> None:
    """A message and a transaction are refused before they reach the store (311: "at the present time")."""
    with serving(tmp_path, disk.directory / "data") as server:
        client = server.connect()
        disk.fill(leave=LARGE_BYTES // 2)
        client.publish(bytes(LARGE_BYTES), key="q", properties=PERSISTENT)
        refused = client.expect(ChannelClose)
        assert refused.reply_code == ReplyCode.CONTENT_TOO_LARGE
        text = f"CONTENT_TOO_LARGE - message of {LARGE_BYTES} bytes is larger than the room on the broker's disk"
        assert refused.reply_text.startswith(text)
        client.open_channel(2)
        client.ask(TxSelect(), channel=2)
        for _ in range(20):
            client.publish(bytes(LARGE_BYTES // 20), key="q", properties=PERSISTENT, channel=2)
        client.send(TxCommit(), channel=2)
        assert client.expect(ChannelClose, channel=2).reply_code == ReplyCode.CONTENT_TOO_LARGE
        server.publish()
        server.hear_all()
        server.expect_after_restart(kill=True)


@pytest.mark.parametrize("end", ["kill", "purge"])
def test_others_go_on_behind_a_batch_that_does_not_fit(disk: SmallDisk, tmp_path: Path, end: str) -> None:
    """Removals reach the disk before it, and it is not written when nobody wants it any more."""
    with serving(tmp_path, disk.directory / "data") as server:
        for _ in range(20):
            server.publish()
        server.hear_all()
        client = server.connect()
        client.ask(queue_declare("large", durable=True))
        client.ask(ConfirmSelect(False))
        disk.fill(leave=LARGE_BYTES // 2)
        while "publishers are blocked" not in server.broker.log():
            client.publish(bytes(LARGE_BYTES // 20), key="large", properties=PERSISTENT)
            with suppress(TimeoutError):
                client.receive(timeout=PATIENCE_SECONDS)
        consumer = server.consumer()
        server.drain(consumer, 5)
        server.drain(consumer, 5, lambda tag: BasicReject(tag, False))
        consumer.ask(QueuePurge("q", False), channel=2)  # it is on disk, and what was said before it
        if end == "purge":
            consumer.ask(QueuePurge("large", False), channel=2)
            eventually(lambda: "disk alarm cleared" in server.broker.log(), "publishers to go on")
            server.publish()
            server.hear_all()
        server.expect_after_restart(kill=True)


@pytest.mark.parametrize("limit", [16 << 20, 1 << 20], ids=["room-left", "full"])
def test_the_disk_comes_back_when_the_queue_is_empty(disk: SmallDisk, tmp_path: Path, limit: int) -> None:
    """The alarm goes and publishers go on as soon as messages have gone, and others have their room back.

    Below 1 MiB the alarm comes too late for a full disk, on which LMDB needs the journal's reserve.
    """
    with serving(tmp_path, disk.directory / "data", limit) as server:
        server.publish_until_blocked()
        server.drain(server.consumer(), server.published)
        server.hear_all()
        file = server.broker.data_dir / "messages" / "data.mdb"
        pass_by(time.monotonic() + 10 * INTERVAL_SECONDS)  # the broker is idle, and has to look all the same

        def room_is_taken_by_others() -> bool:
            disk.fill(leave=limit // 16)  # again each time: the file gives its room only while the disk is short
            return file.stat().st_blocks * 512 < 4 << 20

        eventually(room_is_taken_by_others, "the file to give its room to others")
        server.expect_after_restart()
