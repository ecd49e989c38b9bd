"""Administering a running broker through its socket. Reply texts are RabbitMQ 3.10.8's on the wire."""

from __future__ import annotations

import json
import secrets
import socket
import stat
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from trio.testing import memory_stream_pair

from broker.admin.command_table import CHANGES, COPIES, QUESTIONS
from broker.admin.protocol import SOCKET_NAME, AdministrationError, NotRunning, ask, socket_path
from broker.cli.list_command import LISTINGS
from broker.config import Config, Server
from broker.server import admin_socket, offline
from broker.wire.methods import (
    BasicCancel,
    BasicDeliver,
    ConfirmSelect,
    ConnectionClose,
    ConnectionOpen,
    QueueBind,
    QueueDeclare,
    TxSelect,
)
from broker.wire.properties import BasicProperties
from harness.brokers.broker_process import BrokerProcess
from harness.clients.queue_steps import deposit, drain
from harness.clients.shorthand import consume, get, prefetch, queue_bind, queue_declare, queue_delete
from harness.clients.wire_client import Client

pytestmark = pytest.mark.slow

PERSISTENT = BasicProperties(delivery_mode=2)


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker for this file's tests, which use names of their own."""
    process = BrokerProcess(tmp_path_factory.mktemp("administered") / "data")
    process.start()
    yield process
    assert process.stop() == 0
    assert "Traceback" not in process.log()


Told = Callable[..., Any]


def teller(process: BrokerProcess) -> Told:
    def tell(command: str, **arguments: object) -> Any:
        return ask(process.data_dir, command, arguments, 20.0)

    return tell


@pytest.fixture
def tell(process: BrokerProcess) -> Told:
    """A function that asks the broker to carry out a command."""
    return teller(process)


@pytest.fixture
def login(process: BrokerProcess) -> Iterator[Callable[..., Client]]:
    """A function that logs in; every connection is dropped at the end."""
    clients: list[Client] = []

    def connect(**options: Any) -> Client:
        clients.append(Client.connect(process.address, **options))
        return clients[-1]

    yield connect
    for client in clients:
        client.close()


@pytest.fixture
def entering(process: BrokerProcess) -> Callable[..., str]:
    """A function that tries connection.open and says how it was refused."""

    def enter(user: str, password: str, vhost: str) -> str:
        client = Client(process.address)
        client.start(user=user, password=password)
        client.tune()
        refusal = client.refusal(ConnectionOpen(vhost), channel=0)
        client.close()
        return refusal

    return enter


@pytest.fixture
def tenant(tell: Told, name: Callable[..., str]) -> tuple[str, str]:
    """A user (password "pw") and a virtual host of its own where it may do everything."""
    user, vhost = name("user"), name("vhost")
    tell("add_user", name=user, password="pw", tags=[])
    tell("add_vhost", name=vhost, description="", tags=[], default_queue_type="")
    tell("set_permissions", vhost=vhost, user=user, configure=".*", write=".*", read=".*")
    return user, vhost


def failing(tell: Told, command: str, **arguments: object) -> tuple[str, str]:
    with pytest.raises(AdministrationError) as caught:
        tell(command, **arguments)
    return caught.value.kind, str(caught.value)


# Users


def test_a_new_user_may_log_in_at_once(tenant: tuple[str, str], login: Callable[..., Client]) -> None:
    user, vhost = tenant
    assert login(user=user, password="pw", vhost=vhost).ask(queue_declare("q")).queue == "q"


def test_a_new_password_counts_for_the_next_login_only(
    tenant: tuple[str, str], tell: Told, process: BrokerProcess, login: Callable[..., Client]
) -> None:
    user, vhost = tenant
    client = login(user=user, password="pw", vhost=vhost)
    tell("change_password", name=user, password="other")
    client.ask(queue_declare("still-open"))
    login(user=user, password="other", vhost=vhost)
    refused = Client(process.address)
    refused.start(user=user, password="pw")
    close = refused.expect(ConnectionClose, channel=0)
    refused.close()
    assert close.reply_text.startswith("ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN.")


