"""Requests about a running broker as a whole, and lists: of any column, in parts."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from typing import Any

import pytest

from broker.admin.commands.admin_command import ListCommand
from broker.admin.commands.command_catalogue import COMMANDS
from broker.admin.commands.node_admin import Ping
from broker.admin.commands.queue_admin import ListQueues
from broker.admin.protocol import AdministrationError, socket_path
from broker.admin.socket_conversation import connected
from harness.brokers.broker_process import BrokerProcess
from harness.clients.queue_steps import deposit
from harness.clients.shorthand import consume, queue_bind, queue_declare
from tests.unit.conftest import Dial

pytestmark = pytest.mark.slow

Tell = Callable[..., Any]


@pytest.fixture
def tell(file_broker: BrokerProcess) -> Tell:
    """A function that asks the broker to carry out a command."""
    return file_broker.tell


@pytest.fixture
def node(tell: Tell) -> str:
    """The node's name."""
    name: str = tell("status")["node"]
    return name


def refusal(tell: Tell, command: str, **arguments: object) -> tuple[str, str]:
    with pytest.raises(AdministrationError) as caught:
        tell(command, **arguments)
    return caught.value.kind, str(caught.value)


def test_a_list_has_the_columns_that_are_asked_for_and_field_tables_with_their_types(
    tell: Tell, node: str, file_broker: BrokerProcess, dial: Dial
) -> None:
    client = dial(file_broker)
    client.ask(queue_declare("typed", exclusive=True, arguments={"x-max-length": 5, "l": [1, "a"], "t": {"x": True}}))
    client.ask(queue_declare("held", durable=True, arguments={"x-queue-type": "quorum"}))
    client.ask(queue_bind("typed", "amq.topic", "k", arguments={"n": None}))
    client.ask(consume("typed", "tag", exclusive=True))
    boot = tell("status")["boot"]
    (connection,) = [row["pid"] for row in tell("list_connections", columns=["pid"])]
    assert connection.startswith(f"<{node}.{boot}.")
    assert connection.endswith(".0>")
    channel = connection.replace(".0>", ".1>")
    wanted = ["name", "arguments", "owner_pid", "exclusive_consumer_pid", "exclusive_consumer_tag", "leader", "members"]
    rows = {row["name"]: list(row.values())[1:] for row in tell("list_queues", columns=wanted, typed=True)}
    table = [["x-max-length", "signedint", 5], ["l", "array", [["signedint", 1], ["longstr", "a"]]]]
    nested = ["t", "table", [["x", "bool", True]]]
    assert rows["typed"] == [[*table, nested], connection, channel, "tag", "", []]
    assert rows["held"] == [[["x-queue-type", "longstr", "quorum"]], "", "", "", node, [node]]
    bound = {"source_name": "amq.topic", "destination_kind": "queue", "arguments": [["n", "void", None]]}
    assert bound in tell("list_bindings", columns=list(bound), typed=True)
    assert tell("list_consumers", columns=["channel_pid", "activity_status"]) == [
        {"channel_pid": channel, "activity_status": "up"}
    ]
    assert tell("list_channels", columns=["pid", "connection_pid"]) == [{"pid": channel, "connection_pid": connection}]
    for command in [name for name, kind in COMMANDS.items() if issubclass(kind, ListCommand)]:
        kind, words = refusal(tell, command, columns=["size"], name="guest")
        assert (kind, words.startswith("there is no column size; known: ")) == ("invalid", True)


def test_a_long_list_comes_in_parts(tell: Tell, file_broker: BrokerProcess, dial: Dial) -> None:
    client = dial(file_broker)
    names = [f"{number:03}-{'x' * 200}" for number in range(300)]
    for name in names:
        client.ask(queue_declare(name, auto_delete=True))
    request = {"command": "list_queues", "arguments": {"columns": ["name"]}}
    with socket_path(file_broker.data_dir) as path, socket.socket(socket.AF_UNIX) as peer, peer.makefile("rb") as lines:
        peer.connect(path)
        peer.sendall(json.dumps(request).encode() + b"\n")
        parts = [json.loads(lines.readline())]
        while "ok" not in parts[-1]:
            parts.append(json.loads(lines.readline()))
    listed = [row["name"] for part in parts for row in part.get("rows", part.get("ok"))]
    assert len(parts) > 1
    assert sorted(name for name in listed if "-x" in name) == names
    assert [row["name"] for row in tell("list_queues", columns=["name"])] == listed
    with connected(file_broker.data_dir, 20) as conversation:
        assert [row["name"] for row in conversation.rows(ListQueues(columns=["name"]))] == listed
        assert conversation.ask(Ping()) == "pong"


