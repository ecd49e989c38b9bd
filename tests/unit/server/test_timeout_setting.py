"""The time-out for acknowledgements in the running broker, with its real clock."""

from __future__ import annotations

import pytest

from broker.wire.methods import BasicDeliver
from harness.clients.shorthand import consume, queue_declare
from tests.unit.conftest import Configured, Dial


@pytest.mark.slow
def test_an_idle_broker_closes_the_channel_by_itself(configured: Configured, dial: Dial) -> None:
    """RabbitMQ 3.10.8 on the wire, with its `consumer_timeout` lowered."""
    client = dial(configured("[limits]\nconsumer_timeout_seconds = 0.2\n"))
    client.ask(queue_declare("q"))
    client.ask(consume("q", "t"))
    client.publish(b"x", key="q")
    client.expect_message(BasicDeliver)
    assert client.closing().startswith(
        "channel 406 PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out. Timeout value used: 200 ms."
    )
    assert client.ask(queue_declare("q", passive=True)).message_count == 1
