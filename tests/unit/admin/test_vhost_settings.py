"""Settings of a virtual host: its default queue type, and whether it is traced.

The expectations were recorded from RabbitMQ 3.10.8: `rabbitmqctl add_vhost v --default-queue-type quorum`, `trace_on`
and `trace_off`.
"""

from __future__ import annotations

import pytest

from broker.admin.protocol import AdministrationError
from harness.brokers.broker_process import BrokerProcess
from harness.clients.queue_steps import deposit, drain, drain_messages
from harness.clients.shorthand import queue_bind, queue_declare
from harness.clients.wire_client import Client

pytestmark = pytest.mark.slow

QUORUM, CLASSIC = {"x-queue-type": "quorum"}, {"x-queue-type": "classic"}


def test_a_default_queue_type(file_broker: BrokerProcess) -> None:
    """It is given to queues that can be of it, compared, checked and exported like one that was asked for."""

    def types() -> dict[str, tuple[str, dict[str, str]]]:
        return {row["name"]: (row["type"], row["arguments"]) for row in file_broker.tell("list_queues", vhost="v")}

    file_broker.tell("add_vhost", name="v", description="", tags=[], default_queue_type="quorum")
    file_broker.tell("set_permissions", vhost="v", user="guest", configure=".*", write=".*", read=".*")
    client = Client.connect(file_broker.address, vhost="v")
    client.ask(queue_declare("lasting", durable=True))
    client.ask(queue_declare("transient"))
    client.ask(queue_declare("auto", durable=True, auto_delete=True))
    client.ask(queue_declare("mine", durable=True, exclusive=True))
    client.ask(queue_declare("told", durable=True, arguments=CLASSIC))
    # 3.10 adds no argument to queues that cannot be of the type; 3.13 adds classic.
    classic = ("classic", CLASSIC)
    durable = {"lasting": ("quorum", QUORUM), "auto": classic, "told": classic}
    assert types() == {**durable, "transient": classic, "mine": classic}
    client.ask(queue_declare("lasting", durable=True))
    client.ask(queue_declare("lasting", durable=True, arguments=QUORUM))
    different = "inequivalent arg 'x-queue-type' for queue '{}' in vhost 'v': received '{}' but current is '{}'"
    for declared, refused in (
        (queue_declare("lasting", durable=True, arguments=CLASSIC), different.format("lasting", "classic", "quorum")),
        (queue_declare("told", durable=True), different.format("told", "quorum", "classic")),
        (queue_declare("", durable=True), "Cannot declare a server-named queue for type rabbit_quorum_queue"),
        (
            queue_declare("levels", durable=True, arguments={"x-max-priority": 5}),
            "invalid arg 'x-max-priority' for queue 'levels' in vhost 'v' of queue type rabbit_quorum_queue",
        ),
    ):
        assert client.refusal(declared) == f"channel 406 PRECONDITION_FAILED - {refused}"
    client.close()
    file_broker.kill_and_restart()
    assert types() == durable
    client = Client.connect(file_broker.address, vhost="v")
    client.ask(queue_declare("another", durable=True))
    client.close()
    exported = file_broker.tell("export_definitions")
    rows = {row["name"]: (row["type"], row["arguments"]) for row in exported["queues"]}
    assert rows == {**durable, "another": ("quorum", QUORUM)}
    file_broker.tell("import_definitions", definitions=exported)


def test_tracing_is_switched_on_and_off_and_ends_with_the_broker(file_broker: BrokerProcess) -> None:
    """RabbitMQ 3.10.8: trace_on, trace_off; once more does no harm. A setting of the running node, not a definition."""

    def traced() -> dict[str, bool]:
        return {row["name"]: row["tracing"] for row in file_broker.tell("list_vhosts") if row["name"] == "/"}

    client = Client.connect(file_broker.address)
    client.ask(queue_declare("told", durable=True))
    client.ask(queue_bind("told", "amq.rabbitmq.trace", "publish.#"))
    assert traced() == {"/": False}
    for _ in range(2):
        file_broker.tell("trace_on", vhost="/")
    assert traced() == {"/": True}
    deposit(client, b"x", exchange="amq.topic", key="k")
    (message,) = drain_messages(client, "told")
    assert (message.method.routing_key, message.body) == ("publish.amq.topic", b"x")
    for _ in range(2):
        file_broker.tell("trace_off", vhost="/")
    deposit(client, b"y", exchange="amq.topic", key="k")
    assert drain(client, "told") == []
    client.close()
    file_broker.tell("trace_on", vhost="/")
    file_broker.restart()
    assert traced() == {"/": False}
    with pytest.raises(AdministrationError, match="Virtual host 'nowhere' does not exist"):
        file_broker.tell("trace_on", vhost="nowhere")
