"""Two brokers and one place: the one that was taken over from stops serving, and does not start again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.wire.methods import ConnectionClose
from harness.brokers.broker_process import BrokerProcess
from harness.clients.contents import PERSISTENT
from harness.clients.queue_steps import deposit
from harness.clients.shorthand import queue_declare
from harness.clients.wire_client import Client
from tests.durability.restart.test_around_a_crash import leveret
from tests.durability.shipping.test_drill import await_shipped, held


@pytest.fixture
def settings(tmp_path: Path, away: Path) -> Path:
    path = tmp_path / "leveret.toml"
    path.write_text(f'[ship]\nto = "{away}"\npiece_seconds = 0.05\n')
    return path


@pytest.fixture
def old(tmp_path: Path, settings: Path) -> Iterator[BrokerProcess]:
    """A broker that is shipped."""
    broker = BrokerProcess(tmp_path / "old")
    broker.options = ("--config", str(settings))
    broker.start()
    yield broker
    if broker.running:
        broker.kill()


@pytest.fixture
def new(tmp_path: Path, settings: Path) -> Iterator[BrokerProcess]:
    """Another one with the same settings, not started."""
    broker = BrokerProcess(tmp_path / "new")
    broker.options = ("--config", str(settings))
    yield broker
    if broker.running:
        broker.kill()


def refusal(broker: BrokerProcess) -> str:
    """The one line with which a start is refused."""
    done = leveret(broker.data_dir, "serve", "--listen", "127.0.0.1:0", *broker.http, *broker.options)
    assert (done.returncode, done.stdout) == (1, ""), done
    return done.stderr.splitlines()[-1]


@pytest.mark.slow
def test_a_broker_that_was_taken_over_from_stops_and_stays_stopped(
    old: BrokerProcess, new: BrokerProcess, settings: Path, away: Path
) -> None:
    client = Client.connect(old.address)
    client.ask(queue_declare("q", durable=True))
    deposit(client, b"a", b"b", key="q", properties=PERSISTENT)
    await_shipped(old)
    restored = leveret(new.data_dir, "restore", "--from", str(away))
    assert restored.returncode == 0, restored
    assert "is owned by another" in refusal(new)
    mistaken = leveret(new.data_dir.with_name("another"), "promote", "--config", str(settings))
    assert "no broker has run on the data directory" in mistaken.stderr, "and nobody is fenced"
    done = leveret(new.data_dir, "promote", "--config", str(settings))
    assert done.returncode == 0, done
    assert f"{old.data_dir}" in done.stdout
    new.start()
    (closed,) = client.expect_gone()
    client.close()
    assert isinstance(closed, ConnectionClose)
    assert (closed.reply_code, closed.reply_text) == (
        320,
        "CONNECTION_FORCED - broker forced connection closure with reason 'fenced'",
    )
    assert old.wait() == 1
    assert "is owned by another" in old.log()
    assert "is owned by another" in refusal(old)
    old.options = ()
    assert "`leveret promote` on this directory takes it back" in refusal(old)
    assert held(new, "q") == [[b"a", b"b"]]
    await_shipped(new)
    assert new.tell("status")["ship"]["epoch"] == 3
