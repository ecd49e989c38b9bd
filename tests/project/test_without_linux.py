"""Brokers on a system that lacks what is Linux's own: `harness/portable` takes it away, and syncs as macOS does."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pika
import pytest

from broker.admin.protocol import SOCKET_PATH_BYTES_MAX
from broker.wire.methods import BasicAck, ConfirmSelect
from harness.brokers.broker_process import BrokerProcess
from harness.clients.amqp_peer import Message
from harness.clients.contents import PERSISTENT
from harness.clients.shorthand import get, queue_declare
from harness.clients.wire_client import Client
from harness.project import ROOT
from leveret.testing import Broker, broker_for_tests
from leveret.testing.power.c_compiler import compiler

PORTABLE = {"PYTHONPATH": os.pathsep.join([str(ROOT / "harness" / "portable"), str(ROOT)])}


@pytest.fixture
def process(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker whose directory has a longer name than a socket may have there, as those of pytest do."""
    directory = tmp_path / ("long" * 25) / "data"
    directory.parent.mkdir()
    assert len(os.fsencode(directory)) > SOCKET_PATH_BYTES_MAX
    broker = BrokerProcess(directory, environment={**os.environ, **PORTABLE})
    broker.start()
    yield broker
    if broker.running:
        broker.kill()


def test_a_broker_without_linux_keeps_what_it_confirmed_and_answers_operators(process: BrokerProcess) -> None:
    with closing(Client.connect(process.address)) as client:
        client.ask(queue_declare("q", durable=True))
        client.ask(ConfirmSelect(False))
        client.publish(b"kept", key="q", properties=PERSISTENT)
        client.expect(BasicAck)
    status = process.tell("status")
    assert status["memory"]["used_bytes"] > 1 << 20
    process.tell("set_vm_memory_high_watermark", bytes=1)
    assert process.tell("status")["alarms"] == ["memory"]
    process.tell("set_vm_memory_high_watermark", bytes=1 << 40)
    assert process.tell("status")["alarms"] == []
    process.kill()
    process.start()
    with closing(Client.connect(process.address)) as client:
        client.send(get("q"))
        kept = client.receive()
        assert isinstance(kept, Message)
        assert kept.body == b"kept"
    assert process.stop() == 0
    assert "Traceback" not in process.log()


@pytest.mark.slow
@pytest.mark.skipif(not compiler(), reason="the recorder is written in C and there is no compiler")
def test_a_power_failure_where_fsync_ends_in_the_drive_s_cache_takes_nothing_that_was_confirmed(tmp_path: Path) -> None:
    with Broker(tmp_path, power_failures=True, variables=PORTABLE) as broker:
        for number in range(3):
            with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
                channel = connection.channel()
                channel.confirm_delivery()
                channel.queue_declare(f"q{number}", durable=True)
                channel.basic_publish("", f"q{number}", b"kept", pika.BasicProperties(delivery_mode=2))
            broker.power_failure()
            broker.start()
        with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
            channel = connection.channel()
            assert [channel.basic_get(f"q{number}")[2] for number in range(3)] == [b"kept"] * 3


@pytest.mark.slow
def test_brokers_for_tests_are_processes_of_their_own_where_none_is_forked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_for_tests, "FORKS", False)
    with Broker(tmp_path, variables=PORTABLE) as broker:
        first = broker.pid
        broker.kill()
        broker.start()
        assert broker.pid != first
        with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
            connection.channel().queue_declare("q")
