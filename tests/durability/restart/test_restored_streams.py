"""Streams of a restored backup: they go on far above every offset that was given out, and keep what they had."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.wire.methods import BasicDeliver
from harness.brokers.broker_process import BrokerProcess
from harness.clients.contents import PERSISTENT
from harness.clients.queue_steps import deposit
from harness.clients.shorthand import consume, prefetch, queue_declare
from harness.clients.wire_client import Client
from storage.batch import OFFSET_STRIDE
from tests.durability.restart.test_around_a_crash import leveret

STREAM = {"x-queue-type": "stream"}


def publish(broker: BrokerProcess, *bodies: bytes) -> None:
    client = Client.connect(broker.address)
    client.ask(queue_declare("s", durable=True, arguments=STREAM))
    deposit(client, *bodies, key="s", properties=PERSISTENT)
    client.close()


def read(broker: BrokerProcess, count: int, start: object = "first") -> list[tuple[int, bytes]]:
    """Read `count` messages from a place on, with their offsets."""
    client = Client.connect(broker.address)
    client.ask(prefetch(100))
    client.ask(consume("s", arguments={"x-stream-offset": start}))
    found = []
    for _ in range(count):
        message = client.expect_message(BasicDeliver)
        found.append((message.properties.headers["x-stream-offset"].value, message.body))
    client.close()
    return found


@pytest.mark.slow
def test_a_restored_stream_leaves_a_gap(fresh_broker: BrokerProcess, tmp_path: Path) -> None:
    data = fresh_broker.data_dir
    publish(fresh_broker, b"0", b"1", b"2")
    assert leveret(data, "backup", str(tmp_path / "backup")).returncode == 0
    publish(fresh_broker, b"lost")
    assert [offset for offset, _ in read(fresh_broker, 4)] == [0, 1, 2, 3]
    fresh_broker.kill()
    gaps = set()
    for _ in range(2):
        assert leveret(data, "restore", str(tmp_path / "backup"), "--replace").returncode == 0
        for bodies in ((b"a",), (b"b", b"c")):
            fresh_broker.start()
            publish(fresh_broker, *bodies)
            fresh_broker.kill()
        fresh_broker.start()
        found = read(fresh_broker, 6)
        assert [body for _, body in found] == [b"0", b"1", b"2", b"a", b"b", b"c"]
        offsets = [offset for offset, _ in found]
        gap = offsets[3]
        assert gap >= OFFSET_STRIDE
        assert offsets == [0, 1, 2, gap, gap + 1, gap + 2]
        assert read(fresh_broker, 1, 3) == [(gap, b"a")], "what was given out before leads to the next there is"
        assert read(fresh_broker, 1, "last")[0][0] == gap + 2
        gaps.add(gap)
        fresh_broker.kill()
    assert len(gaps) == 2, "two restores of one backup differ"


@pytest.mark.slow
def test_a_stream_that_was_empty_in_the_backup_leaves_a_gap(fresh_broker: BrokerProcess, tmp_path: Path) -> None:
    """Readers may have seen its first offsets since."""
    data = fresh_broker.data_dir
    publish(fresh_broker)
    assert leveret(data, "backup", str(tmp_path / "backup")).returncode == 0
    publish(fresh_broker, b"lost")
    assert read(fresh_broker, 1) == [(0, b"lost")]
    fresh_broker.kill()
    assert leveret(data, "restore", str(tmp_path / "backup"), "--replace").returncode == 0
    fresh_broker.start()
    publish(fresh_broker, b"a")
    ((offset, body),) = read(fresh_broker, 1)
    assert (offset >= OFFSET_STRIDE, body) == (True, b"a")
