"""A message store that cannot write any more, in the real process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.wire.methods import BasicAck, BasicGetOk, ConfirmSelect
from broker.wire.properties import BasicProperties
from harness.brokers.broker_process import BrokerProcess
from harness.clients.shorthand import get, queue_declare
from harness.clients.wire_client import Client
from harness.project import ROOT

PLANT = """
import pathlib

import storage.messages.message_store
from storage.storage_errors import StoreFailed

real = storage.messages.message_store.MessageStore.commit


def commit(self, batch):
    if pathlib.Path({sign!r}).exists():
        raise StoreFailed("{directory}: writing failed: Input/output error")
    real(self, batch)


storage.messages.message_store.MessageStore.commit = commit
"""
"""Loaded by the interpreter before the broker: from the moment a sign is given, every commit fails."""


class Failing:
    """A broker process whose disk can be made to fail."""

    def __init__(self, directory: Path) -> None:
        self._sign = directory / "fail"
        plant = directory / "plant"
        plant.mkdir()
        source = PLANT.format(sign=str(self._sign), directory=str(directory / "data" / "messages"))
        (plant / "sitecustomize.py").write_text(source)
        paths = [str(plant), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
        self.process = BrokerProcess(directory / "data", environment=environment)

    def fail(self) -> None:
        self._sign.touch()

    def mend(self) -> None:
        self._sign.unlink()


@pytest.fixture
def failing(tmp_path: Path) -> Iterator[Failing]:
    failing = Failing(tmp_path)
    failing.process.start()
    yield failing
    failing.process.kill()


def test_a_failed_commit_ends_the_broker_without_a_confirm(failing: Failing) -> None:
    """Promise I6: nobody knows what is on disk, so nothing more is confirmed. The next start finds what was."""
    process, persistent = failing.process, BasicProperties(delivery_mode=2)
    client = Client.connect(process.address)
    try:
        client.ask(queue_declare("q", durable=True))
        client.ask(ConfirmSelect(False))
        client.publish(b"kept", key="q", properties=persistent)
        assert client.expect(BasicAck).delivery_tag == 1
        failing.fail()
        client.publish(b"unknown", key="q", properties=persistent)
        assert client.expect_gone() == []
    finally:
        client.close()
    assert process.wait() == 1
    assert "cannot write messages to disk, stopping without another confirm" in process.log()
    assert process.log().count("leveret: error:") == 1
    failing.mend()
    process.start()
    client = Client.connect(process.address)
    try:
        client.send(get("q"))
        assert client.expect_message(BasicGetOk).body == b"kept"
    finally:
        client.close()
