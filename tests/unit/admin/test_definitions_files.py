"""Definitions files: RabbitMQ's form in and out, at the start and while the broker runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.admin.protocol import AdministrationError, ask
from broker.wire.methods import ConnectionClose
from harness.brokers.broker_process import BrokerProcess
from harness.clients.queue_steps import deposit, drain
from harness.clients.shorthand import exchange_declare, queue_bind, queue_declare
from harness.clients.wire_client import Client
from harness.project import ROOT

pytestmark = pytest.mark.slow

# What `rabbitmqctl export_definitions` of RabbitMQ 3.10.8 wrote, with its odd spots: an operator policy's definition as
# pairs, a virtual host's tags as text and its limits twice. The user's password is "pw".
EXPORTED: dict[str, Any] = {
    "rabbit_version": "3.10.8",
    "rabbitmq_version": "3.10.8",
    "users": [
        {
            "hashing_algorithm": "rabbit_password_hashing_sha256",
            "limits": {"max-channels": 7},
            "name": "kim",
            "password_hash": "+Wj5+rtBW0znj5AuBpyAIR3fALroDKHmbGSvWOtZscwyyc9m",
            "tags": ["management", "policymaker"],
        }
    ],
    "vhosts": [
        {"limits": [], "metadata": {"description": "Default virtual host", "tags": []}, "name": "/"},
        {"limits": [["max-queues", 9]], "metadata": {"description": "a b", "tags": "x,y"}, "name": "west"},
    ],
    "permissions": [{"configure": "^k", "read": "a|b", "user": "kim", "vhost": "west", "write": ".*"}],
    "topic_permissions": [
        {"exchange": "amq.topic", "read": "{username}", "user": "kim", "vhost": "west", "write": "^a"}
    ],
    "parameters": [
        {
            "component": "operator_policy",
            "name": "OP",
            "value": {"apply-to": "all", "definition": [["max-length", 50]], "pattern": ".*", "priority": 0},
            "vhost": "west",
        },
        {"component": "vhost-limits", "name": "limits", "value": {"max-queues": 9}, "vhost": "west"},
    ],
    "global_parameters": [{"name": "gp", "value": {"a": [1, 2]}}],
    "policies": [
        {
            "apply-to": "queues",
            "definition": {"max-length": 5},
            "name": "P",
            "pattern": "^q",
            "priority": 3,
            "vhost": "west",
        }
    ],
    "queues": [
        {
            "arguments": {"x-dead-letter-exchange": "dlx", "x-max-length": 10, "x-message-ttl": 60000},
            "auto_delete": False,
            "durable": True,
            "name": "q1",
            "type": "classic",
            "vhost": "west",
        }
    ],
    "exchanges": [
        {
            "arguments": {},
            "auto_delete": True,
            "durable": True,
            "internal": False,
            "name": "hx",
            "type": "headers",
            "vhost": "west",
        },
        {
            "arguments": {"alternate-exchange": "alt"},
            "auto_delete": False,
            "durable": True,
            "internal": False,
            "name": "ex",
            "type": "topic",
            "vhost": "west",
        },
    ],
    "bindings": [
        {
            "arguments": {},
            "destination": "q1",
            "destination_type": "queue",
            "routing_key": "a.#",
            "source": "ex",
            "vhost": "west",
        },
        {
            "arguments": {"z": [1, "x", {"y": 2}]},
            "destination": "hx",
            "destination_type": "exchange",
            "routing_key": "k.*",
            "source": "ex",
            "vhost": "west",
        },
        {
            "arguments": {"b": True, "n": 5, "s": "str", "x-match": "any"},
            "destination": "q1",
            "destination_type": "queue",
            "routing_key": "",
            "source": "hx",
            "vhost": "west",
        },
    ],
}
CREATED = {
    "vhosts": 1,
    "users": 1,
    "permissions": 1,
    "topic_permissions": 1,
    "user_limits": 1,
    "vhost_limits": 1,
    "policies": 2,
    "global_parameters": 1,
    "exchanges": 2,
    "queues": 1,
    "bindings": 3,
}
NOTHING = {"exchanges": 0, "queues": 0, "bindings": 0}


def tell(process: BrokerProcess, command: str, **arguments: object) -> Any:
    return ask(process.data_dir, command, arguments, 20.0)


def canonical(definitions: dict[str, Any]) -> dict[str, list[str]]:
    """Definitions in a form that does not depend on order, without what names a broker."""
    return {
        kind: sorted(json.dumps(row, sort_keys=True) for row in rows)
        for kind, rows in definitions.items()
        if isinstance(rows, list)
    }


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def start(directory: Path) -> Iterator[Callable[..., BrokerProcess]]:
    """A function that starts a broker on a new data directory with a definitions file."""
    started: list[BrokerProcess] = []

    def start(definitions: Any, environment: dict[str, str] | None = None) -> BrokerProcess:
        file = directory.parent / "definitions.json"
        file.write_text(json.dumps(definitions))
        merged = {**os.environ, **(environment or {})}
        started.append(BrokerProcess(directory, "--definitions", str(file), environment=merged))
        started[-1].start()
        return started[-1]

    yield start
    for process in started:
        process.stop()


def login_refused(process: BrokerProcess, user: str, password: str) -> bool:
    client = Client(process.address)
    client.start(user=user, password=password)
    item = client.receive(channel=0)
    client.close()
    return isinstance(item, ConnectionClose)


# At the start


def test_what_a_file_defines_is_there_when_the_port_opens(start: Callable[..., BrokerProcess]) -> None:
    process = start(EXPORTED)
    client = Client.connect(process.address, user="kim", password="pw", vhost="west")
    client.publish(b"routed", exchange="ex", key="a.b")
    assert client.refusal(queue_declare("other")).startswith("channel 403 ACCESS_REFUSED")
    client.close()
    assert {row["name"]: row["messages"] for row in tell(process, "list_queues", vhost="west")} == {"q1": 1}


def test_a_file_with_users_takes_the_default_users_place(start: Callable[..., BrokerProcess]) -> None:
    process = start(EXPORTED)
    assert [row["name"] for row in tell(process, "list_users")] == ["kim"]
    assert login_refused(process, "guest", "guest")


def test_a_file_without_users_leaves_the_default_user(start: Callable[..., BrokerProcess]) -> None:
    process = start({"vhosts": [{"name": "v"}], "permissions": [
        {"user": "guest", "vhost": "v", "configure": ".*", "write": ".*", "read": ".*"}]})  # fmt: skip
    Client.connect(process.address, vhost="v").close()


def test_a_default_user_named_in_the_environment_is_made_anyway(start: Callable[..., BrokerProcess]) -> None:
    process = start(EXPORTED, {"RABBITMQ_DEFAULT_USER": "boss", "RABBITMQ_DEFAULT_PASS": "pass"})
    Client.connect(process.address, user="boss", password="pass").close()
    Client.connect(process.address, user="kim", password="pw", vhost="west").close()


def test_the_environment_counts_on_a_new_data_directory_only(directory: Path) -> None:
    first = {"LEVERET_DEFAULT_USER": "one", "LEVERET_DEFAULT_PASS": "1", "LEVERET_DEFAULT_VHOST": "v"}
    process = BrokerProcess(directory, environment={**os.environ, **first})
    process.start()
    Client.connect(process.address, user="one", password="1", vhost="v").close()
    process.environment = {**os.environ, "LEVERET_DEFAULT_USER": "two", "LEVERET_DEFAULT_PASS": "2"}
    process.restart()
    assert [row["name"] for row in tell(process, "list_users")] == ["one"]
    assert [row["name"] for row in tell(process, "list_vhosts")] == ["v"]
    process.stop()


def test_every_start_makes_users_and_permissions_what_the_file_says(start: Callable[..., BrokerProcess]) -> None:
    """As RabbitMQ's load_definitions; what the file does not name stays."""
    process = start(EXPORTED)
    before = tell(process, "export_definitions")
    tell(process, "change_password", name="kim", password="new")
    tell(process, "set_permissions", vhost="west", user="kim", configure="", write="", read="changed")
    process.restart()
    assert tell(process, "export_definitions") == before
    tell(process, "add_user", name="ann", password="x", tags=[])
    process.restart()
    assert [row["name"] for row in tell(process, "list_users")] == ["kim", "ann"]