def test_deleting_a_user_closes_its_connections(
    tenant: tuple[str, str], tell: Told, login: Callable[..., Client]
) -> None:
    user, vhost = tenant
    client, other = login(user=user, password="pw", vhost=vhost), login()
    tell("delete_user", name=user)
    assert client.closing(channel=0) == f"connection 320 CONNECTION_FORCED - user '{user}' is deleted"
    other.ask(queue_declare("", exclusive=True))
    assert user not in {row["name"] for row in tell("list_users")}
    assert [row for row in tell("list_permissions", vhost=vhost) if row["user"] == user] == []


def test_tags_are_replaced(tenant: tuple[str, str], tell: Told) -> None:
    user, _ = tenant
    tell("set_user_tags", name=user, tags=["administrator", "monitoring"])
    tell("set_user_tags", name=user, tags=["management"])
    assert [row["tags"] for row in tell("list_users") if row["name"] == user] == [["management"]]


def test_a_password_can_be_tried(tenant: tuple[str, str], tell: Told) -> None:
    user, _ = tenant
    assert tell("authenticate_user", name=user, password="pw") is None
    assert failing(tell, "authenticate_user", name=user, password="bad") == (
        "refused",
        f"failed to authenticate user \"{user}\": user '{user}' - invalid credentials",
    )


def test_a_user_is_added_once(tenant: tuple[str, str], tell: Told) -> None:
    user, _ = tenant
    message = f'User "{user}" already exists'
    assert failing(tell, "add_user", name=user, password="x", tags=[]) == ("already_exists", message)
    assert tell("authenticate_user", name=user, password="pw") is None


def test_of_many_who_add_the_same_user_one_succeeds(
    process: BrokerProcess, tell: Told, name: Callable[..., str]
) -> None:
    user = name("user")

    def add(number: int) -> str:
        try:
            tell("add_user", name=user, password=f"password {number}", tags=[])
        except AdministrationError as error:
            return error.kind
        return str(number)

    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(add, range(8)))
    (winner,) = [outcome for outcome in outcomes if outcome.isdecimal()]
    assert outcomes.count("already_exists") == 7
    assert tell("authenticate_user", name=user, password=f"password {winner}") is None


def test_a_user_without_password_is_refused(tell: Told, name: Callable[..., str]) -> None:
    assert failing(tell, "add_user", name=name(), password="", tags=[])[0] == "invalid"


# Permissions


def test_a_permission_holds_for_an_open_connection_at_once(
    tenant: tuple[str, str], tell: Told, login: Callable[..., Client]
) -> None:
    user, vhost = tenant
    client = login(user=user, password="pw", vhost=vhost)
    client.ask(queue_declare("a"))
    client.ask(ConfirmSelect(False))
    client.publish(b"allowed", key="a")
    client.receive()
    tell("set_permissions", vhost=vhost, user=user, configure="^b", write="^$", read="")
    where = f"in vhost '{vhost}' refused for user '{user}'"
    client.publish(b"refused", key="a")
    item = client.receive()
    assert getattr(item, "reply_text", "") == f"ACCESS_REFUSED - access to exchange 'amq.default' {where}"


@pytest.mark.parametrize(
    ("action", "method", "denied"),
    [
        ("configure", queue_declare("new"), "queue 'new'"),
        ("read", get("q"), "queue 'q'"),
        ("write", queue_bind("q", "amq.direct", "k"), "queue 'q'"),
    ],
)
def test_what_is_not_permitted_any_more_is_refused(
    tenant: tuple[str, str],
    tell: Told,
    login: Callable[..., Client],
    action: str,
    method: QueueDeclare | QueueBind,
    denied: str,
) -> None:
    user, vhost = tenant
    client = login(user=user, password="pw", vhost=vhost)
    client.ask(queue_declare("q"))
    permitted = {"configure": ".*", "write": ".*", "read": ".*"}
    tell("set_permissions", vhost=vhost, user=user, **{**permitted, action: "^other"})
    text = f"access to {denied} in vhost '{vhost}' refused for user '{user}'"
    assert client.refusal(method) == f"channel 403 ACCESS_REFUSED - {text}"
    tell("set_permissions", vhost=vhost, user=user, **permitted)
    client.send(method)
    assert not hasattr(client.receive(), "reply_code")


