"""`leveret trace on` and `off` on a running broker."""

from __future__ import annotations

from typing import Any

import pytest

from broker.admin.protocol import AdministrationError, ask
from harness.brokers.broker_process import BrokerProcess
from harness.clients.queue_steps import deposit, drain, drain_messages
from harness.clients.shorthand import queue_bind, queue_declare
from harness.clients.wire_client import Client

pytestmark = pytest.mark.slow


def tell(broker: BrokerProcess, command: str, **arguments: object) -> Any:
    return ask(broker.data_dir, command, arguments, 20.0)


def traced(broker: BrokerProcess) -> dict[str, bool]:
    return {row["name"]: row["tracing"] for row in tell(broker, "list_vhosts")}


def test_tracing_is_switched_on_and_off(fresh_broker: BrokerProcess) -> None:
    """RabbitMQ 3.10.8: rabbitmqctl trace_on, trace_off; once more does no harm."""
    client = Client.connect(fresh_broker.address)
    client.ask(queue_declare("told", durable=True))
    client.ask(queue_bind("told", "amq.rabbitmq.trace", "publish.#"))
    assert traced(fresh_broker) == {"/": False}
    for _ in range(2):
        tell(fresh_broker, "trace_on", vhost="/")
    assert traced(fresh_broker) == {"/": True}
    deposit(client, b"x", exchange="amq.topic", key="k")
    (message,) = drain_messages(client, "told")
    assert (message.method.routing_key, message.body) == ("publish.amq.topic", b"x")
    for _ in range(2):
        tell(fresh_broker, "trace_off", vhost="/")
    deposit(client, b"y", exchange="amq.topic", key="k")
    assert drain(client, "told") == []
    client.close()


def test_tracing_ends_with_the_broker(fresh_broker: BrokerProcess) -> None:
    """RabbitMQ: a setting of the running node, in no definitions."""
    tell(fresh_broker, "trace_on", vhost="/")
    fresh_broker.restart()
    assert traced(fresh_broker) == {"/": False}


def test_tracing_where_there_is_nothing(fresh_broker: BrokerProcess) -> None:
    with pytest.raises(AdministrationError, match="Virtual host 'nowhere' does not exist"):
        tell(fresh_broker, "trace_on", vhost="nowhere")
