"""`leveret ship`: a running broker ships from a moment on, until it stops or is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.brokers.broker_process import BrokerProcess
from harness.clients.contents import PERSISTENT
from harness.clients.queue_steps import deposit
from harness.clients.shorthand import queue_declare
from harness.clients.wire_client import Client
from tests.durability.restart.test_around_a_crash import leveret
from tests.durability.shipping.test_drill import await_shipped, held

pytestmark = pytest.mark.slow


def test_what_was_there_before_and_meanwhile_is_restored(tmp_path: Path, away: Path) -> None:
    broker = BrokerProcess(tmp_path / "data")
    broker.start()
    client = Client.connect(broker.address)
    client.ask(queue_declare("q", durable=True))
    deposit(client, b"before", key="q", properties=PERSISTENT)
    refused = {
        ("--off",): "ships nothing",
        ("--to", str(tmp_path / "absent")): "No such file or directory",
        ("--to", "ftp://nas/leveret"): "expected a directory",
    }
    assert_refused(broker, refused)
    begun = leveret(broker.data_dir, "ship", "--to", str(away))
    assert begun.returncode == 0, begun
    assert "ship.to in its settings is what a start reads" in begun.stdout
    assert_refused(broker, {("--to", str(tmp_path)): "already: `leveret ship --off` ends that"})
    deposit(client, b"meanwhile", key="q", properties=PERSISTENT)
    assert await_shipped(broker)["to"] == str(away)
    assert leveret(broker.data_dir, "ship", "--off").returncode == 0
    deposit(client, b"after", key="q", properties=PERSISTENT)
    client.close()
    assert "ship" not in broker.tell("status")
    assert_refused(broker, {("--to", str(away)): "start the broker again, or name another place"})
    broker.kill()
    assert leveret(broker.data_dir, "restore", "--from", str(away), "--replace").returncode == 0
    broker.start()
    assert held(broker, "q") == [[b"before", b"meanwhile"]]
    broker.kill()


def assert_refused(broker: BrokerProcess, refusals: dict[tuple[str, ...], str]) -> None:
    for options, words in refusals.items():
        refused = leveret(broker.data_dir, "ship", *options)
        assert refused.returncode == 1, refused
        assert words in refused.stderr


def test_settings_are_not_overruled(shipped: BrokerProcess, away: Path) -> None:
    words = "ship.to in its settings says: change it there, and start again"
    assert_refused(shipped, {("--to", str(away)): words, ("--off",): words})