def test_who_loses_permissions_stays_connected_and_may_do_nothing(
    tenant: tuple[str, str], tell: Told, login: Callable[..., Client], entering: Callable[..., str]
) -> None:
    user, vhost = tenant
    client = login(user=user, password="pw", vhost=vhost)
    tell("clear_permissions", vhost=vhost, user=user)
    text = f"access to queue 'q' in vhost '{vhost}' refused for user '{user}'"
    assert client.refusal(queue_declare("q")) == f"channel 403 ACCESS_REFUSED - {text}"
    assert entering(user, "pw", vhost) == (
        f"connection 530 NOT_ALLOWED - access to vhost '{vhost}' refused for user '{user}'"
    )


def test_a_topic_permission_holds_at_once(tenant: tuple[str, str], tell: Told, login: Callable[..., Client]) -> None:
    user, vhost = tenant
    client = login(user=user, password="pw", vhost=vhost)
    client.ask(queue_declare("q"))
    client.ask(queue_bind("q", "amq.topic", "b.c"))
    tell("set_topic_permissions", vhost=vhost, user=user, exchange="amq.topic", write="^{username}$", read="^a")
    text = f"access to topic 'b.d' in exchange 'amq.topic' in vhost '{vhost}' refused for user '{user}'"
    assert client.refusal(queue_bind("q", "amq.topic", "b.d")) == f"channel 403 ACCESS_REFUSED - {text}"
    client.ask(queue_bind("q", "amq.topic", "a.d"))
    client.ask(ConfirmSelect(False))
    client.publish(b"own name", exchange="amq.topic", key=user)
    client.receive()
    tell("clear_topic_permissions", vhost=vhost, user=user, exchange=None)
    assert tell("list_topic_permissions", vhost=vhost) == []
    client.ask(queue_bind("q", "amq.topic", "b.d"))


def test_a_broken_regular_expression_changes_nothing(tenant: tuple[str, str], tell: Told) -> None:
    user, vhost = tenant
    kind, message = failing(tell, "set_permissions", vhost=vhost, user=user, configure=".*", write="[", read=".*")
    assert kind == "invalid"
    assert message.startswith("regular expression '[' is invalid: ")
    assert tell("list_user_permissions", name=user) == [
        {"vhost": vhost, "configure": ".*", "write": ".*", "read": ".*"}
    ]


# Virtual hosts


def test_deleting_a_virtual_host_sends_its_clients_away(
    tenant: tuple[str, str], tell: Told, login: Callable[..., Client], entering: Callable[..., str]
) -> None:
    user, vhost = tenant
    client, other = login(user=user, password="pw", vhost=vhost), login()
    client.ask(queue_declare("q", durable=True))
    client.ask(queue_declare("mine", exclusive=True))
    client.ask(consume("q", "tag"))
    deposit(client, b"held", key="q", properties=PERSISTENT)
    client.expect_message(BasicDeliver)
    tell("delete_vhost", name=vhost)
    assert client.expect(BasicCancel).consumer_tag == "tag"
    assert client.closing(channel=0) == f"connection 320 CONNECTION_FORCED - vhost '{vhost}' is deleted"
    other.ask(queue_declare("", exclusive=True))
    assert entering(user, "pw", vhost) == f"connection 530 NOT_ALLOWED - vhost {vhost} not found"
    assert tell("list_user_permissions", name=user) == []


