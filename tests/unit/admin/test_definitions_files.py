"""Definitions files: RabbitMQ's form in and out, at the start and while the broker runs."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.admin.protocol import AdministrationError
from broker.wire.methods import ConnectionClose
from harness.brokers.broker_process import BrokerProcess
from harness.brokers.copied_commands import run_text
from harness.clients.queue_steps import deposit, drain
from harness.clients.shorthand import exchange_declare, queue_bind, queue_declare
from harness.clients.wire_client import Client
from harness.project import ROOT

pytestmark = pytest.mark.slow

EXPORTED: dict[str, Any] = json.loads(Path(__file__).with_name("rabbitmq_3_10_8_definitions.json").read_text())
"""An export of `rabbitmqctl export_definitions` of RabbitMQ 3.10.8. The password of its user kim is "pw".

It has its odd spots: an operator policy's definition as pairs, a virtual host's tags as text and its limits twice.
"""
ONE_EACH = ("vhosts", "users", "permissions", "topic_permissions", "user_limits", "vhost_limits", "global_parameters")
CREATED = {**dict.fromkeys(ONE_EACH, 1), "policies": 2, "exchanges": 2, "queues": 1, "bindings": 3}
NOTHING = {"exchanges": 0, "queues": 0, "bindings": 0}


def canonical(definitions: dict[str, Any]) -> dict[str, list[str]]:
    """Definitions in a form that does not depend on order, without what names a broker."""
    return {
        kind: sorted(json.dumps(row, sort_keys=True) for row in rows)
        for kind, rows in definitions.items()
        if isinstance(rows, list)
    }


Start = Callable[..., BrokerProcess]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """A function that starts a broker on a new data directory with a definitions file and further environment."""
    started: list[BrokerProcess] = []

    def start(definitions: Any, **environment: str) -> BrokerProcess:
        file = tmp_path / "definitions.json"
        file.write_text(json.dumps(definitions))
        data, merged = tmp_path / f"data {len(started)}", os.environ | environment
        started.append(BrokerProcess(data, "--definitions", str(file), environment=merged))
        started[-1].start()
        return started[-1]

    yield start
    for process in started:
        process.stop()


def names(process: BrokerProcess, kind: str, **arguments: str) -> list[str]:
    return [row["name"] for row in process.tell(f"list_{kind}", **arguments)]


def logs_in(process: BrokerProcess, user: str, password: str, vhost: str = "/") -> None:
    Client.connect(process.address, user=user, password=password, vhost=vhost).close()


def login_refused(process: BrokerProcess, user: str, password: str) -> bool:
    client = Client(process.address)
    client.start(user=user, password=password)
    item = client.receive(channel=0)
    client.close()
    return isinstance(item, ConnectionClose)


# At the start


def test_every_start_makes_it_what_the_file_says(start: Start) -> None:
    """It works as RabbitMQ's load_definitions; users of the file take the default user's place, things it does not
    name stay."""
    process = start(EXPORTED)
    client = Client.connect(process.address, user="kim", password="pw", vhost="west")
    client.publish(b"routed", exchange="ex", key="a.b")
    assert client.refusal(queue_declare("other")).startswith("channel 403 ACCESS_REFUSED")
    client.close()
    assert {row["name"]: row["messages"] for row in process.tell("list_queues", vhost="west")} == {"q1": 1}
    assert names(process, "users") == ["kim"]
    assert login_refused(process, "guest", "guest")
    before = process.tell("export_definitions")
    process.tell("change_password", name="kim", password="new")
    process.tell("set_permissions", vhost="west", user="kim", configure="", write="", read="changed")
    process.restart()
    assert process.tell("export_definitions") == before
    process.tell("add_user", name="ann", password="x", tags=[])
    process.restart()
    assert names(process, "users") == ["kim", "ann"]
    everything, changed, nothing = re.findall("definitions imported: (.*)", process.log())
    assert sorted(everything.split(", ")) == [
        *("1 global parameter", "1 permission", "1 queue", "1 topic permission", "1 user", "1 user limit"),
        *("1 vhost", "1 vhost limit", "2 exchanges", "2 policies", "3 bindings"),
    ]
    assert (changed, nothing) == ("1 user, 1 permission", "nothing is new")


def test_who_is_there_besides_the_users_of_a_file(start: Start) -> None:
    """The default user if it has none; who is named in the environment anyway, on a new data directory only."""
    everything = {"configure": ".*", "write": ".*", "read": ".*"}
    process = start({"vhosts": [{"name": "v"}], "permissions": [{"user": "guest", "vhost": "v", **everything}]})
    logs_in(process, "guest", "guest", "v")
    process = start(EXPORTED, RABBITMQ_DEFAULT_USER="boss", RABBITMQ_DEFAULT_PASS="pass")
    logs_in(process, "boss", "pass")
    logs_in(process, "kim", "pw", "west")
    first = {"LEVERET_DEFAULT_USER": "one", "LEVERET_DEFAULT_PASS": "1", "LEVERET_DEFAULT_VHOST": "v"}
    process = start({}, **first)
    logs_in(process, "one", "1", "v")
    process.environment = {**os.environ, "LEVERET_DEFAULT_USER": "two", "LEVERET_DEFAULT_PASS": "2"}
    process.restart()
    assert (names(process, "users"), names(process, "vhosts")) == (["one"], ["v"])


def test_a_policy_of_a_file_is_applied_to_thousands_of_queues_that_exist(start: Start) -> None:
    """It takes several turns, so turns have to end before the broker is ready."""
    queues = [{"vhost": "/", "name": f"q{number}", "durable": True} for number in range(3000)]
    process = start({"queues": queues})
    policy = {"vhost": "/", "name": "p", "pattern": "^q", "apply-to": "queues", "definition": {"max-length": 5}}
    (process.data_dir.parent / "definitions.json").write_text(json.dumps({"policies": [policy]}))
    process.restart()
    assert {row["policy"] for row in process.tell("list_queues", vhost="/")} == {"p"}


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
    ({"queues": [{"name": "q", "vhost": "/", "arguments": {"n": 2**70}}]}, "queues[0]: "),
    ({"queues": [{"name": "q" * 256, "vhost": "/"}]}, "at `queues[0].name`"),
    ({"bindings": [{"source": "nope", "vhost": "/", "destination": "q"}]},
     "bindings[0]: no exchange 'nope' in vhost '/'"),
    ({"bindings": [{"source": "amq.topic", "vhost": "/", "destination": "q"}]},
     "bindings[0]: no queue 'q' in vhost '/'"),
    ({"exchanges": [{"name": "e", "vhost": "/", "type": "x-consistent-hash", "arguments": {"hash-property": "a"}}]},
     "exchanges[0]: Unsupported property: a"),
    ({"queues": [{"name": "q", "vhost": "/"}], "exchanges": [{"name": "e", "vhost": "/", "type": "x-consistent-hash"}],
      "bindings": [{"source": "e", "vhost": "/", "destination": "q", "routing_key": "k"}]},
     'bindings[0]: The binding key must be an integer: <<"k">>'),
    ({"exchanges": [{"name": "e", "vhost": "/", "type": "x-local-random"}], "bindings": [
        {"source": "e", "vhost": "/", "destination": "amq.fanout", "destination_type": "exchange"}]},
     "bindings[0]: Destination not found"),
    ({"policies": [{"vhost": "/", "name": "p", "pattern": "", "definition": {"max-foo": 4}}]},
     'policies[0]: Validation failed: [{<<"max-foo">>,4}] are not recognised policy settings'),
    ({"parameters": [{"vhost": "/", "component": "operator_policy", "name": "o",
                      "value": {"pattern": "", "definition": [["max-age", "1h"]]}}]},
     'parameters[0]: Validation failed: [{<<"max-age">>,<<"1h">>}] are not recognised policy settings'),
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


@pytest.mark.parametrize(("content", "message"), [case for case in BROKEN if not isinstance(case[0], str)])
def test_a_file_with_one_thing_wrong_is_refused_whole(file_broker: BrokerProcess, content: Any, message: str) -> None:
    before = file_broker.tell("export_definitions")
    good = {"vhosts": [{"name": "good"}], "users": [{"name": "good", "password": "x"}]}
    mixed = {kind: [*good.get(kind, []), *rows] if isinstance(rows, list) else rows for kind, rows in content.items()}
    if "queues[" not in message and "users[" not in message and "vhosts[" not in message:
        mixed = {**good, **mixed}
    expected = message.replace("users[0]", "users[1]").replace("vhosts[0]", "vhosts[1]")
    with pytest.raises(AdministrationError) as caught:
        file_broker.tell("import_definitions", definitions=mixed)
    assert caught.value.kind == "invalid"
    assert expected in str(caught.value)
    assert "hidden" not in str(caught.value)
    assert file_broker.tell("export_definitions") == before


@pytest.mark.parametrize(
    ("content", "message"), [BROKEN[0], BROKEN[3], (None, "cannot be read: No such file or directory")]
)
def test_a_start_with_a_broken_file_touches_nothing(tmp_path: Path, content: Any, message: str) -> None:
    file, directory = tmp_path / "definitions.json", tmp_path / "data"
    if content is not None:
        file.write_text(content if isinstance(content, str) else json.dumps(content))
    options = ["--data-dir", str(directory), "--listen", "127.0.0.1:0", "--definitions", str(file)]
    done = run_text("serve", *options)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"leveret: error: {file}: ")
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not directory.exists()


# In and out


def test_what_was_exported_makes_another_broker_the_same(fresh_broker: BrokerProcess, start: Start) -> None:
    assert fresh_broker.tell("import_definitions", definitions=EXPORTED) == CREATED
    assert fresh_broker.tell("import_definitions", definitions=EXPORTED) == NOTHING
    client = Client.connect(fresh_broker.address)
    client.ask(exchange_declare("transient"))
    client.ask(queue_declare("named by bytes \udcff", arguments={"x-message-ttl": 1000, "x-unknown": [None, 1.5]}))
    client.ask(queue_bind("named by bytes \udcff", "transient", "k", arguments={"n": 5}))
    client.ask(queue_declare("mine", exclusive=True))
    client.ask(queue_bind("mine", "transient", "k"))
    exported = fresh_broker.tell("export_definitions")
    client.close()
    assert "mine" not in json.dumps(exported)
    assert fresh_broker.tell("import_definitions", definitions=exported) == NOTHING
    other = start(exported)
    assert canonical(other.tell("export_definitions")) == canonical(exported)
    client = Client.connect(other.address)
    deposit(client, b"through", exchange="transient", key="k")
    assert drain(client, "named by bytes \udcff") == [b"through"]
    client.close()


def imported(process: BrokerProcess, **definitions: Any) -> dict[str, int]:
    """Import definitions; how many of each kind were made or changed, without those of which none was."""
    counts: dict[str, int] = process.tell("import_definitions", definitions=definitions)
    return {kind: count for kind, count in counts.items() if count}


def test_what_exists_becomes_what_the_file_says(fresh_broker: BrokerProcess) -> None:
    """`rabbitmqctl import_definitions` of RabbitMQ 3.10.8, kind by kind. Only limits of users add up."""
    process = fresh_broker
    process.tell("import_definitions", definitions=EXPORTED)
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
    process.tell("authenticate_user", name="kim", password="two")
    exported = process.tell("export_definitions")
    (west,) = [row for row in exported["vhosts"] if row["name"] == "west"]
    assert west["metadata"] == {"description": "other", "tags": [], "default_queue_type": "quorum"}  # since 3.13
    (kim,) = [row for row in exported["users"] if row["name"] == "kim"]
    assert (kim["tags"], kim["limits"]) == (["a", "b"], {"max-channels": 7, "max-connections": 3})
    assert permission in exported["permissions"]
    assert topic in exported["topic_permissions"]
    assert exported["policies"] == [{**policy, "apply-to": "all", "priority": 0}]
    limits, operator = {row["component"]: row["value"] for row in exported["parameters"]}.values()
    assert (limits, operator["priority"]) == ({"max-connections": 8}, 5)
    assert exported["global_parameters"] == [{"name": "gp", "value": 1}]
    assert names(process, "policies", vhost="west") == ["P"]
    process.kill_and_restart()
    assert canonical(process.tell("export_definitions")) == canonical(exported)


OF_WEST, WITH_KIM = {"vhost": "west"}, {"vhost": "west", "user": "kim"}
DELETIONS: list[tuple[str, dict[str, Any], set[str]]] = [
    ("clear_topic_permissions", {**WITH_KIM, "exchange": "other"}, set()),
    ("clear_topic_permissions", {**WITH_KIM, "exchange": "amq.topic"}, {"topic_permissions"}),
    ("clear_policy", {**OF_WEST, "name": "P"}, {"policies"}),
    ("clear_operator_policy", {**OF_WEST, "name": "OP"}, {"parameters"}),
    ("clear_vhost_limits", {"name": "west", "limits": []}, {"parameters"}),
    ("clear_user_limits", {"name": "kim", "limits": ["max-channels"]}, {"users"}),
    ("delete_queue", {**OF_WEST, "name": "q1"}, {"queues", "bindings", "exchanges"}),
    ("delete_user", {"name": "kim"}, {"users", "permissions"}),
    ("delete_vhost", {"name": "west"}, {"vhosts", "exchanges"}),
]
"""Commands, and in which kinds of an export something is missing after each."""


def test_what_is_deleted_takes_what_belongs_to_it_and_stays_deleted(fresh_broker: BrokerProcess) -> None:
    fresh_broker.tell("import_definitions", definitions=EXPORTED)
    before = canonical(fresh_broker.tell("export_definitions"))
    for command, arguments, kinds in DELETIONS:
        fresh_broker.tell(command, **arguments)
        after = canonical(fresh_broker.tell("export_definitions"))
        assert {kind for kind in before if before[kind] != after[kind]} == kinds, command
        before = after
    fresh_broker.kill_and_restart()
    assert canonical(fresh_broker.tell("export_definitions")) == before


def test_an_export_reads_as_rabbitmq_writes_it_and_what_is_there_stays(fresh_broker: BrokerProcess) -> None:
    fresh_broker.tell("import_definitions", definitions=EXPORTED)
    exported = fresh_broker.tell("export_definitions")
    operator = {**EXPORTED["parameters"][0]["value"], "definition": {"max-length": 50}}
    parameters = [{**EXPORTED["parameters"][0], "value": operator}, EXPORTED["parameters"][1]]
    ours, theirs = canonical(exported), canonical({**EXPORTED, "parameters": parameters})
    for kind in theirs.keys() - {"queues", "vhosts"}:
        assert set(theirs[kind]) <= set(ours[kind]), kind
    descriptions = {row["name"]: row["description"] for row in exported["vhosts"]}
    assert descriptions == {"/": "Default virtual host", "west": "a b"}
    assert exported["queues"] == EXPORTED["queues"]
    queue = {**EXPORTED["queues"][0], "durable": False, "arguments": {"x-max-length": 4}}
    exchange = {**EXPORTED["exchanges"][1], "arguments": {}}
    assert imported(fresh_broker, queues=[queue], exchanges=[exchange]) == {}
    assert fresh_broker.tell("export_definitions") == exported
    imported(fresh_broker, users=[{"name": "kim", "tags": ""}])
    assert login_refused(fresh_broker, "kim", "pw"), "a user without a password has none afterwards"
    before = canonical(fresh_broker.tell("export_definitions"))
    fresh_broker.kill_and_restart()
    assert canonical(fresh_broker.tell("export_definitions")) == before


def test_policies_and_limits_of_a_file_hold_at_once(fresh_broker: BrokerProcess) -> None:
    """Limits that are set already hold for what is imported, as in RabbitMQ; its sentences, on one line."""
    client = Client.connect(fresh_broker.address)
    client.ask(queue_declare("q", exclusive=True))
    deposit(client, b"1", b"2", key="q")
    imported(fresh_broker, policies=[{"vhost": "/", "name": "p", "pattern": "q", "definition": {"max-length": 1}}])
    assert drain(client, "q") == [b"2"]
    client.close()
    fresh_broker.tell("set_vhost_limits", name="/", limits={"max-queues": 2})
    assert imported(fresh_broker, queues=[{"name": "one", "vhost": "/"}]) == {"queues": 1}
    with pytest.raises(AdministrationError) as caught:
        imported(fresh_broker, queues=[{"name": name, "vhost": "/"} for name in ("one", "two", "three")])
    assert str(caught.value) == (
        'Adding 2 queue(s) to virtual host "/" would exceed the limit of 2 queue(s). '
        "This virtual host currently has 1 queue(s) defined. Import aborted!"
    )
    assert imported(fresh_broker, queues=[{"name": name, "vhost": "/"} for name in ("one", "two")]) == {"queues": 1}


ENDING = """
import os

