"""Headers that the broker adds to each message: as RabbitMQ 4.3.6 does with both interceptors in rabbitmq.conf."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.wire.field_tables import Table, from_python, to_python
from broker.wire.methods import BasicGetOk, TxCommit, TxSelect
from broker.wire.properties import BasicProperties
from harness.brokers.broker_process import BrokerProcess
from harness.brokers.rabbitmq_reference import REFERENCE
from harness.clients.shorthand import get, queue_declare
from harness.clients.wire_client import Client

pytestmark = pytest.mark.skipif(bool(REFERENCE), reason="takes settings of its own")

SETTINGS = """[identity]
node_name = "rabbit@here"
[message_interceptors]
timestamp = "{0}"
routing_node = "{0}"
"""
THEIRS = {"timestamp_in_ms": 5, "x-routed-by": "elsewhere", "other": "kept"}


@pytest.fixture(scope="module", params=["add", "overwrite"])
def how(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def process(how: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    directory: Path = tmp_path_factory.mktemp("interceptors")
    settings = directory / "settings.toml"
    settings.write_text(SETTINGS.format(how))
    process = BrokerProcess(directory / "data")
    process.options = ("--config", str(settings))
    process.start()
    yield process
    process.stop()


@pytest.fixture
def client(process: BrokerProcess) -> Iterator[Client]:
    client = Client.connect(process.address)
    yield client
    client.close()


def taken(client: Client, queue: str) -> BasicProperties:
    client.send(get(queue, no_ack=True))
    return client.expect_message(BasicGetOk).properties


def headers(table: Table | None) -> dict[str, object]:
    return to_python(table or {})


def test_a_message_without_headers(client: Client) -> None:
    queue = client.ask(queue_declare("", exclusive=True)).queue
    before = time.time_ns() // 1_000_000
    client.publish(b"x", key=queue)
    properties = taken(client, queue)
    after = time.time_ns() // 1_000_000
    found = headers(properties.headers)
    assert set(found) == {"timestamp_in_ms", "x-routed-by"}
    assert found["x-routed-by"] == "rabbit@here"
    stamped = found["timestamp_in_ms"]
    assert isinstance(stamped, int)
    assert before - 1 <= stamped <= after + 1
    assert properties.timestamp == stamped // 1000
    assert properties.headers is not None
    assert properties.headers["timestamp_in_ms"].kind == "l"


def test_headers_of_the_publisher(client: Client, how: str) -> None:
    """Kept or replaced, as the setting says; also in a transaction."""
    queue = client.ask(queue_declare("", exclusive=True)).queue
    client.ask(TxSelect())
    client.publish(b"x", key=queue, properties=BasicProperties(headers=from_python(THEIRS), timestamp=7))
    client.ask(TxCommit())
    properties = taken(client, queue)
    found = headers(properties.headers)
    assert found["other"] == "kept"
    if how == "add":
        assert (found, properties.timestamp) == (THEIRS, 7)
    else:
        assert found["x-routed-by"] == "rabbit@here"
        assert found["timestamp_in_ms"] != 5
        assert properties.timestamp != 7
