"""Queues, exchanges and bindings that an operator makes: as clients see them, with the refusals that clients get."""

from __future__ import annotations

import pytest

from broker.admin.protocol import AdministrationError
from broker.wire.methods import QueueDeclareOk
from harness.brokers.broker_process import BrokerProcess
from harness.clients.queue_steps import deposit, drain
from harness.clients.shorthand import queue_declare
from tests.unit.conftest import Dial

LIMITED = {"x-queue-type": "quorum", "x-max-length": 5}


def test_what_an_operator_declares_and_binds_is_a_clients(file_broker: BrokerProcess, dial: Dial) -> None:
    tell, client = file_broker.tell, dial(file_broker)
    for added in (True, False):
        assert tell("declare_queue", vhost="/", name="by.hand", arguments=LIMITED) == {"added": added}
        assert tell("declare_exchange", vhost="/", name="by.hand", type="topic") == {"added": added}
    passive = client.ask(queue_declare("by.hand", durable=True, arguments=LIMITED))
    assert isinstance(passive, QueueDeclareOk)
    ends = {"vhost": "/", "source": "by.hand", "destination": "by.hand", "key": "a.*"}
    tell("add_binding", **ends)
    deposit(client, b"routed", exchange="by.hand", key="a.b")
    assert drain(client, "by.hand") == [b"routed"]
    tell("delete_binding", **ends)
    deposit(client, b"lost", exchange="by.hand", key="a.b")
    assert drain(client, "by.hand") == []
    for command, arguments, refusal in (
        ("declare_queue", {"durable": False}, "inequivalent arg 'durable' for queue 'by.hand' in vhost '/': received"),
        ("declare_exchange", {"type": "nosuch"}, "unknown exchange type 'nosuch'"),
        ("add_binding", {**ends, "destination": "nosuch"}, "no queue 'nosuch' in vhost '/'"),
    ):
        with pytest.raises(AdministrationError, match=refusal):
            tell(command, **{"vhost": "/", "name": "by.hand", **arguments})
