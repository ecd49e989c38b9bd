"""The default queue type of a virtual host.

The expectations were recorded from RabbitMQ 3.10.8 with `rabbitmqctl add_vhost v --default-queue-type quorum`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from broker.admin.protocol import ask
from harness.brokers.broker_process import BrokerProcess
from harness.clients.shorthand import queue_declare
from harness.clients.wire_client import Client

pytestmark = pytest.mark.slow

QUORUM = {"x-queue-type": "quorum"}


@pytest.fixture
def client(fresh_broker: BrokerProcess) -> Iterator[Client]:
    """Connected to a virtual host where queues are of type quorum unless they say otherwise."""
    tell(fresh_broker, "add_vhost", name="v", description="", tags=[], default_queue_type="quorum")
    tell(fresh_broker, "set_permissions", vhost="v", user="guest", configure=".*", write=".*", read=".*")
    client = Client.connect(fresh_broker.address, vhost="v")
    yield client
    client.close()


def tell(process: BrokerProcess, command: str, **arguments: object) -> Any:
    return ask(process.data_dir, command, arguments, 20.0)


def types(process: BrokerProcess) -> dict[str, tuple[str, dict[str, str]]]:
    rows = tell(process, "list_queues", vhost="v")
    return {row["name"]: (row["type"], row["arguments"]) for row in rows}


def test_it_holds_for_queues_that_can_be_of_it(fresh_broker: BrokerProcess, client: Client) -> None:
    client.ask(queue_declare("lasting", durable=True))
    client.ask(queue_declare("transient"))
    client.ask(queue_declare("auto", durable=True, auto_delete=True))
    client.ask(queue_declare("mine", durable=True, exclusive=True))
    client.ask(queue_declare("told", durable=True, arguments={"x-queue-type": "classic"}))
    assert types(fresh_broker) == {
        "lasting": ("quorum", QUORUM),
        "transient": ("classic", {}),
        "auto": ("classic", {}),
        "mine": ("classic", {}),
        "told": ("classic", {"x-queue-type": "classic"}),
    }


def test_it_is_part_of_what_is_compared(client: Client) -> None:
    client.ask(queue_declare("q", durable=True))
    client.ask(queue_declare("q", durable=True))
    client.ask(queue_declare("q", durable=True, arguments=QUORUM))
    where = "for queue '{}' in vhost 'v'"
    assert client.refusal(queue_declare("q", durable=True, arguments={"x-queue-type": "classic"})) == (
        "channel 406 PRECONDITION_FAILED - "
        f"inequivalent arg 'x-queue-type' {where.format('q')}: received 'classic' but current is 'quorum'"
    )
    client.ask(queue_declare("c", durable=True, arguments={"x-queue-type": "classic"}))
    assert client.refusal(queue_declare("c", durable=True)) == (
        "channel 406 PRECONDITION_FAILED - "
        f"inequivalent arg 'x-queue-type' {where.format('c')}: received 'quorum' but current is 'classic'"
    )


def test_its_rules_are_those_of_the_type(client: Client) -> None:
    assert client.refusal(queue_declare("", durable=True)) == (
        "channel 406 PRECONDITION_FAILED - Cannot declare a server-named queue for type rabbit_quorum_queue"
    )
    assert client.refusal(queue_declare("q", durable=True, arguments={"x-max-priority": 5})) == (
        "channel 406 PRECONDITION_FAILED - "
        "invalid arg 'x-max-priority' for queue 'q' in vhost 'v' of queue type rabbit_quorum_queue"
    )


def test_it_outlasts_a_restart_and_goes_into_definitions(fresh_broker: BrokerProcess, client: Client) -> None:
    client.ask(queue_declare("q", durable=True))
    fresh_broker.kill()
    fresh_broker.start()
    assert types(fresh_broker) == {"q": ("quorum", QUORUM)}
    again = Client.connect(fresh_broker.address, vhost="v")
    again.ask(queue_declare("other", durable=True))
    again.close()
    exported = tell(fresh_broker, "export_definitions")
    assert {queue["name"]: (queue["type"], queue["arguments"]) for queue in exported["queues"]} == {
        "q": ("quorum", QUORUM),
        "other": ("quorum", QUORUM),
    }
    tell(fresh_broker, "import_definitions", definitions=exported)
