"""Connections to a test's own broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from harness.brokers.broker_process import BrokerProcess
from harness.clients.wire_client import Client

Dial = Callable[[], Client]


@pytest.fixture
def dial(fresh_broker: BrokerProcess) -> Iterator[Dial]:
    """A function that connects to the test's own broker; the connections are dropped at the end."""
    clients: list[Client] = []

    def dialled() -> Client:
        clients.append(Client.connect(fresh_broker.address))
        return clients[-1]

    yield dialled
    for client in clients:
        client.close()