BROKEN = [
    ("{", "is not JSON: "),
    ("[]", "definitions: Expected `object`, got `array`"),
    ({"users": {}}, "definitions: Expected `array`, got `object` - at `users`"),
    ({"users": [{"password": "hidden"}]}, "definitions: Object missing required field `name` - at `users[0]`"),
    ({"users": [{"name": "x", "password_hash": "", "hashing_algorithm": "md5"}]}, "users[0]: hashing algorithm md5"),
    ({"users": [{"name": "x", "limits": {"max-x": 1}}]},
     'users[0]: Unrecognised terms [{<<"max-x">>,1}] in user-limits'),
    ({"queues": [{"name": "q", "vhost": "nope"}]}, "queues[0]: Virtual host 'nope' does not exist"),
    ({"permissions": [{"user": "x", "vhost": "/", "configure": "", "write": "", "read": ""}]},
     'permissions[0]: User "x" does not exist'),
    ({"users": [{"name": "x"}], "permissions": [
        {"user": "x", "vhost": "/", "configure": "(", "write": "", "read": ""}]},
     "permissions[0]: regular expression '(' is invalid"),
    ({"exchanges": [{"name": "e", "vhost": "/", "type": "x-jms-topic"}]},
     "exchanges[0]: unknown exchange type 'x-jms-topic'"),
    ({"queues": [{"name": "q", "vhost": "/", "arguments": {"x-message-ttl": -1}}]},
     "queues[0]: invalid arg 'x-message-ttl' for queue 'q' in vhost '/'"),
    ({"queues": [{"name": "q", "vhost": "/", "arguments": {"x-queue-type": "odd"}}]},
     "queues[0]: invalid arg 'x-queue-type'"),
    ({"queues": [{"name": "q", "vhost": "/", "arguments": {"n": 2**70}}]}, "queues[0]: "),
    ({"queues": [{"name": "q" * 256, "vhost": "/"}]}, "at `queues[0].name`"),
    ({"bindings": [{"source": "nope", "vhost": "/", "destination": "q"}]},
     "bindings[0]: no exchange 'nope' in vhost '/'"),
    ({"bindings": [{"source": "amq.topic", "vhost": "/", "destination": "q"}]},
     "bindings[0]: no queue 'q' in vhost '/'"),
    ({"queues": [{"name": "q", "vhost": "/"}], "bindings": [
        {"source": "amq.headers", "vhost": "/", "destination": "q", "arguments": {"x-match": "some"}}]},
     "bindings[0]: Invalid x-match"),
    ({"exchanges": [{"name": "e", "vhost": "/", "type": "x-consistent-hash", "arguments": {"hash-property": "a"}}]},
     "exchanges[0]: Unsupported property: a"),
    ({"exchanges": [{"name": "e", "vhost": "/", "type": "x-consistent-hash", "arguments": {"hash-header": 1}}]},
     "exchanges[0]: hash-header and hash-property must be strings"),
    ({"exchanges": [{"name": "e", "vhost": "/", "type": "x-recent-history",
                     "arguments": {"x-recent-history-length": 0}}]},
     "exchanges[0]: Invalid argument 0, 'x-recent-history-length' must be a positive integer"),
    ({"queues": [{"name": "q", "vhost": "/"}], "exchanges": [{"name": "e", "vhost": "/", "type": "x-consistent-hash"}],
      "bindings": [{"source": "e", "vhost": "/", "destination": "q", "routing_key": "k"}]},
     'bindings[0]: The binding key must be an integer: <<"k">>'),
    ({"exchanges": [{"name": "e", "vhost": "/", "type": "x-local-random"}], "bindings": [
        {"source": "e", "vhost": "/", "destination": "amq.fanout", "destination_type": "exchange"}]},
     "bindings[0]: Destination not found"),
    ({"policies": [{"vhost": "/", "name": "p", "pattern": "", "definition": {"max-foo": 4}}]},
     'policies[0]: Validation failed: [{<<"max-foo">>,4}] are not recognised policy settings'),
    ({"policies": [{"vhost": "/", "name": "p", "pattern": "(", "definition": {"max-length": 4}}]},
     "policies[0]: Validation failed: pattern should be regular expression but is invalid"),
    ({"policies": [{"vhost": "/", "name": "p", "pattern": "", "definition": {"expires": 4}, "apply-to": "x"}]},
     "policies[0]: Validation failed: apply-to 'x' unrecognised"),
    ({"parameters": [{"vhost": "/", "component": "operator_policy", "name": "o",
                      "value": {"pattern": "", "definition": [["overflow", "drop-head"]]}}]},
     'parameters[0]: Validation failed: [{<<"overflow">>,<<"drop-head">>}] are not recognised policy settings'),
    ({"parameters": [{"vhost": "/", "component": "vhost-limits", "name": "limits", "value": {"max-queues": "a"}}]},
     'parameters[0]: max-queues should be a number, actually was <<"a">>'),
    ({"parameters": [{"vhost": "/", "component": "operator_policy", "name": "o", "value": 1}]},
     "parameters[0]: value: expected an operator policy"),
    ({"vhosts": [{"name": ""}]}, "at `vhosts[0].name`"),
    ({"vhosts": [{"name": "\ud800"}]}, "half of a surrogate pair"),
    ({"queues": [{"name": "é" * 200, "vhost": "/"}]}, "queues[0]: name: is longer than 255 bytes"),
    ({"bindings": [{"source": "amq.topic", "vhost": "/", "destination": "q", "routing_key": "é" * 255}]},
     "bindings[0]: routing_key: is longer than 255 bytes"),
    ({"queues": [{"name": "q", "vhost": "/", "arguments": {"a": [{"é" * 200: 1}]}}]},
     "queues[0]: arguments: a name is longer than 255 bytes"),
    ({"policies": [{"vhost": "/", "name": "p", "pattern": "", "definition": {"expires": 4}, "priority": 2**70}]},
     "Expected `int` <= 9223372036854775807 - at `policies[0].priority`"),
    ({"\udcff": []}, "is not UTF-8"),
    ({"bindings": [{"source": "x", "vhost": "/", "destination": "q", "destination_type": "\udcff"}]}, "is not UTF-8"),
]  # fmt: skip


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker for tests that add nothing to it."""
    process = BrokerProcess(tmp_path_factory.mktemp("defined") / "data")
    process.start()
    yield process
    process.stop()


@pytest.mark.parametrize(("content", "message"), [case for case in BROKEN if not isinstance(case[0], str)])
def test_a_file_with_one_thing_wrong_is_refused_whole(running: BrokerProcess, content: Any, message: str) -> None:
    before = tell(running, "export_definitions")
    good = {"vhosts": [{"name": "good"}], "users": [{"name": "good", "password": "x"}]}
    mixed = {kind: [*good.get(kind, []), *rows] if isinstance(rows, list) else rows for kind, rows in content.items()}
    if "queues[" not in message and "users[" not in message and "vhosts[" not in message:
        mixed = {**good, **mixed}
    expected = message.replace("users[0]", "users[1]").replace("vhosts[0]", "vhosts[1]")
    with pytest.raises(AdministrationError) as caught:
        tell(running, "import_definitions", definitions=mixed)
    assert caught.value.kind == "invalid"
    assert expected in str(caught.value)
    assert "hidden" not in str(caught.value)
    assert tell(running, "export_definitions") == before


@pytest.mark.parametrize(("content", "message"), [*BROKEN[:4], (None, "cannot be read: No such file or directory")])
def test_a_start_with_a_broken_file_touches_nothing(directory: Path, content: Any, message: str) -> None:
    file = directory.parent / "definitions.json"
    if content is not None:
        file.write_text(content if isinstance(content, str) else json.dumps(content))
    options = ["--data-dir", str(directory), "--listen", "127.0.0.1:0", "--definitions", str(file)]
    done = subprocess.run(
        [sys.executable, "-m", "broker", "serve", *options], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"leveret: error: {file}: ")
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not directory.exists()


# In and out


def test_what_was_exported_makes_another_broker_the_same(
    fresh_broker: BrokerProcess, start: Callable[..., BrokerProcess]
) -> None:
    assert tell(fresh_broker, "import_definitions", definitions=EXPORTED) == CREATED
    assert tell(fresh_broker, "import_definitions", definitions=EXPORTED) == NOTHING
    client = Client.connect(fresh_broker.address)
    client.ask(exchange_declare("transient"))
    client.ask(queue_declare("named by bytes \udcff", arguments={"x-message-ttl": 1000, "x-unknown": [None, 1.5]}))
    client.ask(queue_bind("named by bytes \udcff", "transient", "k", arguments={"n": 5}))
    client.ask(queue_declare("mine", exclusive=True))
    client.ask(queue_bind("mine", "transient", "k"))
    exported = tell(fresh_broker, "export_definitions")
    client.close()
    assert "mine" not in json.dumps(exported)
    assert tell(fresh_broker, "import_definitions", definitions=exported) == NOTHING
    other = start(exported)
    assert canonical(tell(other, "export_definitions")) == canonical(exported)
    client = Client.connect(other.address)
    deposit(client, b"through", exchange="transient", key="k")
    assert drain(client, "named by bytes \udcff") == [b"through"]
    client.close()


def imported(process: BrokerProcess, **definitions: Any) -> dict[str, int]:
    """Import definitions; how many of each kind were made or changed, without those of which none was."""
    counts: dict[str, int] = tell(process, "import_definitions", definitions=definitions)
    return {kind: count for kind, count in counts.items() if count}


def test_what_exists_becomes_what_the_file_says(fresh_broker: BrokerProcess) -> None:
    """`rabbitmqctl import_definitions` of RabbitMQ 3.10.8, kind by kind. Only limits of users add up."""
    process = fresh_broker
    tell(process, "import_definitions", definitions=EXPORTED)
    described = {"name": "west", "metadata": {"description": "other", "tags": [], "default_queue_type": "quorum"}}
    user = {"name": "kim", "password": "two", "tags": "a,b", "limits": {"max-connections": 3}}
    permission = {**EXPORTED["permissions"][0], "configure": "x"}
    topic = {**EXPORTED["topic_permissions"][0], "write": "x"}
    policy = {"vhost": "west", "name": "P", "pattern": "^r", "definition": {"max-length": 4}}
    parameters = [
        {"vhost": "west", "component": "vhost-limits", "name": "limits", "value": {"max-connections": 8}},
        {**EXPORTED["parameters"][0], "value": {**EXPORTED["parameters"][0]["value"], "priority": 5}},
    ]
    assert imported(process, vhosts=[described]) == {"vhosts": 1}
    for _ in range(2):  # the second time, the password is found to be the same
        imported(process, users=[user])
    assert imported(process, users=[user]) == {}
    assert imported(process, permissions=[permission]) == {"permissions": 1}
    assert imported(process, topic_permissions=[topic]) == {"topic_permissions": 1}
    assert imported(process, policies=[policy]) == {"policies": 1}
    assert imported(process, parameters=parameters) == {"vhost_limits": 2, "policies": 1}
    assert imported(process, global_parameters=[{"name": "gp", "value": 1}]) == {"global_parameters": 1}
    assert imported(process, parameters=parameters, policies=[policy]) == {}
    tell(process, "authenticate_user", name="kim", password="two")
    exported = tell(process, "export_definitions")
    (west,) = [row for row in exported["vhosts"] if row["name"] == "west"]
    assert west["metadata"] == {"description": "other", "tags": []}
    (kim,) = [row for row in exported["users"] if row["name"] == "kim"]
    assert (kim["tags"], kim["limits"]) == (["a", "b"], {"max-channels": 7, "max-connections": 3})
    assert permission in exported["permissions"]
    assert topic in exported["topic_permissions"]
    assert exported["policies"] == [{**policy, "apply-to": "all", "priority": 0}]
    limits, operator = {row["component"]: row["value"] for row in exported["parameters"]}.values()
    assert (limits, operator["priority"]) == ({"max-connections": 8}, 5)
    assert exported["global_parameters"] == [{"name": "gp", "value": 1}]
    assert [row["name"] for row in tell(process, "list_policies", vhost="west")] == ["P"]


def test_a_user_without_a_password_has_none_afterwards(fresh_broker: BrokerProcess) -> None:
    tell(fresh_broker, "import_definitions", definitions=EXPORTED)
    imported(fresh_broker, users=[{"name": "kim", "tags": ""}])
    assert login_refused(fresh_broker, "kim", "pw")


def test_queues_and_exchanges_that_are_there_stay(fresh_broker: BrokerProcess) -> None:
    tell(fresh_broker, "import_definitions", definitions=EXPORTED)
    queue = {**EXPORTED["queues"][0], "durable": False, "arguments": {"x-max-length": 4}}
    exchange = {**EXPORTED["exchanges"][1], "arguments": {}}
    before = tell(fresh_broker, "export_definitions")
    assert imported(fresh_broker, queues=[queue], exchanges=[exchange]) == {}
    assert tell(fresh_broker, "export_definitions") == before


def test_policies_of_a_file_hold_at_once(fresh_broker: BrokerProcess) -> None:
    client = Client.connect(fresh_broker.address)
    client.ask(queue_declare("q"))
    deposit(client, b"1", b"2", key="q")
    imported(fresh_broker, policies=[{"vhost": "/", "name": "p", "pattern": "q", "definition": {"max-length": 1}}])
    assert drain(client, "q") == [b"2"]
    client.close()


def test_more_queues_than_a_virtual_host_may_have_are_refused(fresh_broker: BrokerProcess) -> None:
    """The limits that are set already, as in RabbitMQ; its sentences, on one line."""
    tell(fresh_broker, "set_vhost_limits", name="/", limits={"max-queues": 2})
    assert imported(fresh_broker, queues=[{"name": "one", "vhost": "/"}]) == {"queues": 1}
    with pytest.raises(AdministrationError) as caught:
        imported(fresh_broker, queues=[{"name": name, "vhost": "/"} for name in ("one", "two", "three")])
    assert str(caught.value) == (
        'Adding 2 queue(s) to virtual host "/" would exceed the limit of 2 queue(s). '
        "This virtual host currently has 1 queue(s) defined. Import aborted!"
    )
    assert imported(fresh_broker, queues=[{"name": name, "vhost": "/"} for name in ("one", "two")]) == {"queues": 1}


def test_an_export_reads_as_rabbitmq_writes_it(fresh_broker: BrokerProcess) -> None:
    tell(fresh_broker, "import_definitions", definitions=EXPORTED)
    exported = tell(fresh_broker, "export_definitions")
    operator = {**EXPORTED["parameters"][0]["value"], "definition": {"max-length": 50}}
    parameters = [{**EXPORTED["parameters"][0], "value": operator}, EXPORTED["parameters"][1]]
    ours = canonical(exported)
    for kind, rows in canonical({**EXPORTED, "parameters": parameters}).items():
        if kind == "queues":
            continue
        if kind == "vhosts":
            assert {row["name"]: row["description"] for row in exported["vhosts"]} == {
                "/": "Default virtual host",
                "west": "a b",
            }
            continue
        assert set(rows) <= set(ours[kind]), kind
    (queue,) = exported["queues"]
    assert queue == EXPORTED["queues"][0]


def test_definitions_survive_a_crash(fresh_broker: BrokerProcess) -> None:
    tell(fresh_broker, "import_definitions", definitions=EXPORTED)
    before = canonical(tell(fresh_broker, "export_definitions"))
    fresh_broker.kill_and_restart()
    assert canonical(tell(fresh_broker, "export_definitions")) == before
