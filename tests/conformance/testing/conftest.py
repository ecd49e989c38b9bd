"""A broker that takes orders of tests, and the orders by HTTP. Each test finds it empty."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from harness.brokers.broker_process import BrokerProcess
from harness.brokers.http_broker import ask, web_address, web_broker
from harness.clients.wire_client import Address, Client
from tests.conformance import Connect

SETTINGS = "[testing]\nenabled = true\n"


class Orders(NamedTuple):
    """Gives orders to one broker, and asks its API."""

    address: Address

    def __call__(self, path: str, *, method: str = "POST", status: int = 200, **arguments: Any) -> Any:
        """Have an order carried out, `clock/step`; its answer, or why it was refused."""
        return self.api(f"testing/{path}".rstrip("/"), method=method, status=status, **arguments)

    def api(self, path: str, *, method: str = "GET", status: int = 200, **arguments: Any) -> Any:
        """Ask for anything of the API."""
        body = json.dumps(arguments).encode() if arguments else None
        reply = ask(self.address, f"/api/{path}", method=method, body=body)
        answer = json.loads(reply.body) if reply.body else None
        assert reply.status == status, answer
        return answer["reason"] if status >= 400 else answer


@pytest.fixture(scope="package")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """The broker of all tests of this folder."""
    process = web_broker(tmp_path_factory.mktemp("testing"), SETTINGS)
    process.start()
    yield process
    process.stop()


@pytest.fixture
def order(process: BrokerProcess) -> Orders:
    """Gives orders to a broker that has just been reset."""
    orders = Orders(web_address(process))
    orders("reset")
    return orders


@pytest.fixture
def broker(process: BrokerProcess, order: Orders) -> Address:
    """Address of the broker for clients."""
    return process.address


@pytest.fixture
def connect(broker: Address) -> Iterator[Connect]:
    """A function that connects one more client; all go at the end."""
    clients: list[Client] = []

    def connected(**login: Any) -> Client:
        clients.append(Client.connect(broker, **login))
        return clients[-1]

    yield connected
    for client in clients:
        client.close()


@pytest.fixture
def client(connect: Connect) -> Client:
    """One client with channel 1 open."""
    return connect()


@pytest.fixture
def told(process: BrokerProcess) -> Callable[[str], bool]:
    """Return a function: does the log have a line with these words since the test began?"""
    before = len(process.log())
    return lambda words: words in process.log()[before:]