def test_limits_of_memory_and_disk_hold_at_once(tell: Tell, node: str) -> None:
    for command, short, plenty, resource in (
        ("set_vm_memory_high_watermark", {"bytes": 1}, {"fraction": 0.6}, "memory"),
        ("set_vm_memory_high_watermark", {"fraction": 0}, {"bytes": 1 << 40}, "memory"),
        ("set_disk_free_limit", {"bytes": 1 << 60}, {"bytes": 0}, "disk"),
        ("set_disk_free_limit", {"mem_relative": 1e6}, {"mem_relative": 0}, "disk"),
    ):
        tell(command, **short)
        assert tell("list_alarms") == [{"node": node, "resource": resource}], command
        tell(command, **plenty)
        assert tell("list_alarms") == [], command
    assert tell("status")["memory"]["high_watermark"] == {"absolute": 1 << 40}
    assert refusal(tell, "set_vm_memory_high_watermark", fraction=1.5)[0] == "invalid"
    assert refusal(tell, "set_vm_memory_high_watermark", fraction=0.5, bytes=5)[0] == "invalid"


def test_connections_are_closed_by_user_vhost_and_number(tell: Tell, file_broker: BrokerProcess, dial: Dial) -> None:
    clients = [dial(file_broker) for _ in range(3)]
    assert tell("close_connections", user="nobody", reason="x") == {"closed": 0}
    assert tell("close_connections", vhost="nowhere", reason="x") == {"closed": 0}
    assert tell("close_connections", vhost="/", user="guest", limit=1, reason="one") == {"closed": 1}
    pid = tell("list_connections", columns=["pid"])[-1]["pid"]
    tell("close_connection", name=pid, reason="by pid")
    assert tell("close_connections", reason="all") == {"closed": 1}
    reasons = sorted(client.closing(channel=0).rpartition(" - ")[2] for client in clients)
    assert reasons == ["all", "by pid", "one"]


def test_a_queue_is_deleted_only_as_it_may_be(tell: Tell, file_broker: BrokerProcess, dial: Dial) -> None:
    client = dial(file_broker)
    client.ask(queue_declare("kept"))
    deposit(client, b"1", key="kept")
    place = {"vhost": "/", "name": "kept"}
    assert refusal(tell, "delete_queue", **place, if_empty=True) == ("refused", "queue 'kept' in vhost '/' not empty")
    client.ask(consume("kept", "tag"))
    assert refusal(tell, "delete_queue", **place, if_unused=True) == ("refused", "queue 'kept' in vhost '/' in use")
    assert tell("delete_queue", **place, if_empty=True) == {"messages": 0}


def test_a_virtual_host_is_described_anew_in_part(tell: Tell) -> None:
    tell("add_vhost", name="told", description="first", tags=["a"], default_queue_type="")
    columns = ["description", "tags", "default_queue_type"]
    for said in ({"tags": ["b", "c"]}, {"description": "second"}, {"default_queue_type": "quorum"}):
        tell("update_vhost", name="told", **said)
    (row,) = [row for row in tell("list_vhosts", columns=["name", *columns]) if row["name"] == "told"]
    assert row == {"name": "told", "description": "second", "tags": ["b", "c"], "default_queue_type": "quorum"}
    assert refusal(tell, "update_vhost", name="told", default_queue_type="x")[0] == "invalid"


def test_the_node_says_how_it_runs(tell: Tell, file_broker: BrokerProcess, node: str) -> None:
    host, port = file_broker.address
    amqp = {"node": node, "interface": host, "port": port, "protocol": "amqp", "purpose": "AMQP 0-9-1"}
    assert amqp in tell("list_listeners")
    settings = tell("environment")
    assert settings["server"]["data_dir"] == str(file_broker.data_dir)
    assert settings["defaults"]["password"] == "(hidden)"
    memory = tell("memory")
    assert memory["total"]["rss"] == sum(size for size in memory.values() if isinstance(size, int))
    assert {flag["state"] for flag in tell("list_feature_flags")} == {"enabled"}
    tell("enable_feature_flag", name="quorum_queue")
    assert refusal(tell, "enable_feature_flag", name="nonsense")[0] == "not_found"
    tell("set_log_level", level="debug")
    assert refusal(tell, "set_log_level", level="loud")[0] == "invalid"
    assert tell("list_certificates") == []
