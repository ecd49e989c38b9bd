"""`rabbitmqctl stop_app` and `start_app`: a start in the same process, and what clients see of it.

What the commands print: tests/conformance/cli/node.commands.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from broker.admin.protocol import AdministrationError
from broker.wire.methods import ConfirmSelect, ConnectionClose, ConnectionCloseOk
from harness.brokers.broker_process import BrokerProcess
from harness.brokers.http_broker import ask, web_address, web_broker
from harness.clients.contents import PERSISTENT
from harness.clients.queue_steps import deposit, drain
from harness.clients.shorthand import queue_declare
from harness.clients.wire_client import Client
from harness.waiting import eventually


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    process = web_broker(tmp_path)
    process.start()
    yield process
    assert process.stop() == 0


def serves(broker: BrokerProcess) -> bool:
    """It does not answer while it starts."""
    with suppress(AdministrationError):
        return not broker.tell("show_version")["stopped"]
    return False


def test_an_application_that_is_stopped_keeps_what_a_restart_keeps(broker: BrokerProcess) -> None:
    """Its process goes on, and serves again on the ports that the system chose; nobody else is told of a stop."""
    pid, http = broker.pid, web_address(broker)
    client = Client.connect(broker.address)
    client.ask(queue_declare("kept", durable=True))
    client.ask(queue_declare("lost"))
    client.ask(ConfirmSelect(False))
    deposit(client, b"persistent", key="kept", properties=PERSISTENT)
    deposit(client, b"transient", key="kept")
    stopping = "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'"
    with ThreadPoolExecutor(1) as operator:
        operator.submit(broker.tell, "stop_application")
        assert client.expect(ConnectionClose, channel=0) == ConnectionClose(320, stopping, 0, 0)
        client.send(ConnectionCloseOk(), channel=0)
        client.close()
    for address in (broker.address, http):
        with pytest.raises(ConnectionRefusedError):
            Client(address)
    assert broker.tell("list_listeners") == []
    broker.tell("stop_application")
    broker.tell("start_application")
    eventually(lambda: serves(broker), "the broker to serve again")
    client = Client.connect(broker.address)
    assert drain(client, "kept") == [b"persistent"]
    assert [row["name"] for row in broker.tell("list_queues", vhost="/")] == ["kept"]
    client.close()
    assert (broker.tell("status")["pid"], web_address(broker)) == (pid, http)
    assert ask(http, "/api/overview").status == 200
