"""Fixtures of most tests on the wire."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from broker.entities.arguments.personality import Series
from broker.wire.field_tables import to_python
from harness.brokers.broker_process import BrokerProcess
from harness.brokers.http_broker import web_broker
from harness.brokers.rabbitmq_reference import OF_3_10, REFERENCE, REFERENCE_SERIES
from harness.clients.shorthand import exchange_declare, exchange_delete, queue_bind, queue_declare, queue_delete
from harness.clients.wire_client import Address, Client
from tests.conformance import Connect, Made
from tests.conformance.changed_in_4_3 import CHANGED, DIFFERENT, reason


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Expect of a reference of 4.3 what has changed since 3.10."""
    for item in items if REFERENCE_SERIES == "4.3" else ():
        for table, strict in ((CHANGED, True), (DIFFERENT, False)):
            why = reason(table, item.nodeid)
            if why:
                item.add_marker(pytest.mark.xfail(reason=why, strict=strict))


@pytest.fixture(scope="module")
def web_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker with the management API. A folder has it for all its tests as `shared_process`."""
    process = web_broker(tmp_path_factory.mktemp("web"))
    process.start()
    yield process
    process.stop()


@pytest.fixture(scope="module")
def address_of_4_3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    """A broker of 4.3: the reference if it is one, or our own with that personality."""
    if OF_3_10:
        pytest.skip("the reference is RabbitMQ 3.10")
    if REFERENCE:
        host, _, port = REFERENCE.rpartition(":")
        yield host, int(port)
        return
    directory = tmp_path_factory.mktemp("of_4_3")
    settings = directory / "settings.toml"
    settings.write_text('[identity]\npersonality = "4.3"\n')
    process = BrokerProcess(directory / "data")
    process.options = ("--config", str(settings))
    process.start()
    yield process.address
    process.stop()


@pytest.fixture
def series(client: Client) -> Series:
    """The series of RabbitMQ that the broker says it is: (3, 13)."""
    major, minor, *_ = to_python(client.peer.server_start.server_properties)["version"].split(".")
    return int(major), int(minor)


def _table(arguments: dict[str, Any]) -> dict[str, Any]:
    """Python's names of arguments as they are on the wire: `max_length` is x-max-length."""
    return {"x-" + key.replace("_", "-"): value for key, value in arguments.items()}


@pytest.fixture
def queue(new_queue: Made) -> str:
    """An empty exclusive queue of the client, bound to nothing but the default exchange."""
    return new_queue()


@pytest.fixture
def new_queue(client: Client, name: Made) -> Made:
    """A function that declares exclusive queues of the client; `max_length=3` is the argument x-max-length.

    `new_queue(exchange, key)` is bound at once.
    """

    def declared(exchange: str = "", key: str = "", **arguments: Any) -> str:
        queue = str(client.ask(queue_declare(name(), exclusive=True, arguments=_table(arguments))).queue)
        if exchange:
            client.ask(queue_bind(queue, exchange, key))
        return queue

    return declared


@pytest.fixture
def declare(connect: Connect, name: Made) -> Iterator[Made]:
    """A function that declares queues for any connection; all are deleted at the end."""
    owner, made = connect(), []

    def declared(**arguments: Any) -> str:
        made.append(name())
        owner.ask(queue_declare(made[-1], durable="queue_type" in arguments, arguments=_table(arguments)))
        return made[-1]

    yield declared
    for queue in made:
        owner.ask(queue_delete(queue))


@pytest.fixture
def new_exchange(client: Client, connect: Connect, name: Made) -> Iterator[Made]:
    """A function that declares exchanges, the options as in `exchange_declare`; all are deleted at the end."""
    made: list[str] = []

    def declared(kind: str = "direct", **options: Any) -> str:
        made.append(name("x"))
        client.ask(exchange_declare(made[-1], kind, **options))
        return made[-1]

    yield declared
    owner = connect()
    for exchange in made:
        owner.ask(exchange_delete(exchange))
