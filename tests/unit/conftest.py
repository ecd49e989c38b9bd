"""A broker core, sessions on it, brokers with settings and their clients, for the tests of single packages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.brokers.broker_core import Core
from harness.brokers.broker_process import BrokerProcess
from harness.brokers.certificate_authority import Authority
from harness.brokers.http_broker import WITHOUT_METRICS
from harness.clients.session_client import SessionLayer
from harness.clients.wire_client import Client

Configured = Callable[[str], BrokerProcess]
Dial = Callable[..., Client]


@pytest.fixture
def core(tmp_path: Path) -> Iterator[Core]:
    """A broker without server or clients, whose queues keep four messages in memory."""
    core = Core(tmp_path / "messages")
    yield core
    core.close()


@pytest.fixture
def damaged_core(tmp_path: Path) -> Iterator[Core]:
    """The same, for a test that damages the store behind its queues' backs: what they count is not true then."""
    core = Core(tmp_path / "messages", check_invariants=False)
    yield core
    core.close()


@pytest.fixture
def sessions(tmp_path: Path) -> Iterator[SessionLayer]:
    """A broker with sessions and without sockets. Durable things are on disk when the test says so."""
    core = Core(tmp_path / "messages")
    layer = SessionLayer(core)
    yield layer
    layer.registry.check()
    core.close()


@pytest.fixture
def configured(tmp_path: Path) -> Iterator[Configured]:
    """A function that starts a broker with settings in TOML; it is stopped at the end, if it still runs."""
    started: list[BrokerProcess] = []

    def start(settings: str) -> BrokerProcess:
        config = tmp_path / "leveret.toml"
        config.write_text(settings)
        process = BrokerProcess(tmp_path / "data", "--config", str(config))
        if "management" in settings:
            process.http = WITHOUT_METRICS
        started.append(process)
        process.start()
        return process

    yield start
    for process in started:
        if process.running:
            assert process.stop() == 0, process.log()


@pytest.fixture
def dial() -> Iterator[Dial]:
    """A function that logs in to a broker, with `Client.connect`'s keywords; all are dropped at the end."""
    clients: list[Client] = []

    def dialled(broker: BrokerProcess, **options: Any) -> Client:
        clients.append(Client.connect(broker.address, **options))
        return clients[-1]

    yield dialled
    for client in clients:
        client.close()


@pytest.fixture(scope="module")
def file_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker for a file's tests, which use names of their own and leave it running."""
    process = BrokerProcess(tmp_path_factory.mktemp("shared") / "data")
    process.start()
    yield process
    assert process.stop() == 0
    assert "Traceback" not in process.log()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """The authority that signs the certificates of a file's tests."""
    return Authority(tmp_path_factory.mktemp("authority"))