def test_a_virtual_host_made_again_is_empty(tenant: tuple[str, str], tell: Told, login: Callable[..., Client]) -> None:
    user, vhost = tenant
    client = login(user=user, password="pw", vhost=vhost)
    client.ask(queue_declare("q", durable=True))
    deposit(client, b"gone", key="q", properties=PERSISTENT)
    tell("delete_vhost", name=vhost)
    tell("add_vhost", name=vhost, description="again", tags=["x"], default_queue_type="classic")
    tell("set_permissions", vhost=vhost, user=user, configure=".*", write=".*", read=".*")
    client = login(user=user, password="pw", vhost=vhost)
    assert client.ask(queue_declare("q", durable=True)).message_count == 0
    assert [row["name"] for row in tell("list_exchanges", vhost=vhost)][:3] == ["", "amq.direct", "amq.fanout"]
    assert [row for row in tell("list_vhosts") if row["name"] == vhost] == [
        {
            "name": vhost,
            "description": "again",
            "tags": ["x"],
            "default_queue_type": "classic",
            "limits": {},
            "tracing": False,
        }
    ]


# Limits: study of 3.10.8's texts


def test_a_virtual_host_has_so_many_connections(
    tenant: tuple[str, str], tell: Told, login: Callable[..., Client], entering: Callable[..., str]
) -> None:
    user, vhost = tenant
    login(user=user, password="pw", vhost=vhost)
    tell("set_vhost_limits", name=vhost, limits={"max-connections": 1})
    text = f"access to vhost '{vhost}' refused for user '{user}': connection limit (1) is reached"
    assert entering(user, "pw", vhost) == f"connection 530 NOT_ALLOWED - {text}"
    tell("clear_vhost_limits", name=vhost, limits=[])
    login(user=user, password="pw", vhost=vhost)


def test_a_user_has_so_many_connections(
    tenant: tuple[str, str], tell: Told, login: Callable[..., Client], entering: Callable[..., str]
) -> None:
    user, vhost = tenant
    tell("set_user_limits", name=user, limits={"max-connections": 1, "max-channels": -1})
    login(user=user, password="pw", vhost=vhost)
    text = f"connection refused for user '{user}': user connection limit (1) is reached"
    assert entering(user, "pw", vhost) == f"connection 530 NOT_ALLOWED - {text}"
    tell("clear_user_limits", name=user, limits=["max-connections"])
    login(user=user, password="pw", vhost=vhost)


def test_a_user_has_so_many_channels(tenant: tuple[str, str], tell: Told, login: Callable[..., Client]) -> None:
    user, vhost = tenant
    tell("set_user_limits", name=user, limits={"max-channels": 2})
    client = login(user=user, password="pw", vhost=vhost, channels=(1, 2))
    with pytest.raises(AssertionError) as caught:
        client.open_channel(3)
    text = f"number of channels opened for user '{user}' has reached the maximum allowed user limit of (2)"
    assert f"NOT_ALLOWED - {text}" in str(caught.value)


def test_a_virtual_host_has_so_many_queues(tenant: tuple[str, str], tell: Told, login: Callable[..., Client]) -> None:
    user, vhost = tenant
    tell("set_vhost_limits", name=vhost, limits={"max-queues": 1})
    client = login(user=user, password="pw", vhost=vhost)
    client.ask(queue_declare("first"))
    client.ask(queue_declare("first"))
    text = f"cannot declare queue 'second': queue limit in vhost '{vhost}' (1) is reached"
    assert client.refusal(queue_declare("second")) == f"channel 406 PRECONDITION_FAILED - {text}"


@pytest.mark.parametrize(
    "limits", [{"max-bananas": 1}, {"max-connections": "x"}, {"max-connections": True}, [], {"max-connections": 2**63}]
)
def test_limits_nobody_knows_are_refused(tenant: tuple[str, str], tell: Told, limits: object) -> None:
    user, vhost = tenant
    assert failing(tell, "set_user_limits", name=user, limits=limits)[0] == "invalid"
    assert failing(tell, "set_vhost_limits", name=vhost, limits=limits)[0] == "invalid"


