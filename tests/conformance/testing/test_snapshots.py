"""A snapshot brings back definitions and messages, as a restart on a backup would, in the running process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from broker.admin.protocol import AdministrationError
from broker.wire.field_tables import from_python
from broker.wire.methods import BasicConsumeOk, ConnectionClose
from broker.wire.properties import BasicProperties
from harness.brokers.broker_process import BrokerProcess
from harness.brokers.http_broker import web_address, web_broker
from harness.clients.queue_steps import bodies, deliveries, deposit, drain, drain_messages, fetch
from harness.clients.shorthand import ack, consume, exchange_declare, prefetch, queue_bind, queue_declare
from harness.clients.wire_client import Client
from tests.conformance import Connect
from tests.conformance.testing.conftest import SETTINGS, Orders

PERSISTENT = BasicProperties(delivery_mode=2)
LARGE = b"L" * 5000


def declared(client: Client, name: str, **arguments: Any) -> str:
    """A durable queue; `message_ttl=3` is the argument x-message-ttl."""
    table = {"x-" + key.replace("_", "-"): value for key, value in arguments.items()}
    client.ask(queue_declare(name, durable=True, arguments=table))
    return name


def topology(order: Orders) -> Any:
    """The definitions, but for the time at which they are asked for."""
    return order.api("definitions")


def test_everything_that_a_restart_would_bring_is_back(order: Orders, client: Client, connect: Connect) -> None:
    """Each kind of queue, a shared body, a delayed message, what was delivered; users and policies."""
    declared(client, "classic")
    declared(client, "priority", max_priority=3)
    declared(client, "quorum", queue_type="quorum")
    declared(client, "stream", queue_type="stream")
    client.ask(exchange_declare("later", "x-delayed-message", arguments={"x-delayed-type": "fanout"}, durable=True))
    client.ask(exchange_declare("all", "fanout", durable=True))
    for queue in ("classic", "quorum"):
        client.ask(queue_bind(queue, "all", ""))
    client.ask(queue_bind("classic", "later", ""))
    deposit(client, b"1", b"2", key="classic", properties=PERSISTENT)
    deposit(client, LARGE, key="", exchange="all", properties=PERSISTENT)
    for level in (1, 3):
        deposit(client, b"%d" % level, key="priority", properties=BasicProperties(delivery_mode=2, priority=level))
    deposit(client, b"s1", b"s2", key="stream", properties=PERSISTENT)
    late = BasicProperties(delivery_mode=2, headers=from_python({"x-delay": 3_600_000}))
    deposit(client, b"late", key="", exchange="later", properties=late)
    order.api("users/ann", method="PUT", status=201, password="x", tags="")
    order.api("policies/%2F/p", method="PUT", status=201, pattern="^x", definition={"max-length": 5})
    fetch(client, "classic")
    before = topology(order)
    saved = order("snapshots/one", method="PUT")
    assert order("snapshots", method="GET") == ["one"]

    order("reset")
    other = connect()
    declared(other, "other")
    declared(other, "classic", max_length=1)
    deposit(other, b"else", key="classic", properties=PERSISTENT)
    restored = order("snapshots/one/restore")
    assert restored["directory"] == saved["directory"]
    assert isinstance(other.receive(channel=0), ConnectionClose)

    assert topology(order) == before
    client = connect()
    deposit(client, b"new", key="classic", properties=PERSISTENT)
    messages = drain_messages(client, "classic")
    assert bodies(messages) == [b"1", b"2", LARGE, b"new"]
    assert [message.method.redelivered for message in messages] == [True, False, False, False]
    assert drain(client, "priority") == [b"3", b"1"]
    assert drain(client, "quorum") == [LARGE]
    client.ask(prefetch(10))
    client.send(consume("stream", arguments={"x-stream-offset": "first"}))
    client.expect(BasicConsumeOk)
    assert bodies(deliveries(client, 2)) == [b"s1", b"s2"]
    order("clock/step", seconds=3600)
    assert drain(connect(), "classic") == [b"late"]


def test_a_snapshot_is_restored_again_and_again(order: Orders, connect: Connect) -> None:
    """Each time into the same process, with messages that take the places of those before."""
    client = connect()
    declared(client, "q")
    deposit(client, *[b"%d" % number for number in range(100)], key="q", properties=PERSISTENT)
    order("snapshots/again", method="PUT")
    for _ in range(5):
        order("snapshots/again/restore")
        order("history", method="DELETE")
        client = connect()
        (first,) = fetch(client, "q")
        client.send(ack(first.method.delivery_tag))
        (acked,) = order("expect", event="acked")["events"]
        assert (acked["routing_key"], acked["payload"]) == ("q", "0")
        deposit(client, b"more", key="q", properties=PERSISTENT)
        assert drain(client, "q") == [*(b"%d" % number for number in range(1, 100)), b"more"]


def test_what_is_restored_outlasts_a_kill(order: Orders, connect: Connect, process: BrokerProcess) -> None:
    client = connect()
    declared(client, "q")
    deposit(client, b"1", b"2", key="q", properties=PERSISTENT)
    order("snapshots/kept", method="PUT")
    order("reset")
    order("snapshots/kept/restore")
    client = connect()
    deposit(client, b"3", key="q", properties=PERSISTENT)
    process.kill_and_restart()
    client = Client.connect(process.address)
    assert drain(client, "q") == [b"1", b"2", b"3"]
    client.close()


def test_a_backup_is_a_snapshot_and_a_snapshot_a_backup(
    order: Orders, connect: Connect, process: BrokerProcess, tmp_path: Path
) -> None:
    client = connect()
    declared(client, "q")
    deposit(client, b"1", key="q", properties=PERSISTENT)
    process.tell("backup", directory=str(tmp_path / "backup"))
    order("reset")
    order("restore", directory=str(tmp_path / "backup"))
    assert order.api("queues/%2F/q")["messages"] == 1
    saved = order("snapshots/data", method="PUT")
    other = BrokerProcess(Path(saved["directory"]))
    other.start()
    try:
        client = Client.connect(other.address)
        assert drain(client, "q") == [b"1"]
        client.close()
    finally:
        other.stop()


def test_a_snapshot_is_replaced_and_deleted(order: Orders, client: Client) -> None:
    order("snapshots/s", method="PUT")
    declared(client, "q")
    order("snapshots/s", method="PUT")
    order("reset")
    order("snapshots/s/restore")
    assert [queue["name"] for queue in order.api("queues")] == ["q"]
    order("snapshots/s", method="DELETE")
    assert "s" not in order("snapshots", method="GET")


def test_what_cannot_be_restored_leaves_everything_as_it_was(order: Orders, client: Client, tmp_path: Path) -> None:
    declared(client, "q")
    (tmp_path / "definitions.sqlite").write_bytes(b"no database")
    order("restore", directory=str(tmp_path), status=500)
    halved = Path(order("snapshots/halved", method="PUT")["directory"])
    (halved / "messages" / "data.mdb").unlink()
    order("snapshots/halved/restore", status=500)
    order("snapshots/halved", method="DELETE")
    assert "there is no snapshot or backup in" in order("snapshots/none/restore", status=404)
    assert "argument name: expected up to 100 letters" in order("snapshots/.x", method="PUT", status=400)
    declared(client, "q")


def test_the_event_log_tells_of_one_boot_alone(tmp_path: Path) -> None:
    process = web_broker(tmp_path, SETTINGS, events="enabled = true\n")
    process.start()
    try:
        order = Orders(web_address(process))
        order("snapshots/s", method="PUT")
        assert "nothing is restored where [events] is on" in order("snapshots/s/restore", status=400)
        with pytest.raises(AdministrationError, match="there is no snapshot or backup in"):
            process.tell("testing", order="snapshots/delete", arguments={"name": "none"})
    finally:
        process.stop()
