"""Administering a running broker through its socket. Reply texts are RabbitMQ 3.10.8's on the wire."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from trio.testing import memory_stream_pair

from broker.admin.commands.admin_command import VhostList, command_name
from broker.admin.protocol import AdministrationError, socket_path
from broker.cli.usage.listing_kinds import LISTINGS
from broker.config import Config, ServerSettings
from broker.server import admin_socket
from broker.server.offline import offline_commands
from broker.wire.methods import (
    BasicCancel,
    BasicDeliver,
    BasicPublish,
    ConfirmSelect,
    ConnectionClose,
    ConnectionOpen,
    TxSelect,
)
from harness.brokers.broker_process import BrokerProcess
from harness.clients.contents import PERSISTENT
from harness.clients.queue_steps import deposit, drain
from harness.clients.shorthand import consume, get, prefetch, queue_bind, queue_declare, queue_delete
from harness.clients.wire_client import Client
from tests.unit.conftest import Dial

pytestmark = pytest.mark.slow


Tell = Callable[..., Any]
ALL = {"configure": ".*", "write": ".*", "read": ".*"}


@pytest.fixture
def tell(file_broker: BrokerProcess) -> Tell:
    """A function that asks the broker to carry out a command."""
    return file_broker.tell


class Tenant(NamedTuple):
    """A user (password "pw") and a virtual host of its own where it may do everything at first."""

    process: BrokerProcess
    dial: Dial
    user: str
    vhost: str

    def log_in(self, password: str = "pw", **options: Any) -> Client:
        return self.dial(self.process, user=self.user, password=password, vhost=self.vhost, **options)

    def permit(self, **permission: str) -> None:
        """Set what the user may do; what is not named is allowed."""
        self.process.tell("set_permissions", vhost=self.vhost, user=self.user, **(ALL | permission))

    def entry_refused(self) -> str:
        """Return the refusal of connection.open."""
        client = Client(self.process.address)
        client.start(user=self.user, password="pw")
        client.tune()
        refusal = client.refusal(ConnectionOpen(self.vhost), channel=0)
        client.close()
        return refusal

    def access_refused(self, what: str) -> str:
        return f"ACCESS_REFUSED - access to {what} in vhost '{self.vhost}' refused for user '{self.user}'"


@pytest.fixture
def tenant(file_broker: BrokerProcess, dial: Dial, tell: Tell, name: Callable[..., str]) -> Tenant:
    tenant = Tenant(file_broker, dial, name("user"), name("vhost"))
    tell("add_user", name=tenant.user, password="pw", tags=[])
    tell("add_vhost", name=tenant.vhost, description="", tags=[], default_queue_type="")
    tenant.permit()
    return tenant


def failing(tell: Tell, command: str, **arguments: object) -> tuple[str, str]:
    with pytest.raises(AdministrationError) as caught:
        tell(command, **arguments)
    return caught.value.kind, str(caught.value)


def row(rows: list[dict[str, Any]], name: str) -> dict[str, Any]:
    """The row of that name in a listing."""
    (found,) = [each for each in rows if each["name"] == name]
    return found


# Users


def test_users_passwords_and_tags(tenant: Tenant, tell: Tell) -> None:
    """A new user may log in at once; a new password counts for the next login only."""
    user = tenant.user
    client = tenant.log_in()
    client.ask(queue_declare("q"))
    assert tell("authenticate_user", name=user, password="pw") is None
    words = f"failed to authenticate user \"{user}\": user '{user}' - invalid credentials"
    assert failing(tell, "authenticate_user", name=user, password="bad") == ("refused", words)
    tell("change_password", name=user, password="other")
    client.ask(queue_declare("still-open"))
    tenant.log_in("other")
    refused = Client(tenant.process.address)
    refused.start(user=user, password="pw")
    close = refused.expect(ConnectionClose, channel=0)
    refused.close()
    assert close.reply_text.startswith("ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN.")
    tell("set_user_tags", name=user, tags=["administrator", "monitoring"])
    tell("set_user_tags", name=user, tags=["management"])
    assert row(tell("list_users"), user)["tags"] == ["management"], "tags are replaced"
    assert failing(tell, "add_user", name="without a password", password="", tags=[])[0] == "invalid"


def test_deleting_a_user_closes_its_connections(tenant: Tenant, tell: Tell) -> None:
    user, client, other = tenant.user, tenant.log_in(), tenant.dial(tenant.process)
    tell("delete_user", name=user)
    assert client.closing(channel=0) == f"connection 320 CONNECTION_FORCED - user '{user}' is deleted"
    other.ask(queue_declare("", exclusive=True))
    assert user not in {row["name"] for row in tell("list_users")}
    assert [row for row in tell("list_permissions", vhost=tenant.vhost) if row["user"] == user] == []


def test_of_many_who_add_the_same_user_one_succeeds(tell: Tell, name: Callable[..., str]) -> None:
    user = name("user")

    def add(number: int) -> str:
        try:
            tell("add_user", name=user, password=f"password {number}", tags=[])
        except AdministrationError as error:
            return f"{error.kind}: {error}"
        return str(number)

    with ThreadPoolExecutor(4) as pool:
        outcomes = list(pool.map(add, range(4)))
    (winner,) = [outcome for outcome in outcomes if outcome.isdecimal()]
    assert outcomes.count(f'already_exists: User "{user}" already exists') == 3
    assert tell("authenticate_user", name=user, password=f"password {winner}") is None


# Permissions


def test_a_permission_holds_for_an_open_connection_at_once(tenant: Tenant, tell: Tell) -> None:
    """It holds for routes cached before, too, and when it is given back. A user who loses all stays connected, and
    cannot return."""
    client = tenant.log_in()
    client.ask(queue_declare("q"))
    client.ask(ConfirmSelect(False))
    client.publish(b"allowed", key="q")
    client.receive()
    for action, method, denied in (
        ("configure", queue_declare("new"), "queue 'new'"),
        ("read", get("q"), "queue 'q'"),
        ("write", queue_bind("q", "amq.direct", "k"), "queue 'q'"),
    ):
        tenant.permit(**{action: "^other"})
        assert client.refusal(method) == f"channel 403 {tenant.access_refused(denied)}"
        tenant.permit()
        client.send(method)
        assert not hasattr(client.receive(), "reply_code")
    tenant.permit(write="^$")
    client.publish(b"refused", key="q")
    assert client.closing(BasicPublish) == "channel 403 " + tenant.access_refused("exchange 'amq.default'")
    tell("clear_permissions", vhost=tenant.vhost, user=tenant.user)
    assert client.refusal(queue_declare("q")) == "channel 403 " + tenant.access_refused("queue 'q'")
    words = f"access to vhost '{tenant.vhost}' refused for user '{tenant.user}'"
    assert tenant.entry_refused() == f"connection 530 NOT_ALLOWED - {words}"


def test_a_topic_permission_holds_at_once(tenant: Tenant, tell: Tell) -> None:
    vhost, client = tenant.vhost, tenant.log_in()
    client.ask(queue_declare("q"))
    client.ask(queue_bind("q", "amq.topic", "b.c"))
    permission = {"exchange": "amq.topic", "write": "^{username}$", "read": "^a"}
    tell("set_topic_permissions", vhost=vhost, user=tenant.user, **permission)
    refused = tenant.access_refused("topic 'b.d' in exchange 'amq.topic'")
    assert client.refusal(queue_bind("q", "amq.topic", "b.d")) == f"channel 403 {refused}"
    client.ask(queue_bind("q", "amq.topic", "a.d"))
    client.ask(ConfirmSelect(False))
    client.publish(b"own name", exchange="amq.topic", key=tenant.user)
    client.receive()
    tell("set_topic_permissions", vhost=vhost, user=tenant.user, **permission | {"write": "^other$"})
    client.publish(b"as before", exchange="amq.topic", key=tenant.user)
    refused = tenant.access_refused(f"topic '{tenant.user}' in exchange 'amq.topic'")
    assert client.closing(BasicPublish) == f"channel 403 {refused}"
    tell("clear_topic_permissions", vhost=vhost, user=tenant.user, exchange=None)
    assert tell("list_topic_permissions", vhost=vhost) == []
    client.ask(queue_bind("q", "amq.topic", "b.d"))


SLOW = "^([a-z0-9]+[._-]?)+$"
"""Reads well, and keeps an engine that tries every way busy for ever with a name that it almost matches."""


def test_a_slow_regular_expression_is_given_up(tenant: Tenant, tell: Tell) -> None:
    """A broken one changes nothing."""
    tenant.permit(configure=SLOW)
    topics = {"exchange": "amq.topic", "write": SLOW, "read": SLOW}
    tell("set_topic_permissions", vhost=tenant.vhost, user=tenant.user, **topics)
    policy = {"name": "p", "pattern": SLOW, "apply_to": "all", "priority": 0, "definition": {"max-length": 1}}
    tell("set_policy", vhost=tenant.vhost, **policy)
    client, almost = tenant.log_in(), "a" * 60 + "!"
    client.ask(queue_declare("good.name"))
    for refused in (queue_declare(almost), queue_bind("good.name", "amq.topic", almost)):
        assert "the permission's regular expression was given up" in client.refusal(refused)
    tenant.permit()
    client.ask(queue_declare(almost))
    applied = {row["name"]: row["policy"] for row in tell("list_queues", vhost=tenant.vhost)}
    assert applied == {"good.name": "p", almost: ""}
    for look_around in ("^(?!amq\\.).*", "(?i)^Q"):
        tenant.permit(configure=look_around)
        client.ask(queue_declare("q"))
    limit = {**policy, "pattern": "(*LIMIT_MATCH=9999999)x"}
    assert failing(tell, "set_policy", vhost=tenant.vhost, **limit)[0] == "invalid"
    tenant.permit()
    kind, words = failing(tell, "set_permissions", vhost=tenant.vhost, user=tenant.user, **ALL | {"write": "["})
    assert (kind, words.startswith("regular expression '[' is invalid: ")) == ("invalid", True)
    assert tell("list_user_permissions", name=tenant.user) == [{"vhost": tenant.vhost, **ALL}]


# Virtual hosts


def test_a_deleted_virtual_host_sends_its_clients_away_and_is_empty_when_made_again(tenant: Tenant, tell: Tell) -> None:
    vhost, client, other = tenant.vhost, tenant.log_in(), tenant.dial(tenant.process)
    client.ask(queue_declare("q", durable=True))
    client.ask(queue_declare("mine", exclusive=True))
    client.ask(consume("q", "tag"))
    deposit(client, b"held", key="q", properties=PERSISTENT)
    client.expect_message(BasicDeliver)
    tell("delete_vhost", name=vhost)
    assert client.expect(BasicCancel).consumer_tag == "tag"
    assert client.closing(channel=0) == f"connection 320 CONNECTION_FORCED - vhost '{vhost}' is deleted"
    other.ask(queue_declare("", exclusive=True))
    assert tenant.entry_refused() == f"connection 530 NOT_ALLOWED - vhost {vhost} not found"
    assert tell("list_user_permissions", name=tenant.user) == []
    told = {"description": "again", "tags": ["x"], "default_queue_type": "classic"}
    tell("add_vhost", name=vhost, **told)
    tenant.permit()
    assert tenant.log_in().ask(queue_declare("q", durable=True)).message_count == 0
    assert [row["name"] for row in tell("list_exchanges", vhost=vhost)][:3] == ["", "amq.direct", "amq.fanout"]
    said = {"name": vhost, **told, "limits": {}, "tracing": False}
    assert row(tell("list_vhosts", columns=list(said)), vhost) == said


# Limits: study of 3.10.8's texts


def test_limits_of_connections_channels_and_queues(tenant: Tenant, tell: Tell) -> None:
    user, vhost = tenant.user, tenant.vhost
    tenant.log_in()
    of_vhost = f"access to vhost '{vhost}' refused for user '{user}': connection limit (1) is reached"
    of_user = f"connection refused for user '{user}': user connection limit (1) is reached"
    for kind, name, refusal in (("vhost", vhost, of_vhost), ("user", user, of_user)):
        tell(f"set_{kind}_limits", name=name, limits={"max-connections": 1})
        assert tenant.entry_refused() == f"connection 530 NOT_ALLOWED - {refusal}"
        tell(f"clear_{kind}_limits", name=name, limits=["max-connections"])
    tell("set_user_limits", name=user, limits={"max-connections": -1, "max-channels": 3})
    client = tenant.log_in(channels=(1, 2))
    words = f"number of channels opened for user '{user}' has reached the maximum allowed user limit of (3)"
    with pytest.raises(AssertionError) as caught:
        client.open_channel(3)
    assert f"NOT_ALLOWED - {words}" in str(caught.value)
    tell("clear_user_limits", name=user, limits=["max-channels"])
    tell("set_vhost_limits", name=vhost, limits={"max-queues": 1})
    client = tenant.log_in()
    client.ask(queue_declare("first"))
    client.ask(queue_declare("first"))
    words = f"cannot declare queue 'second': queue limit in vhost '{vhost}' (1) is reached"
    assert client.refusal(queue_declare("second")) == f"channel 406 PRECONDITION_FAILED - {words}"


def test_a_users_limits_add_up_and_a_virtual_hosts_do_not(tenant: Tenant, tell: Tell) -> None:
    """RabbitMQ 3.10.8, `rabbitmqctl set_user_limits` and `set_vhost_limits`, each called twice."""
    for limits in ({"max-channels": 5}, {"max-connections": 50}):
        tell("set_user_limits", name=tenant.user, limits=limits)
    assert row(tell("list_users"), tenant.user)["limits"] == {"max-channels": 5, "max-connections": 50}
    for limits in ({"max-connections": 5}, {"max-queues": 50}, {}):
        tell("set_vhost_limits", name=tenant.vhost, limits=limits)
        assert row(tell("list_vhosts"), tenant.vhost)["limits"] == limits


UNKNOWN = 'Unrecognised terms [{{<<"max-foo">>,50}}] in {kind}'


@pytest.mark.parametrize(
    ("limits", "why"),
    [
        ({"max-foo": 50}, UNKNOWN),
        ({"max-connections": "a"}, 'max-connections should be a number, actually was <<"a">>'),
        ({"max-connections": 1.5}, "max-connections should be a number, actually was 1.5"),
        ({"max-connections": None}, "max-connections should be a number, actually was null"),
        ({"max-foo": 50, "max-connections": 1.5}, UNKNOWN + "; max-connections should be a number, actually was 1.5"),
        ({"max-connections": True}, ""),
        ([], ""),
        ({"max-connections": 2**63}, ""),
    ],
)
def test_limits_are_refused_in_rabbitmqs_words(tell: Tell, limits: dict[str, Any], why: str) -> None:
    """Those of `rabbitmqctl set_vhost_limits` and `set_user_limits` of RabbitMQ 3.10.8, where it has any."""
    for command, name, kind, heading in (
        ("set_vhost_limits", "/", "limits", "Validation failed: "),
        ("set_user_limits", "guest", "user-limits", ""),
    ):
        error, said = failing(tell, command, name=name, limits=limits)
        assert (error, said) == ("invalid", f"{heading}{why.format(kind=kind)}" if why else said)


# Queues, connections


def test_a_connection_is_closed_with_a_reason(file_broker: BrokerProcess, tell: Tell, dial: Dial) -> None:
    before = {row["name"] for row in tell("list_connections")}
    client = dial(file_broker)
    (name,) = {row["name"] for row in tell("list_connections")} - before
    tell("close_connection", name=name, reason="maintenance")
    assert client.closing(channel=0) == "connection 320 CONNECTION_FORCED - maintenance"
    assert failing(tell, "close_connection", name="nobody", reason="x") == ("not_found", "no connection 'nobody'")


def test_status_says_what_runs_where(tell: Tell, file_broker: BrokerProcess) -> None:
    status, (host, port) = tell("status"), file_broker.address
    assert (status["pid"], status["listeners"], status["alarms"]) == (file_broker.pid, [f"{host}:{port}"], [])
    assert status["data_directory"] == str(file_broker.data_dir)
    assert status["memory"]["used_bytes"] > 1 << 20
    assert status["totals"]["vhosts"] >= 1


def test_a_queue_is_purged_and_deleted(tenant: Tenant, tell: Tell) -> None:
    client, vhost, queue = tenant.log_in(), tenant.vhost, "q"
    client.ask(queue_declare(queue, durable=True))
    deposit(client, b"1", b"2", key=queue, properties=PERSISTENT)
    assert tell("purge_queue", vhost=vhost, name=queue) == {"messages": 2}
    assert client.ask(queue_declare(queue, passive=True)).message_count == 0
    deposit(client, b"3", key=queue, properties=PERSISTENT)
    assert tell("delete_queue", vhost=vhost, name=queue) == {"messages": 1}
    assert "404 NOT_FOUND" in client.refusal(queue_declare(queue, passive=True))
    assert failing(tell, "delete_queue", vhost=vhost, name=queue) == (
        "not_found",
        f"no queue '{queue}' in vhost '{vhost}'",
    )


def test_every_listing_has_its_columns(tenant: Tenant, tell: Tell) -> None:
    user, vhost = tenant.user, tenant.vhost
    tell("set_topic_permissions", vhost=vhost, user=user, exchange="amq.topic", write=".*", read=".*")
    for kind in ("policy", "operator_policy"):
        told = {"name": kind, "pattern": "", "definition": {"expires": 10**9}, "priority": 0, "apply_to": "all"}
        tell(f"set_{kind}", vhost=vhost, **told)
    client = tenant.log_in(channels=(1, 2))
    client.ask(TxSelect(), channel=2)
    client.ask(prefetch(7))
    client.ask(queue_declare("q", arguments={"x-max-length": 5, "x-other": [b"\xff", {"a": None}]}))
    client.ask(queue_bind("q", "amq.direct", "k", arguments={"n": 1}))
    client.ask(consume("q", "tag", arguments={"x-priority": 3}))
    deposit(client, b"one", key="q")
    client.expect_message(BasicDeliver)
    for kind, listing in LISTINGS.items():
        place = {"vhost": vhost} if issubclass(listing.command, VhostList) else {}
        rows = tell(command_name(listing.command), columns=list(listing.columns), **place)
        assert rows or kind in ("alarms", "certificates", "shovels"), kind
        assert all(set(listing.columns) <= row.keys() for row in rows), kind
    for command in ("list_queues", "list_exchanges", "list_bindings", "list_consumers"):
        assert failing(tell, command, vhost="nope") == ("not_found", "Virtual host 'nope' does not exist")
        assert tell(command, vhost=None) is not None
    counts = {"messages_ready": 0, "messages_unacknowledged": 1, "consumers": 1}
    policies = {"policy": "policy", "operator_policy": "operator_policy"}
    arguments = {"x-max-length": 5, "x-other": ["\udcff", {"a": None}]}
    said: dict[str, list[dict[str, Any]]] = {
        "queues": [{**counts, **policies, "arguments": arguments, "effective_policy_definition": {"expires": 10**9}}],
        "consumers": [{"queue": "q", "prefetch_count": 7, "ack_required": True, "priority": 3, "active": True}],
        "connections": [{"state": "running", "channels": 2, "vhost": vhost}],
        "channels": [
            {"number": 1, "consumer_count": 1, "transactional": False},
            {"number": 2, "consumer_count": 0, "transactional": True},
        ],
    }
    for kind, expected in said.items():
        rows = tell(f"list_{kind}", **({"vhost": vhost} if kind in ("queues", "consumers") else {}))
        own = [row for row in rows if row.get("user", user) == user]
        assert [{key: row[key] for key in each} for row, each in zip(own, expected, strict=True)] == expected, kind
    binding = {"source": "", "destination": "q", "destination_type": "queue", "routing_key": "q", "arguments": {}}
    assert binding in tell("list_bindings", vhost=vhost, columns=list(binding))


# The socket itself


def test_a_request_that_makes_no_sense_is_refused_and_harms_nobody(file_broker: BrokerProcess) -> None:
    lines = (
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
        *(
            b'{"command": "set_global_parameter", "arguments": {"name": "x", "value": %b}}' % number
            for number in (b"NaN", b"-Infinity", b"1e999")
        ),
        b"[" * 100_000,
        b"\xff\xfe",
    )
    with socket_path(file_broker.data_dir) as path, socket.socket(socket.AF_UNIX) as peer:
        peer.settimeout(10)
        peer.connect(path)
        with peer.makefile("rwb", buffering=0) as file:
            for line in lines:
                file.write(line + b'\n{"command": "ping", "arguments": {}}\n')
                assert json.loads(file.readline())["error"]["kind"] == "invalid", line[:100]
                assert json.loads(file.readline()) == {"ok": "pong"}


async def test_a_request_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin_socket, "REQUEST_BYTES_MAX", 100)
    ours, theirs = memory_stream_pair()
    lines = admin_socket.Lines(ours)
    await theirs.send_all(b"a" * 50 + b"\n" + b"b" * 101)
    assert await lines.next() == b"a" * 50
    with pytest.raises(AdministrationError, match="longer than 100 bytes"):
        await lines.next()


# Backups


def test_a_backup_under_load_is_a_data_directory(fresh_broker: BrokerProcess, tmp_path: Path) -> None:
    """Confirmed before the backup: in it. Afterwards: a prefix of what was published, whatever else went on."""
    tell, copy = fresh_broker.tell, tmp_path / "deep" / "copy"
    client = Client.connect(fresh_broker.address)
    client.ask(queue_declare("q", durable=True))
    client.ask(queue_declare("bound", durable=True))
    client.ask(queue_bind("bound", "amq.topic", "a.#"))
    deposit(client, *(b"%d" % number for number in range(300)), key="q", properties=PERSISTENT)
    with ThreadPoolExecutor(1) as pool:
        made = pool.submit(tell, "backup", directory=str(copy))
        number = 300
        while not made.done():
            other = f"other-{number}"
            client.ask(queue_declare(other, durable=True))
            deposit(client, b"%d" % number, key="q", properties=PERSISTENT)
            deposit(client, b"x" * 5000, key=other, properties=PERSISTENT)
            client.ask(queue_delete(other))
            number += 1
        made.result()
    client.close()
    assert failing(tell, "backup", directory=str(copy))[0] == "already_exists"
    assert failing(tell, "backup", directory="a\0b") == ("invalid", "argument directory: holds a zero byte")
    assert offline_commands.check_stores(Config(server=ServerSettings(data_dir=str(copy))))["problems"] == []
    restored = BrokerProcess(copy)
    restored.start()
    client = Client.connect(restored.address)
    bodies = drain(client, "q")
    deposit(client, b"routed", key="a.c", exchange="amq.topic")
    assert drain(client, "bound") == [b"routed"]
    client.close()
    assert bodies == [b"%d" % number for number in range(len(bodies))]
    assert 300 <= len(bodies) <= number
    assert restored.stop() == 0