@pytest.mark.parametrize(
    ("limits", "why"),
    [
        ({"max-foo": 50}, 'Unrecognised terms [{{<<"max-foo">>,50}}] in {kind}'),
        ({"max-connections": "a"}, 'max-connections should be a number, actually was <<"a">>'),
        ({"max-connections": 1.5}, "max-connections should be a number, actually was 1.5"),
        ({"max-connections": None}, "max-connections should be a number, actually was null"),
    ],
)
def test_limits_are_refused_in_rabbitmqs_words(
    tenant: tuple[str, str], tell: Told, limits: dict[str, Any], why: str
) -> None:
    """Those of `rabbitmqctl set_vhost_limits` and `set_user_limits` of RabbitMQ 3.10.8."""
    user, vhost = tenant
    assert failing(tell, "set_vhost_limits", name=vhost, limits=limits)[1] == why.format(kind="limits")
    assert failing(tell, "set_user_limits", name=user, limits=limits)[1] == why.format(kind="user-limits")


def test_a_users_limits_add_up_and_a_virtual_hosts_do_not(tenant: tuple[str, str], tell: Told) -> None:
    """RabbitMQ 3.10.8, `rabbitmqctl set_user_limits` and `set_vhost_limits`, each called twice."""
    user, vhost = tenant
    tell("set_user_limits", name=user, limits={"max-channels": 5})
    tell("set_user_limits", name=user, limits={"max-connections": 50})
    tell("set_vhost_limits", name=vhost, limits={"max-connections": 5})
    tell("set_vhost_limits", name=vhost, limits={"max-queues": 50})
    users = {row["name"]: row["limits"] for row in tell("list_users")}
    vhosts = {row["name"]: row["limits"] for row in tell("list_vhosts")}
    assert users[user] == {"max-channels": 5, "max-connections": 50}
    assert vhosts[vhost] == {"max-queues": 50}
    tell("set_vhost_limits", name=vhost, limits={})
    assert {row["name"]: row["limits"] for row in tell("list_vhosts")}[vhost] == {}


# Queues, connections


def test_a_connection_is_closed_with_a_reason(tell: Told, login: Callable[..., Client]) -> None:
    before = {row["name"] for row in tell("list_connections")}
    client = login()
    (name,) = {row["name"] for row in tell("list_connections")} - before
    tell("close_connection", name=name, reason="maintenance")
    assert client.closing(channel=0) == "connection 320 CONNECTION_FORCED - maintenance"
    assert failing(tell, "close_connection", name="nobody", reason="x") == ("not_found", "no connection 'nobody'")


def test_a_queue_is_purged_and_deleted(tell: Told, login: Callable[..., Client], name: Callable[..., str]) -> None:
    client, queue = login(), name()
    client.ask(queue_declare(queue, durable=True))
    deposit(client, b"1", b"2", key=queue, properties=PERSISTENT)
    assert tell("purge_queue", vhost="/", name=queue) == {"messages": 2}
    assert client.ask(queue_declare(queue, passive=True)).message_count == 0
    deposit(client, b"3", key=queue, properties=PERSISTENT)
    assert tell("delete_queue", vhost="/", name=queue) == {"messages": 1}
    assert "404 NOT_FOUND" in client.refusal(queue_declare(queue, passive=True))
    assert failing(tell, "delete_queue", vhost="/", name=queue) == ("not_found", f"no queue '{queue}' in vhost '/'")


