"""A clean stop, and starts that must be refused: what clients see, what the process prints, what is touched."""

from __future__ import annotations

import hashlib
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.wire.methods import (
    BasicAck,
    BasicDeliver,
    ConfirmSelect,
    ConnectionClose,
    ConnectionCloseOk,
    QueueDeclareOk,
)
from harness.brokers.broker_process import BrokerProcess
from harness.clients.contents import PERSISTENT
from harness.clients.queue_steps import deposit, drain
from harness.clients.shorthand import consume, queue_declare
from harness.clients.wire_client import Client
from harness.project import ROOT

Dial = Callable[[], Client]

pytestmark = pytest.mark.slow

SHUTDOWN = ConnectionClose(320, "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'", 0, 0)
STOP_SECONDS_MAX = 5.0
"""The promise: a stop takes no longer, whatever clients do."""


class Flood(threading.Thread):
    """A client that publishes and consumes as fast as it can until the broker sends it away."""

    def __init__(self, client: Client, queue: str) -> None:
        super().__init__()
        self.client = client
        self.queue = queue
        self.confirmed = 0
        self.closed: ConnectionClose | None = None
        self.under_way = threading.Event()
        client.ask(ConfirmSelect(False))

    def run(self) -> None:
        sent = 0
        try:
            while True:
                for number in range(sent, sent + 20):
                    self.client.publish(b"%d" % number, key=self.queue, properties=PERSISTENT)
                sent += 20
                while self.confirmed < sent:
                    item = self.client.receive()
                    if isinstance(item, ConnectionClose):
                        self.closed = item
                        self.client.send(ConnectionCloseOk(), channel=0)
                        self.client.expect_gone()
                        return
                    assert isinstance(item, BasicAck), item
                    self.confirmed = max(self.confirmed, item.delivery_tag)
                if self.confirmed >= 400:
                    self.under_way.set()
        except (ConnectionError, EOFError):
            self.closed = next((i for i in self.client.expect_gone() if isinstance(i, ConnectionClose)), None)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_under_load_loses_nothing(fresh_broker: BrokerProcess, dial: Dial, number: signal.Signals) -> None:
    """Exit code 0 in time; each client is told why; everything confirmed is there afterwards, once and in order."""
    client = dial()
    floods = []
    for queue in ("a", "b", "c"):
        client.ask(queue_declare(queue, durable=True))
        floods.append(Flood(dial(), queue))
    client.close()
    for flood in floods:
        flood.start()
    for flood in floods:
        assert flood.under_way.wait(20)
    begun = time.monotonic()
    fresh_broker.signal(number)
    assert fresh_broker.wait() == 0, fresh_broker.log()
    assert time.monotonic() - begun < STOP_SECONDS_MAX
    for flood in floods:
        flood.join()
    assert [flood.closed for flood in floods] == [SHUTDOWN] * 3
    fresh_broker.start()
    client = dial()
    for flood in floods:
        found = [int(body) for body in drain(client, flood.queue)]
        assert found == list(range(len(found)))
        assert len(found) >= flood.confirmed


def test_a_stop_right_after_the_start(fresh_broker: BrokerProcess) -> None:
    """Whoever reads the ready line may send SIGTERM the next moment."""
    for _ in range(8):
        assert fresh_broker.stop() == 0, fresh_broker.log()
        fresh_broker.start()


def test_a_client_that_does_not_listen_cannot_hold_the_stop_up(fresh_broker: BrokerProcess, dial: Dial) -> None:
    """Neither one that answers nothing, nor one whose buffers are full, nor one that never said a word."""
    stuck = dial()
    stuck.ask(queue_declare("q"))
    stuck.ask(consume("q", no_ack=True))
    deposit(dial(), *[b"x" * 100_000] * 200, key="q")
    silent = socket.create_connection(fresh_broker.address)
    begun = time.monotonic()
    assert fresh_broker.stop() == 0, fresh_broker.log()
    assert time.monotonic() - begun < STOP_SECONDS_MAX
    silent.close()


def test_an_idle_client_is_told(fresh_broker: BrokerProcess, dial: Dial) -> None:
    """RabbitMQ 3.10.8 on the wire: connection.close 320, caused by no method."""
    client = dial()
    fresh_broker.terminate()
    assert client.expect_gone() == [SHUTDOWN]
    assert fresh_broker.wait() == 0, fresh_broker.log()


def test_what_was_unconfirmed_in_memory_is_flushed_by_a_stop(fresh_broker: BrokerProcess, dial: Dial) -> None:
    """Nobody asked for a confirm; a clean stop writes it all the same, acknowledgements too."""
    client = dial()
    client.ask(queue_declare("q", durable=True))
    for number in range(100):
        client.publish(b"%d" % number, key="q", properties=PERSISTENT)
    client.ask(consume("q", no_ack=True))
    client.expect_message(BasicDeliver)
    fresh_broker.terminate()
    items = client.expect_gone()
    delivered = 1 + sum(1 for item in items if not isinstance(item, ConnectionClose))
    assert fresh_broker.wait() == 0, fresh_broker.log()
    fresh_broker.start()
    client = dial()
    left = drain(client, "q")
    assert left == [b"%d" % number for number in range(100 - len(left), 100)]
    assert len(left) <= 100 - delivered


