"""Policies and what they do over a stop and a kill, set on a running broker and on a stopped one."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any

import pytest

from broker.admin.protocol import ask
from broker.config import Config, Server
from broker.server import offline
from broker.wire.properties import BasicProperties
from harness.brokers.broker_process import BrokerProcess
from harness.clients.queue_steps import deposit, drain
from harness.clients.shorthand import exchange_declare, queue_bind, queue_declare
from harness.clients.wire_client import Client

pytestmark = pytest.mark.slow

PERSISTENT = BasicProperties(delivery_mode=2)


def policy(name: str, pattern: str, definition: dict[str, Any], **others: Any) -> dict[str, Any]:
    """What a policy is set with."""
    said = {"name": name, "pattern": pattern, "definition": definition, "priority": 0, "apply_to": "all"}
    return {"vhost": "/", **said, **others}


def running(process: BrokerProcess, command: str, **arguments: Any) -> Any:
    """Tell a broker that runs."""
    return ask(process.data_dir, command, arguments, 20.0)


def stopped(process: BrokerProcess, command: str, **arguments: Any) -> Any:
    """Change what a broker that does not run has on disk."""
    return offline.run(Config(server=Server(data_dir=str(process.data_dir))), command, arguments)


def test_a_kill_takes_no_policy_back_and_no_trimmed_message_with_it(fresh_broker: BrokerProcess) -> None:
    client = Client.connect(fresh_broker.address)
    client.ask(queue_declare("q", durable=True))
    client.ask(queue_declare("dead", durable=True))
    deposit(client, b"1", b"2", b"3", key="q", properties=PERSISTENT)
    definition = {"max-length": 2, "dead-letter-exchange": "", "dead-letter-routing-key": "dead"}
    running(fresh_broker, "set_policy", **policy("p", "^q$", definition))
    running(fresh_broker, "set_operator_policy", **policy("o", "", {"expires": 10**9}, apply_to="queues"))
    deposit(client, b"4", key="q", properties=PERSISTENT)  # its confirm proves what came before it
    client.close()
    fresh_broker.kill_and_restart()
    client = Client.connect(fresh_broker.address)
    rows = {row["name"]: row for row in running(fresh_broker, "list_queues", vhost="/")}
    assert (rows["q"]["policy"], rows["q"]["operator_policy"]) == ("p", "o")
    assert rows["q"]["effective_policy_definition"] == {**definition, "expires": 10**9}
    deposit(client, b"5", key="q", properties=PERSISTENT)
    assert drain(client, "dead") == [b"1", b"2", b"3"]
    assert drain(client, "q") == [b"4", b"5"]
    client.close()


def test_a_policy_that_makes_no_sense_any_more_is_kept_and_not_applied(fresh_broker: BrokerProcess) -> None:
    """Another version, or another Python, may have taken what this one would refuse."""
    running(fresh_broker, "set_policy", **policy("good", "^q", {"max-length": 1}))
    running(fresh_broker, "set_policy", **policy("bad", "^q", {"max-length": 2}, priority=9))
    fresh_broker.stop()
    with closing(sqlite3.connect(fresh_broker.data_dir / "definitions.sqlite")) as definitions, definitions:
        definitions.execute("UPDATE policies SET definition = ? WHERE name = 'bad'", ('{"max-length": "two"}',))
    fresh_broker.start()
    assert [row["name"] for row in running(fresh_broker, "list_policies", vhost="/")] == ["good"]
    why = 'Validation failed: <<"two">> is not a valid maximum length'
    assert f"policy 'bad' of vhost '/' is not applied: {why}" in fresh_broker.log()
    exported = running(fresh_broker, "export_definitions")["policies"]
    assert [row["name"] for row in exported] == ["good", "bad"]
    running(fresh_broker, "clear_policy", vhost="/", name="bad")
    running(fresh_broker, "set_policy", **policy("bad", "^q", {"max-length": 2}, priority=9))
    client = Client.connect(fresh_broker.address)
    client.ask(queue_declare("q"))
    deposit(client, b"1", b"2", b"3", key="q")
    assert drain(client, "q") == [b"2", b"3"]
    client.close()


def test_policies_of_a_stopped_broker_hold_from_its_start(fresh_broker: BrokerProcess) -> None:
    client = Client.connect(fresh_broker.address)
    client.ask(queue_declare("q", durable=True))
    client.ask(exchange_declare("x", durable=True))
    client.ask(exchange_declare("spare", "fanout", durable=True))
    client.ask(queue_bind("q", "spare"))
    deposit(client, b"1", b"2", b"3", key="q", properties=PERSISTENT)
    client.close()
    fresh_broker.stop()
    stopped(fresh_broker, "set_policy", **policy("p", "^q$", {"max-length": 1}))
    stopped(fresh_broker, "set_policy", **policy("ax", "^x$", {"alternate-exchange": "spare"}, apply_to="exchanges"))
    assert [row["name"] for row in stopped(fresh_broker, "list_policies", vhost="/")] == ["p", "ax"]
    fresh_broker.start()
    client = Client.connect(fresh_broker.address)
    assert drain(client, "q") == [b"3"]
    deposit(client, b"by the other way", exchange="x", key="nowhere", properties=PERSISTENT)
    assert drain(client, "q") == [b"by the other way"]
    client.close()
    fresh_broker.stop()
    stopped(fresh_broker, "clear_policy", vhost="/", name="p")
    fresh_broker.start()
    client = Client.connect(fresh_broker.address)
    deposit(client, b"1", b"2", key="q", properties=PERSISTENT)
    assert drain(client, "q") == [b"1", b"2"]
    client.close()
