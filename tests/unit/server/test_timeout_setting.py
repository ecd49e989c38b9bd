"""The time-out for acknowledgements in the running broker, with its real clock."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.wire.methods import BasicDeliver
from harness.brokers.broker_process import BrokerProcess
from harness.clients.shorthand import consume, queue_declare
from harness.clients.wire_client import Address, Client


@pytest.fixture
def impatient(tmp_path: Path) -> Iterator[Address]:
    """A broker that waits a fifth of a second for acknowledgements."""
    config = tmp_path / "leveret.toml"
    config.write_text("[limits]\nconsumer_timeout_seconds = 0.2\n")
    process = BrokerProcess(tmp_path / "data", "--config", str(config))
    process.start()
    yield process.address
    process.stop()


@pytest.mark.slow
def test_an_idle_broker_closes_the_channel_by_itself(impatient: Address) -> None:
    """RabbitMQ 3.10.8 on the wire, with its `consumer_timeout` lowered."""
    client = Client.connect(impatient)
    client.ask(queue_declare("q"))
    client.ask(consume("q", "t"))
    client.publish(b"x", key="q")
    client.expect_message(BasicDeliver)
    assert client.closing().startswith(
        "channel 406 PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out. Timeout value used: 200 ms."
    )
    assert client.ask(queue_declare("q", passive=True)).message_count == 1
    client.close()