# --- starts that are refused ---


class Refusal:
    """Run `serve` where it must not start."""

    def __init__(self, data_dir: Path, address: str = "127.0.0.1:0") -> None:
        self.data_dir = data_dir
        command = [sys.executable, "-m", "broker", "serve", "--data-dir", str(data_dir), "--listen", address]
        result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=20, check=False)
        self.code, self.out = result.returncode, result.stdout
        self.errors = [line for line in result.stderr.splitlines() if line]

    def expect(self, *words: str) -> None:
        """One line that has these words, exit code 1, and nothing that looks like a start."""
        assert (self.code, self.out) == (1, ""), self.errors
        assert len(self.errors) == 1, self.errors
        assert self.errors[0].startswith("leveret: error: ")
        for word in words:
            assert word in self.errors[0]


def contents(directory: Path) -> dict[str, str]:
    """Every file of a directory with its hash."""
    files = sorted(path for path in directory.rglob("*") if path.is_file())
    return {str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.fixture
def stopped(fresh_broker: BrokerProcess, dial: Dial) -> Path:
    """The data directory of a stopped broker that has a message."""
    client = dial()
    client.ask(queue_declare("q", durable=True))
    deposit(client, b"kept", key="q", properties=PERSISTENT)
    client.close()
    assert fresh_broker.stop() == 0, fresh_broker.log()
    return fresh_broker.data_dir


def test_a_second_broker_on_the_same_data(fresh_broker: BrokerProcess, dial: Dial) -> None:
    """The first one goes on."""
    client = dial()
    client.ask(queue_declare("q", durable=True))
    deposit(client, b"1", key="q", properties=PERSISTENT)
    Refusal(fresh_broker.data_dir).expect(str(fresh_broker.data_dir))
    deposit(client, b"2", key="q", properties=PERSISTENT)
    fresh_broker.kill_and_restart()
    assert drain(dial(), "q") == [b"1", b"2"]


def test_a_port_in_use(fresh_broker: BrokerProcess, tmp_path: Path) -> None:
    """Nothing is made where nothing can run."""
    host, port = fresh_broker.address
    Refusal(tmp_path / "data", f"{host}:{port}").expect(f"{host}:{port}")
    assert not (tmp_path / "data").exists()


def test_newer_definitions(fresh_broker: BrokerProcess, stopped: Path, dial: Dial) -> None:
    """Refused untouched; the release that wrote it could still read it."""
    file = stopped / "definitions.sqlite"
    version = set_schema_version(file, 9999)
    before = contents(stopped)
    Refusal(stopped).expect("definitions.sqlite", "9999")
    assert contents(stopped) == before
    set_schema_version(file, version)
    fresh_broker.start()
    assert drain(dial(), "q") == [b"kept"]


def set_schema_version(file: Path, version: int) -> int:
    connection = sqlite3.connect(file)
    try:
        (before,) = connection.execute("PRAGMA user_version").fetchone()
        connection.execute(f"PRAGMA user_version = {version}")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        connection.close()
    return int(before)


@pytest.mark.parametrize("file", ["definitions.sqlite", "messages/data.mdb"])
def test_a_store_that_is_something_else(stopped: Path, file: str) -> None:
    """A file that is no store of ours is named and left alone."""
    assert (stopped / file).exists()
    (stopped / file).write_bytes(b"this is a letter to my aunt\n" * 4096)
    before = contents(stopped)
    Refusal(stopped).expect(file)
    assert contents(stopped) == before


def test_definitions_that_were_lost_do_not_cost_the_messages(
    fresh_broker: BrokerProcess, stopped: Path, dial: Dial
) -> None:
    """The message store belongs to definitions that are not here: refused, and whole when they are back."""
    hidden = stopped.parent / "hidden"
    hidden.mkdir()
    for path in stopped.glob("definitions.sqlite*"):
        path.rename(hidden / path.name)
    Refusal(stopped).expect("definitions.sqlite")
    for path in hidden.iterdir():
        path.rename(stopped / path.name)
    fresh_broker.start()
    client = dial()
    assert client.ask(queue_declare("q", passive=True)) == QueueDeclareOk("q", 1, 0)
    assert drain(client, "q") == [b"kept"]


def test_definitions_of_another_broker(stopped: Path, tmp_path: Path) -> None:
    """Two brokers' files must not be mixed: each names the other's identity."""
    other = BrokerProcess(tmp_path / "other")
    other.start()
    assert other.stop() == 0, other.log()
    for path in stopped.glob("definitions.sqlite*"):
        path.unlink()
    for path in other.data_dir.glob("definitions.sqlite*"):
        path.rename(stopped / path.name)
    before = contents(stopped / "messages")
    Refusal(stopped).expect(str(stopped))
    assert contents(stopped / "messages") == before