def test_every_listing_has_its_columns(tenant: tuple[str, str], tell: Told, login: Callable[..., Client]) -> None:
    user, vhost = tenant
    tell("set_topic_permissions", vhost=vhost, user=user, exchange="amq.topic", write=".*", read=".*")
    for kind in ("policy", "operator_policy"):
        told = {"name": kind, "pattern": "", "definition": {"expires": 10**9}, "priority": 0, "apply_to": "all"}
        tell(f"set_{kind}", vhost=vhost, **told)
    client = login(user=user, password="pw", vhost=vhost, channels=(1, 2))
    client.ask(TxSelect(), channel=2)
    client.ask(prefetch(7))
    client.ask(queue_declare("q", arguments={"x-max-length": 5, "x-other": [b"\xff", {"a": None}]}))
    client.ask(queue_bind("q", "amq.direct", "k", arguments={"n": 1}))
    client.ask(consume("q", "tag", arguments={"x-priority": 3}))
    deposit(client, b"one", key="q")
    client.expect_message(BasicDeliver)
    for kind, (command, columns, in_vhost, _) in LISTINGS.items():
        rows = tell(command, **({"vhost": vhost} if in_vhost else {}))
        assert rows, kind
        assert set(columns) <= rows[0].keys(), kind
    (queue,) = tell("list_queues", vhost=vhost)
    assert queue["arguments"] == {"x-max-length": 5, "x-other": ["\udcff", {"a": None}]}
    assert (queue["messages_ready"], queue["messages_unacknowledged"], queue["consumers"]) == (0, 1, 1)
    assert (queue["policy"], queue["operator_policy"]) == ("policy", "operator_policy")
    assert queue["effective_policy_definition"] == {"expires": 10**9}
    (consumer,) = tell("list_consumers", vhost=vhost)
    assert (consumer["queue"], consumer["prefetch_count"], consumer["ack_required"]) == ("q", 7, True)
    assert (consumer["priority"], consumer["active"]) == (3, True)
    assert {"vhost": vhost, "source": "", "destination": "q", "destination_type": "queue", "routing_key": "q",
            "arguments": {}} in tell("list_bindings", vhost=vhost)  # fmt: skip
    channels = [row for row in tell("list_channels") if row["user"] == user]
    assert [(row["number"], row["consumer_count"], row["transactional"]) for row in channels] == [
        (1, 1, False),
        (2, 0, True),
    ]
    (connection,) = [row for row in tell("list_connections") if row["user"] == user]
    assert (connection["state"], connection["channels"], connection["vhost"]) == ("running", 2, vhost)


@pytest.mark.parametrize("command", ["list_queues", "list_exchanges", "list_bindings", "list_consumers"])
def test_a_listing_of_an_unknown_virtual_host_is_refused(tell: Told, command: str) -> None:
    assert failing(tell, command, vhost="nope") == ("not_found", "Virtual host 'nope' does not exist")
    assert tell(command, vhost=None) is not None


def test_status_says_what_runs_where(tell: Told, process: BrokerProcess) -> None:
    status = tell("status")
    assert status["pid"] == process.pid
    assert status["listeners"] == [f"{process.address[0]}:{process.address[1]}"]
    assert status["data_directory"] == str(process.data_dir)
    assert status["memory"]["used_bytes"] > 1 << 20
    assert status["totals"]["vhosts"] >= 1
    assert status["alarms"] == []


# The socket itself


def test_only_the_owner_may_open_it(process: BrokerProcess) -> None:
    assert stat.S_IMODE((process.data_dir / SOCKET_NAME).stat().st_mode) == 0o600
    assert stat.S_IMODE(process.data_dir.stat().st_mode) == 0o700
    for path in process.data_dir.rglob("*"):
        assert not stat.S_IMODE(path.stat().st_mode) & 0o077, path


@pytest.fixture
def caller(process: BrokerProcess) -> Iterator[Any]:
    """A raw connection to the socket, as a file."""
    with socket_path(process.data_dir) as path, socket.socket(socket.AF_UNIX) as peer:
        peer.settimeout(10)
        peer.connect(path)
        with peer.makefile("rwb", buffering=0) as file:
            yield file


def said(caller: Any, line: bytes) -> Any:
    caller.write(line + b"\n")
    return json.loads(caller.readline())


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"no json",
        b"[]",
        b"{}",
        b'{"command": "ping"}',
        b'{"command": ["ping"], "arguments": {}}',
        b'{"command": "ping", "arguments": []}',
        b'{"command": "no_such_command", "arguments": {}}',
        b'{"command": "add_user", "arguments": {"name": "\\ud800", "password": "x", "tags": []}}',
        b'{"command": "add_user", "arguments": {"name": 1, "password": "x", "tags": []}}',
        b'{"command": "add_user", "arguments": {"name": "", "password": "x", "tags": []}}',
        b'{"command": "add_user", "arguments": {"name": "x", "password": "x", "tags": "administrator"}}',
        b"[" * 100_000,
        b"\xff\xfe",
    ],
)
def test_a_request_that_makes_no_sense_is_refused_and_harms_nobody(caller: Any, line: bytes) -> None:
    assert said(caller, line)["error"]["kind"] == "invalid"
    assert said(caller, b'{"command": "ping", "arguments": {}}') == {"ok": "pong"}


