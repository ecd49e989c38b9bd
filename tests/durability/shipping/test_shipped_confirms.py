"""`ship.confirm = "shipped"`: a confirm says that the message is at the second place as well."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.wire.methods import BasicAck, ConfirmSelect, QueuePurge, TxCommit, TxCommitOk, TxSelect
from harness.brokers.broker_process import BrokerProcess
from harness.clients.contents import PERSISTENT
from harness.clients.queue_steps import bodies, deliveries, deposit, fetch
from harness.clients.shorthand import ack, consume, queue_declare
from harness.clients.wire_client import Client
from harness.waiting import eventually
from tests.durability.restart.test_around_a_crash import leveret
from tests.durability.shipping.test_drill import SECONDS, await_shipped, held

BUFFER_BYTES = 100_000


@pytest.fixture
def shipped(tmp_path: Path, away: Path) -> Iterator[BrokerProcess]:
    """A broker whose confirms wait for the place; by itself it would ship once in an hour."""
    broker = BrokerProcess(tmp_path / "data")
    settings = tmp_path / "leveret.toml"
    rules = f'confirm = "shipped"\npiece_seconds = 3600.0\nbuffer_bytes = {BUFFER_BYTES}\n'
    settings.write_text(f'[ship]\nto = "{away}"\n{rules}')
    broker.options = ("--config", str(settings))
    broker.start()
    yield broker
    if broker.running:
        broker.kill()


def publisher(broker: BrokerProcess) -> Client:
    """A client in confirm mode, with a queue."""
    client = Client.connect(broker.address)
    client.ask(queue_declare("q", durable=True))
    client.ask(ConfirmSelect(False))
    return client


def restored(broker: BrokerProcess, away: Path) -> list[bytes]:
    """Lose the machine, and return the contents of the queue at the last moment there is."""
    broker.kill()
    shutil.rmtree(broker.data_dir)
    done = leveret(broker.data_dir, "restore", "--from", str(away))
    assert done.returncode == 0, done
    broker.options = ()
    broker.start()
    return held(broker, "q")[0]


@pytest.mark.slow
def test_what_is_confirmed_or_committed_survives_the_machine(shipped: BrokerProcess, away: Path) -> None:
    client = publisher(shipped)
    for number in range(5):
        deposit(client, b"%d" % number, key="q", properties=PERSISTENT)
    client.open_channel(2)
    client.ask(TxSelect(), channel=2)
    for message in fetch(client, "q", 2, channel=2):
        client.send(ack(message.method.delivery_tag), channel=2)
    client.publish(b"in a transaction", key="q", properties=PERSISTENT, channel=2)
    client.ask(TxCommit(), channel=2)
    client.close()
    assert restored(shipped, away) == [b"2", b"3", b"4", b"in a transaction"]


def test_confirms_wait_for_a_place_that_is_gone_and_nothing_else_does(shipped: BrokerProcess, away: Path) -> None:
    client = publisher(shipped)
    deposit(client, b"before", key="q", properties=PERSISTENT)
    away.rename(away.with_name("gone"))
    for number in range(3):
        client.publish(b"%d" % number, key="q", properties=PERSISTENT)
    client.open_channel(2)
    client.ask(TxSelect(), channel=2)
    client.publish(b"committed", key="q", properties=PERSISTENT, channel=2)
    client.send(TxCommit(), channel=2)
    client.open_channel(3)
    client.ask(consume("q"), channel=3)
    expected = [b"before", b"0", b"1", b"2", b"committed"]
    assert bodies(deliveries(client, len(expected), channel=3)) == expected
    client.ask(QueuePurge("q", False), channel=3)
    eventually(lambda: shipped.tell("status")["ship"]["problem"], "the place to be missed", seconds=SECONDS)
    state = shipped.tell("status")["ship"]
    assert state["confirm_wait_seconds"] > 0
    assert "it is tried again, and confirms wait" in shipped.log()
    assert (client.arrived(), client.arrived(channel=2)) == ([], [])
    away.with_name("gone").rename(away)
    assert client.expect(BasicAck).delivery_tag in (1, 2, 3)
    client.expect(TxCommitOk, channel=2)
    client.close()
    assert await_shipped(shipped)["confirm_wait_seconds"] == 0


def test_a_channel_that_has_ended_is_waited_for_no_more(shipped: BrokerProcess, away: Path) -> None:
    client = publisher(shipped)
    deposit(client, b"before", key="q", properties=PERSISTENT)
    away.rename(away.with_name("gone"))
    client.publish(b"meanwhile", key="q", properties=PERSISTENT)
    eventually(lambda: shipped.tell("status")["ship"]["confirm_wait_seconds"], "a confirm that waits", seconds=SECONDS)
    client.close_channel()
    assert shipped.tell("status")["ship"]["confirm_wait_seconds"] == 0
    away.with_name("gone").rename(away)
    client.close()
    await_shipped(shipped)
    assert restored(shipped, away) == [b"before", b"meanwhile"]


def test_confirms_of_what_was_dropped_come_behind_a_new_base(shipped: BrokerProcess, away: Path) -> None:
    client = publisher(shipped)
    deposit(client, b"before", key="q", properties=PERSISTENT)
    away.rename(away.with_name("gone"))
    contents = [b"%d" % number + bytes(BUFFER_BYTES // 2) for number in range(4)]
    client.publish(contents[0], key="q", properties=PERSISTENT)
    eventually(lambda: shipped.tell("status")["ship"]["problem"], "the place to be missed", seconds=SECONDS)
    for body in contents[1:]:
        client.publish(body, key="q", properties=PERSISTENT)
    eventually(lambda: len(client.arrived()) or lag_of(shipped) == len(contents), "all to be on disk", seconds=SECONDS)
    assert client.arrived() == []
    away.with_name("gone").rename(away)
    confirmed = 0
    while confirmed < len(contents):
        confirmed = client.expect(BasicAck).delivery_tag
    state = shipped.tell("status")["ship"]
    assert (state["bases"], state["lag_messages"]) == (2, 0)
    client.close()
    assert restored(shipped, away) == [b"before", *contents]


def lag_of(broker: BrokerProcess) -> int:
    return int(broker.tell("status")["ship"]["lag_messages"])
