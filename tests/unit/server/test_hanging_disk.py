"""A disk that does not answer, under the real process: a stop ends in its time, and says what it left behind."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

import pytest

from broker.wire.methods import ChannelOpen
from harness.brokers.broker_process import BrokerProcess
from harness.clients.contents import PERSISTENT
from harness.clients.shorthand import queue_declare
from harness.clients.wire_client import Client
from harness.project import ROOT

pytestmark = pytest.mark.slow

PLANT = """
import pathlib
import threading

from storage.definitions.definition_store import DefinitionStore
from storage.messages.message_store import MessageStore


def hang(store):
    commit = store.commit

    def committed(self, what, **how):
        if pathlib.Path({sign!r}).exists():
            threading.Event().wait()
        return commit(self, what, **how)

    store.commit = committed


hang(DefinitionStore)
hang(MessageStore)
"""
"""Loaded by the interpreter before the broker: from the moment a sign is given, no commit ends."""


@pytest.mark.parametrize("written", ["message", "definition"])
def test_a_stop_does_not_wait_for_a_disk_that_hangs(tmp_path: Path, written: str) -> None:
    """The exit code says that not everything is written; what was confirmed is there at the next start."""
    sign, plant, config = tmp_path / "hang", tmp_path / "plant", tmp_path / "leveret.toml"
    plant.mkdir()
    (plant / "sitecustomize.py").write_text(PLANT.format(sign=str(sign)))
    config.write_text("[shutdown]\ntimeout_seconds = 0.1\n")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(plant), str(ROOT)])}
    process = BrokerProcess(tmp_path / "data", "--config", str(config), environment=environment)
    process.start()
    with closing(Client.connect(process.address)) as client:
        client.ask(queue_declare("q", durable=True))
        sign.touch()
        if written == "message":
            client.publish(b"unknown", key="q", properties=PERSISTENT)
        else:
            client.send(queue_declare("unknown", durable=True))
        client.ask(ChannelOpen(), channel=2)  # who is answered has been heard
        process.terminate()
        assert process.wait() == 1
    assert "stopping with data unwritten" in process.log()
    sign.unlink()
    process.start()
    with closing(Client.connect(process.address)) as client:
        client.ask(queue_declare("q", passive=True))
    process.kill()