from storage.definitions import definition_store
from storage.definitions.definition_rows import BindingRow, ExchangeRow, Put, QueueRow

commit, entities = definition_store.DefinitionStore.commit, 0


def ending(self, changes):
    global entities
    entities += any(
        isinstance(change, Put) and isinstance(change.row, ExchangeRow | QueueRow | BindingRow) for change in changes
    )
    if entities == {number}:
        os.kill(os.getpid(), 9)
    commit(self, changes)


definition_store.DefinitionStore.commit = ending
"""
"""Loaded by the interpreter before the broker: a kill before KILLED_AT transactions with entities are on disk."""


@pytest.mark.parametrize("number", [1, 3])
def test_an_import_that_is_cut_short_is_finished_by_the_next_start(tmp_path: Path, number: int) -> None:
    (tmp_path / "plant").mkdir()
    (tmp_path / "plant" / "sitecustomize.py").write_text(ENDING.format(number=number))
    paths = os.pathsep.join([str(tmp_path / "plant"), str(ROOT)])
    process = BrokerProcess(tmp_path / "data", environment={**os.environ, "PYTHONPATH": paths})
    process.start()
    with pytest.raises(AdministrationError, match="ended before it answered"):
        process.tell("import_definitions", definitions=EXPORTED)
    process.kill()
    process.environment = None
    process.start()
    assert "an import of definitions was cut short; finishing it" in process.log()
    assert imported(process, **EXPORTED) == {}, "nothing was missing"
    process.restart()
    assert process.log().count("cut short") == 1
    process.stop()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("[" * 100_000, "nested too deeply; the limit is 100 levels"),
        ('{"global_parameters":[{"name":"x","value":NaN}]}', "NaN is not JSON"),
        ('{"global_parameters":[{"name":"x","value":1e999}]}', "a number is beyond the range of a double"),
    ],
)
def test_what_is_no_json_is_one_line_from_the_command_and_at_start(tmp_path: Path, content: str, reason: str) -> None:
    """No part of it becomes null, or a traceback."""
    (file := tmp_path / "given.json").write_text(content)
    (config := tmp_path / "leveret.toml").write_text(f'[definitions]\nfile = "{file}"\n')
    for arguments in (["import", "definitions", str(file)], ["serve", "--config", str(config)]):
        done = run_text(*arguments, "--data-dir", str(tmp_path / "data"))
        assert done.returncode == 1
        assert f"{file}: is not JSON: {reason}" in done.stderr
        assert "Traceback" not in done.stderr
