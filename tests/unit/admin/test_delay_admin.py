"""Delayed messages as an operator sees them, of a running broker and of a stopped one."""

from __future__ import annotations

from typing import Any

from broker.admin.protocol import ask
from broker.config import Config, Server
from broker.server import offline
from harness.brokers.broker_process import BrokerProcess
from harness.clients.contents import with_headers
from harness.clients.queue_steps import deposit
from harness.clients.shorthand import exchange_declare
from harness.clients.wire_client import Client


def test_waiting_messages_are_counted(fresh_broker: BrokerProcess) -> None:
    """RabbitMQ's plugin names the column `messages_delayed`."""
    config = Config(server=Server(data_dir=str(fresh_broker.data_dir)))

    def tell(command: str, **arguments: object) -> Any:
        return offline.run(config, command, arguments)

    arguments = {"x-delayed-type": "topic"}
    client = Client.connect(fresh_broker.address)
    client.ask(exchange_declare("later", "x-delayed-message", durable=True, arguments=arguments))
    deposit(client, b"1", b"2", key="k", exchange="later", properties=with_headers({"x-delay": 600_000}))
    client.close()
    running = ask(fresh_broker.data_dir, "list_exchanges", {"vhost": "/"}, 20.0)
    assert {row["name"]: row["messages_delayed"] for row in running if row["messages_delayed"]} == {"later": 2}
    assert fresh_broker.stop() == 0
    assert {row["name"]: row["messages_delayed"] for row in tell("list_exchanges", vhost="/")}["later"] == 2
    found = tell("check")
    assert (found["problems"], found["messages"], found["queues"]) == ([], 2, 0)
    exported = tell("export_definitions")
    assert [row["arguments"] for row in exported["exchanges"]] == [arguments]
