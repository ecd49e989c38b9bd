"""A broker that is ended, in order or by SIGKILL, and started again on the same data and port."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from harness.brokers.broker_process import BrokerProcess
from harness.clients.wire_client import Client
from storage.messages.verify_messages import verify

Dial = Callable[[], Client]


@pytest.fixture
def clients() -> Iterator[list[Client]]:
    """The connections a test has opened; they are dropped at the end."""
    clients: list[Client] = []
    yield clients
    for client in clients:
        client.close()


@pytest.fixture
def dial(fresh_broker: BrokerProcess, clients: list[Client]) -> Dial:
    """A function that connects to the test's own broker."""

    def dialled() -> Client:
        clients.append(Client.connect(fresh_broker.address))
        return clients[-1]

    return dialled


@pytest.fixture(params=["stop", "kill"])
def reborn(
    request: pytest.FixtureRequest, fresh_broker: BrokerProcess, dial: Dial, clients: list[Client]
) -> Iterator[Dial]:
    """A function that ends the broker, starts it again and connects. At the end the store must be found sound.

    Connections are open until the broker ends them, or dies.
    """

    def reborn() -> Client:
        if request.param == "stop":
            stop_politely(fresh_broker, clients)
        else:
            fresh_broker.kill()
        fresh_broker.start()
        return dial()

    yield reborn
    stop_politely(fresh_broker, clients)
    expect_sound_store(fresh_broker)


def stop_politely(broker: BrokerProcess, clients: list[Client]) -> None:
    """Stop the broker while its clients are connected; they answer its connection.close."""
    broker.terminate()
    for client in clients:
        client.expect_gone()
        client.close()
    clients.clear()
    assert broker.wait() == 0, broker.log()


def expect_sound_store(broker: BrokerProcess) -> None:
    """Have a stopped broker's messages verified: checksums, counters against segments, orphans, references."""
    report = verify(broker.data_dir / "messages")
    assert (report.problems, report.set_aside) == ([], 0)
