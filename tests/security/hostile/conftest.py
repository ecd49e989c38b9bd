"""A broker that is attacked, a client that has nothing to do with it, and what the broker's process holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from harness.attacks.attack import Attack
from harness.attacks.benign_client import Good
from harness.brokers.broker_process import BrokerProcess

Started = Callable[..., BrokerProcess]
AnyClient = TypeVar("AnyClient")


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One broker for all attacks of a file, as it is by default: without checks of invariants.

    With thousands of channels those take eight times as long as all else that an attack makes it do.
    """
    process = BrokerProcess(tmp_path_factory.mktemp("hostile") / "data", check_invariants=False)
    process.start()
    yield process
    if process.running:
        process.kill()


@pytest.fixture
def limited(tmp_path: Path) -> Iterator[Started]:
    """A function that starts a broker with limits of its own: `limited(handshakes_max=5)`."""
    processes: list[BrokerProcess] = []

    def started(
        *, prefix: tuple[str, ...] = (), environment: dict[str, str] | None = None, **limits: int
    ) -> BrokerProcess:
        settings = tmp_path / f"{len(processes)}.toml"
        settings.write_text("[limits]\n" + "".join(f"{name} = {value}\n" for name, value in limits.items()))
        data_dir = tmp_path / f"data-{len(processes)}"
        processes.append(BrokerProcess(data_dir, "--config", str(settings), environment=environment))
        processes[-1].prefix = prefix
        processes[-1].start()
        return processes[-1]

    yield started
    for process in processes:
        if process.running:
            process.kill()


@pytest.fixture
def ends() -> Iterator[Callable[[AnyClient], AnyClient]]:
    """A function that passes on a client, a line or an attack, whose sockets are dropped at the end."""
    clients: list[Any] = []

    def noted(client: AnyClient) -> AnyClient:
        clients.append(client)
        return client

    yield noted
    for client in clients:
        if isinstance(client, Attack):
            client.end()
        elif isinstance(client, Good):
            client.client.close()
        else:
            client.close()


@pytest.fixture
def good(target: BrokerProcess) -> Iterator[Good]:
    """A client that publishes, is confirmed, consumes and acknowledges."""
    client = Good(target.address)
    yield client
    client.close()
