"""Policies that are set and cleared while the broker is stopped. Over kills they are facts of the crash states."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from broker.admin.protocol import ask
from broker.config import Config, Server
from broker.server import offline
from harness.brokers.broker_process import BrokerProcess
from harness.clients.contents import PERSISTENT
from harness.clients.queue_steps import deposit, drain
from harness.clients.shorthand import exchange_declare, queue_bind, queue_declare
from harness.clients.wire_client import Client

Dial = Callable[[], Client]

pytestmark = pytest.mark.slow


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


def test_what_is_changed_while_the_broker_is_stopped_holds_from_its_start(
    fresh_broker: BrokerProcess, dial: Dial
) -> None:
    """A policy that makes no sense any more is kept and not applied: another version may have taken it."""
    client = dial()
    client.ask(queue_declare("q", durable=True))
    client.ask(exchange_declare("x", durable=True))
    client.ask(exchange_declare("spare", "fanout", durable=True))
    client.ask(queue_bind("q", "spare"))
    deposit(client, b"1", b"2", b"3", key="q", properties=PERSISTENT)
    running(fresh_broker, "set_policy", **policy("bad", "^q", {"max-length": 2}, priority=9))
    fresh_broker.stop()
    with closing(sqlite3.connect(fresh_broker.data_dir / "definitions.sqlite")) as definitions, definitions:
        definitions.execute("UPDATE policies SET definition = ? WHERE name = 'bad'", ('{"max-length": "two"}',))
    stopped(fresh_broker, "set_policy", **policy("p", "^q$", {"max-length": 1}))
    stopped(fresh_broker, "set_policy", **policy("ax", "^x$", {"alternate-exchange": "spare"}, apply_to="exchanges"))
    fresh_broker.start()
    client = dial()
    assert drain(client, "q") == [b"3"]
    deposit(client, b"by the other way", exchange="x", key="nowhere", properties=PERSISTENT)
    assert drain(client, "q") == [b"by the other way"]
    assert {row["name"] for row in running(fresh_broker, "list_policies", vhost="/")} == {"p", "ax"}
    assert {row["name"] for row in running(fresh_broker, "export_definitions")["policies"]} == {"bad", "p", "ax"}
    why = 'Validation failed: <<"two">> is not a valid maximum length'
    assert f"policy 'bad' of vhost '/' is not applied: {why}" in fresh_broker.log()
    fresh_broker.stop()
    for name in ("bad", "p"):
        stopped(fresh_broker, "clear_policy", vhost="/", name=name)
    fresh_broker.start()
    client = dial()
    deposit(client, b"1", b"2", b"3", key="q", properties=PERSISTENT)
    assert drain(client, "q") == [b"1", b"2", b"3"]