@pytest.mark.parametrize("command", [*CHANGES, *COPIES, *QUESTIONS])
@pytest.mark.parametrize("value", [None, 7, "nobody", ["x"], {"x": "y"}])
def test_no_command_stumbles_over_strange_arguments(caller: Any, command: str, value: object, tmp_path: Path) -> None:
    names = ("name", "vhost", "user", "password", "tags", "limits", "exchange", "configure", "write", "read", "reason")
    arguments = {**dict.fromkeys((*names, "definitions"), value), "directory": None, "name": value}
    if command == "add_vhost" and value == "nobody":
        arguments["tags"] = "nobody"
    answer = said(caller, json.dumps({"command": command, "arguments": arguments}).encode())
    assert "internal error" not in json.dumps(answer)
    assert "ok" in answer or answer["error"]["kind"] in ("invalid", "not_found", "refused")


def test_a_caller_may_leave_in_the_middle(process: BrokerProcess, tell: Told) -> None:
    with socket_path(process.data_dir) as path, socket.socket(socket.AF_UNIX) as peer:
        peer.connect(path)
        peer.sendall(b'{"command": "list_queues"')
    assert tell("ping") == "pong"


async def test_a_request_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin_socket, "REQUEST_BYTES_MAX", 100)
    ours, theirs = memory_stream_pair()
    lines = admin_socket.Lines(ours)
    await theirs.send_all(b"a" * 50 + b"\n" + b"b" * 101)
    assert await lines.next() == b"a" * 50
    with pytest.raises(AdministrationError, match="longer than 100 bytes"):
        await lines.next()


def test_no_password_is_ever_repeated(process: BrokerProcess, tell: Told, name: Callable[..., str]) -> None:
    secret, user = f"secret-{secrets.token_hex(8)}", name("user")
    said = [tell("add_user", name=user, password=secret, tags=[])]
    said.append(tell("change_password", name=user, password=secret + "2"))
    for command, arguments in [
        ("add_user", {"name": user, "password": secret, "tags": []}),
        ("add_user", {"name": "x", "password": [secret], "tags": []}),
        ("add_user", {"name": "x", "password": secret, "tags": None}),
        ("change_password", {"name": "nobody", "password": secret}),
        ("authenticate_user", {"name": user, "password": secret}),
        ("import_definitions", {"definitions": {"users": [{"name": "x", "password": [secret]}]}}),
        ("import_definitions", {"definitions": {"users": [{"name": "x", "password": secret, "limits": {"a": 1}}]}}),
        (secret, {"password": secret}),
    ]:
        said.append(failing(tell, command, **arguments))
    said.append(tell("list_users"))
    assert secret not in json.dumps(said)
    assert secret not in process.log()


# Starting, stopping, crashing


def test_the_socket_goes_with_the_broker(fresh_broker: BrokerProcess) -> None:
    path = fresh_broker.data_dir / SOCKET_NAME
    fresh_broker.kill()
    assert path.exists()
    with pytest.raises(NotRunning):
        ask(fresh_broker.data_dir, "ping", {}, 5.0)
    fresh_broker.start()
    assert ask(fresh_broker.data_dir, "ping", {}, 5.0) == "pong"
    assert fresh_broker.stop() == 0
    assert not path.exists()


