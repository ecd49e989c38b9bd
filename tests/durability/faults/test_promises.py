"""I6 and I7 in their shortest form, and the mistakes that are planted against them, which must be found."""

from __future__ import annotations

import errno
import os
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from broker.wire.methods import BasicAck, BasicDeliver, BasicGetEmpty, ConfirmSelect, ConnectionBlocked, QueuePurge
from harness.brokers.broker_process import BrokerProcess
from harness.clients.contents import PERSISTENT
from harness.clients.shorthand import ack, consume, get, queue_declare
from harness.clients.wire_client import Client
from tests.durability.faults.injector import LMDB, Fault
from tests.durability.faults.life import live
from tests.planted.planted_catalogue import with_mistake

pytestmark = pytest.mark.slow

MESSAGES_BEFORE = 5
MISTAKE_PATIENCE_SECONDS = 2.0


def ends_at_a_failed_sync(place: Path, library: Path, environment: dict[str, str], *, forever: bool) -> None:
    """I6. The broker ends, says why, and everything it has confirmed is there. A second sync may succeed."""
    ending = live(place / "life", library, Fault("sync", errno.EIO, LMDB, 3, forever), "work", environment)
    assert ending.met
    assert ending.line, "the broker went on"
    assert ending.problems == []


def holds_publishers_alone(directory: Path, environment: dict[str, str], patience: float = 30.0) -> None:
    """I7. Under a disk alarm publishers are held and told, if they can hear it; acknowledgements get to the disk.

    They pass held publishes on the same channel: they are what makes room.
    """
    config = directory / "leveret.toml"
    config.write_text("[disk]\nfree_limit_bytes = 0\n")
    broker = BrokerProcess(directory / "data", "--config", str(config), environment=environment)
    with ExitStack() as ends:
        ends.callback(broker.kill)

        def connect(*channels: int, **login: Any) -> Client:
            return ends.enter_context(closing(Client.connect(broker.address, channels=channels, **login)))

        broker.start()
        _publish_some(connect(1))
        broker.kill()
        config.write_text(f"[disk]\nfree_limit_bytes = {1 << 60}\n")
        broker.start()
        publisher, consumer, deaf = connect(1), connect(1, 2), connect(1, capabilities={})
        publisher.ask(ConfirmSelect(False))
        publisher.publish(b"held", key="q", properties=PERSISTENT)
        blocked = publisher.receive(timeout=patience)
        assert isinstance(blocked, ConnectionBlocked)
        assert blocked.reason == "low on disk"
        deaf.publish(b"held", key="q")
        consumer.ask(consume("q", "t"))
        consumer.publish(b"held", key="q")
        consumer.expect(ConnectionBlocked, channel=0)
        for _ in range(MESSAGES_BEFORE):
            consumer.send(ack(consumer.expect_message(BasicDeliver).method.delivery_tag))
        consumer.send(QueuePurge("empty", False), channel=2)  # on disk with what was said before it
        consumer.receive(channel=2, timeout=patience)
        assert publisher.arrived() == deaf.arrived(channel=0) == []
        broker.kill()
        broker.start()
        consumer = connect(1)
        consumer.send(get("q"))
        consumer.expect(BasicGetEmpty)


def _publish_some(client: Client) -> None:
    client.ask(queue_declare("q", durable=True))
    client.ask(queue_declare("empty", durable=True))
    client.ask(ConfirmSelect(False))
    for _ in range(MESSAGES_BEFORE):
        client.publish(b"before", key="q", properties=PERSISTENT)
        client.expect(BasicAck)


@pytest.mark.parametrize("forever", [True, False])
def test_the_broker_ends_at_a_failed_sync(place: Path, injector: Path, forever: bool) -> None:
    ends_at_a_failed_sync(place, injector, dict(os.environ), forever=forever)


@pytest.mark.parametrize(
    ("mistake", "forever", "symptom"),
    [
        ("confirm after failed commit", True, "has lost|known to have left|counts|is there"),
        ("going on after failed sync", False, "the broker went on"),
    ],
)
def test_mistakes_about_failed_commits_are_found(
    mistake: str, forever: bool, symptom: str, place: Path, injector: Path
) -> None:
    with pytest.raises(AssertionError, match=symptom):
        ends_at_a_failed_sync(place, injector, with_mistake(mistake), forever=forever)


def test_a_disk_alarm_holds_publishers_alone(place: Path) -> None:
    holds_publishers_alone(place, dict(os.environ))


@pytest.mark.parametrize("mistake", ["alarm holds nobody", "alarm holds commits"])
def test_mistakes_about_alarms_are_found(mistake: str, place: Path) -> None:
    with pytest.raises((AssertionError, TimeoutError)):
        holds_publishers_alone(place, with_mistake(mistake), MISTAKE_PATIENCE_SECONDS)
