"""Probes on the metrics port, as Kubernetes and the image's health check send them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.config import HttpSettings
from broker.server.server import DESCRIPTORS_RESERVED
from harness.brokers.broker_process import BrokerProcess
from harness.brokers.http_broker import ask, web_address
from harness.clients.wire_client import Client
from harness.waiting import eventually

DESCRIPTORS = DESCRIPTORS_RESERVED + 2 * HttpSettings().connections_max


CLIENTS = 2


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker with metrics, and descriptors for two clients."""
    if shutil.which("prlimit") is None:
        pytest.skip("there is no prlimit to lower the limit of open files with")
    process = BrokerProcess(tmp_path / "data", "--prometheus-listen", "127.0.0.1:0")
    process.http, process.prefix = process.http[:2], ("prlimit", f"--nofile={DESCRIPTORS + CLIENTS}")
    process.start()
    yield process
    process.stop()


def test_a_broker_is_live_and_ready_while_it_takes_clients(broker: BrokerProcess) -> None:
    """Without credentials; at the limit of connections it is live and not ready."""
    metrics = web_address(broker, "metrics")

    def probe(path: str, method: str = "GET") -> tuple[int, bytes]:
        return ask(metrics, path, method=method, user=None)[::2]

    assert probe("/healthz") == probe("/healthz/disk") == probe("/readyz") == (200, b"ok\n")
    assert (probe("/readyz", "HEAD"), probe("/healthz", "POST")) == ((200, b""), (405, b""))
    clients = [Client.connect(broker.address) for _ in range(CLIENTS)]
    assert probe("/readyz") == (503, b"connection limit reached (2)\n")
    assert probe("/healthz")[0] == 200
    for client in clients:
        client.close()
    eventually(lambda: probe("/readyz")[0] == 200, "room for a client")