def test_what_was_answered_survives_a_crash(fresh_broker: BrokerProcess) -> None:
    tell = teller(fresh_broker)
    tell("add_user", name="ann", password="pw", tags=["monitoring"])
    tell("add_vhost", name="v", description="d", tags=[], default_queue_type="")
    tell("set_permissions", vhost="v", user="ann", configure="c", write="w", read="r")
    tell("set_vhost_limits", name="v", limits={"max-queues": 0})
    tell("set_user_limits", name="ann", limits={"max-channels": 3})
    client = Client.connect(fresh_broker.address)
    for queue in ("purged", "deleted", "kept"):
        client.ask(queue_declare(queue, durable=True))
        deposit(client, b"1", b"2", key=queue, properties=PERSISTENT)
    tell("purge_queue", vhost="/", name="purged")
    tell("delete_queue", vhost="/", name="deleted")
    before = [tell(command) for command in ("list_users", "list_vhosts", "list_permissions")]
    fresh_broker.kill_and_restart()
    assert [tell(command) for command in ("list_users", "list_vhosts", "list_permissions")] == before
    client.close()
    client = Client.connect(fresh_broker.address)
    assert {row["name"]: row["messages"] for row in tell("list_queues")} == {"purged": 0, "kept": 2}
    assert drain(client, "kept") == [b"1", b"2"]
    client.close()


def test_a_deleted_virtual_host_stays_deleted_after_a_crash(fresh_broker: BrokerProcess) -> None:
    tell = teller(fresh_broker)
    tell("add_vhost", name="v", description="", tags=[], default_queue_type="")
    tell("set_permissions", vhost="v", user="guest", configure=".*", write=".*", read=".*")
    client = Client.connect(fresh_broker.address, vhost="v")
    client.ask(queue_declare("q", durable=True))
    deposit(client, b"x" * 5000, key="q", properties=PERSISTENT)
    tell("delete_vhost", name="v")
    client.close()
    fresh_broker.kill_and_restart()
    assert [row["name"] for row in tell("list_vhosts")] == ["/"]
    assert tell("list_queues") == []
    tell("add_vhost", name="v", description="", tags=[], default_queue_type="")
    assert tell("list_queues") == []


def test_a_backup_is_a_data_directory(fresh_broker: BrokerProcess, tmp_path: Path) -> None:
    tell, copy = teller(fresh_broker), tmp_path / "deep" / "copy"
    client = Client.connect(fresh_broker.address)
    client.ask(queue_declare("q", durable=True))
    client.ask(queue_bind("q", "amq.topic", "a.#"))
    deposit(client, b"before", key="a.b", exchange="amq.topic", properties=PERSISTENT)
    tell("backup", directory=str(copy))
    deposit(client, b"after", key="q", properties=PERSISTENT)
    client.close()
    assert failing(tell, "backup", directory=str(copy))[0] == "already_exists"
    assert failing(tell, "backup", directory="a\0b") == ("invalid", "argument directory: holds a zero byte")
    assert stat.S_IMODE(copy.stat().st_mode) == 0o700
    restored = BrokerProcess(copy)
    restored.start()
    client = Client.connect(restored.address)
    assert drain(client, "q") == [b"before"]
    deposit(client, b"routed", key="a.c", exchange="amq.topic")
    assert drain(client, "q") == [b"routed"]
    client.close()
    assert restored.stop() == 0


def test_a_backup_under_load_is_consistent(fresh_broker: BrokerProcess, tmp_path: Path) -> None:
    """Confirmed before the backup: in it. Afterwards: a prefix of what was published, whatever else went on."""
    tell, copy = teller(fresh_broker), tmp_path / "copy"
    client = Client.connect(fresh_broker.address)
    client.ask(queue_declare("q", durable=True))
    deposit(client, *(b"%d" % number for number in range(500)), key="q", properties=PERSISTENT)
    with ThreadPoolExecutor(1) as pool:
        made = pool.submit(tell, "backup", directory=str(copy))
        number = 500
        while not made.done():
            other = f"other-{number}"
            client.ask(queue_declare(other, durable=True))
            deposit(client, b"%d" % number, key="q", properties=PERSISTENT)
            deposit(client, b"x" * 5000, key=other, properties=PERSISTENT)
            client.ask(queue_delete(other))
            number += 1
        made.result()
    client.close()
    assert offline.run(Config(server=Server(data_dir=str(copy))), "check", {})["problems"] == []
    restored = BrokerProcess(copy)
    restored.start()
    client = Client.connect(restored.address)
    bodies = drain(client, "q")
    client.close()
    assert bodies == [b"%d" % number for number in range(len(bodies))]
    assert 500 <= len(bodies) <= number
    assert restored.stop() == 0
