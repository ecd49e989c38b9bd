"""Passwords within values, in URIs of shovels and upstreams: what shows them, and what does not.

RabbitMQ 3.10.8 gives back values as they were set to `rabbitmqctl list_parameters`, to the API's parameters and in
definitions, and programs read them there; that is the same here. Everything else is searched for them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from broker.admin.protocol import AdministrationError
from broker.client.uris import ClientTls, parse
from broker.credentials import without_credentials
from harness.brokers.broker_process import BrokerProcess
from harness.brokers.copied_commands import run_text
from harness.brokers.http_broker import ask, web_address
from harness.waiting import eventually
from tests.unit.admin.test_secrets import SECRET, shows

CODED = quote(f"{SECRET}/@:")
ESCAPED = "".join(f"%{byte:02x}" for byte in SECRET.encode())
NOWHERE = "127.0.0.1:1"
URIS = [
    f"amqp://app:{SECRET}@{NOWHERE}",
    f"amqp://app:{CODED}@{NOWHERE}/%2F",
    f"amqp://app:{ESCAPED}@{NOWHERE}",
    f"amqp://:{SECRET}@{NOWHERE}",
    f"amqps://{NOWHERE}?verify=verify_none&password={SECRET}",
]
MALFORMED = [
    f"amqp://app:{SECRET}@127.0.0.1:99999",
    f"amqp://app:{SECRET}@{NOWHERE}/a/b",
    f"amqp://app:{SECRET}%zz@{NOWHERE}",
    f"amqp://app:12/{SECRET}@{NOWHERE}/a",
    f"amqps://{NOWHERE}?password={SECRET}&heartbeat=x",
    f"ampq://app:{SECRET}@{NOWHERE}",
    f'app:"{SECRET}"@://app:"{SECRET}"@',
    f"app:{SECRET}@{NOWHERE}",
]
LOGGED = """
logs = {{level = "debug"}}
management = {{listen = ["127.0.0.1:0"]}}
prometheus = {{listen = ["127.0.0.1:0"]}}
event_exchange = {{enabled = true}}
definitions = {{file = "{definitions}"}}
defaults = {{password = "{secret}"}}

[shovels.fixed]
src-uri = ["amqp://app:{secret}@{nowhere}", "amqp://app:{escaped}@{nowhere}"]
src-queue = "from"
dest-uri = "amqp://"
"""


def disguised(text: str) -> list[str]:
    """In which disguises a text shows the secret, of which one is that of URIs."""
    return [*shows(text), *[each for each in (ESCAPED, CODED) if each in text]]


def shovel(uri: object) -> dict[str, Any]:
    return {"src-uri": uri, "src-queue": "from", "dest-uri": "amqp://", "dest-queue": "to"}


class Printed:
    """A broker, and all that it and its commands say."""

    def __init__(self, process: BrokerProcess) -> None:
        self.process = process
        self.said: list[str] = []

    def run(self, *words: str, given: str = "", code: int = 0) -> str:
        """A command; what it prints."""
        environment = {**os.environ, "LEVERET_DATA_DIR": str(self.process.data_dir)}
        done = run_text(*words, environment=environment, given=given)
        assert done.returncode == code, done
        return done.stdout + done.stderr

    def hear(self, *words: str, given: str = "", code: int = 0) -> None:
        """Remember what a command prints."""
        self.said.append(self.run(*words, given=given, code=code))

    def ask(self, path: str, method: str = "GET", body: object = None) -> str:
        """The API's answer."""
        sent = None if body is None else json.dumps(body).encode()
        user = f"guest:{SECRET}"
        kind: Any = {"Content-Type": "application/json"}
        return ask(web_address(self.process), f"/api/{path}", method=method, user=user, body=sent, **kind).body.decode()

    def tell(self, command: str, **arguments: object) -> None:
        """Remember what is answered, or why not."""
        try:
            self.said.append(json.dumps(self.process.tell(command, **arguments)))
        except AdministrationError as error:
            self.said.append(str(error))


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Printed]:
    """A broker that has its definitions by a URL with a password, and a password in every place for one."""
    directory = tmp_path_factory.mktemp("values")
    other = BrokerProcess(directory / "other", environment={**os.environ, "LEVERET_DEFAULT_PASS": SECRET})
    other.http = ("--management-listen", "127.0.0.1:0", "--prometheus-listen", "off")
    other.start()
    host, port = web_address(other)
    settings = directory / "leveret.toml"
    definitions = f"http://guest:{SECRET}@{host}:{port}/api/definitions"
    settings.write_text(LOGGED.format(definitions=definitions, secret=SECRET, nowhere=NOWHERE, escaped=ESCAPED))
    process = BrokerProcess(directory / "data", "--config", str(settings))
    process.http = ()
    process.start()
    assert other.stop() == 0
    yield Printed(process)
    if process.running:
        assert process.stop() == 0


def fill(broker: Printed) -> None:
    """Set values with passwords, right ones and wrong ones, in every way that there is."""
    broker.process.tell("add_user", name="new", password=SECRET, tags=[])
    broker.ask("queues/%2F/heard", "PUT", {"durable": True})
    broker.ask("bindings/%2F/e/amq.rabbitmq.event/q/heard", "POST", {"routing_key": "#"})
    upstream = {"uri": URIS, "expires": 5, "nested": {"again": [{"uri": URIS[0], "password": SECRET}]}}
    rows = [
        {"vhost": "/", "component": "federation-upstream", "name": "up", "value": upstream},
        {"vhost": "/", "component": "shovel", "name": "imported", "value": shovel(URIS[1])},
    ]
    broker.said.append(json.dumps(broker.process.tell("import_definitions", definitions={"parameters": rows})))
    for number, uri in enumerate([*URIS, URIS]):
        given = json.dumps(shovel(uri))
        broker.hear("parameter", "set", "shovel", f"s{number}", "-", given=given)
        broker.said.append(broker.ask(f"parameters/shovel/%2F/h{number}", "PUT", {"value": shovel(uri)}))
    for uri in [*MALFORMED, {"uri": URIS[0]}, [URIS[0], 5, URIS[2]]]:
        value = shovel(uri)
        broker.tell("set_parameter", vhost="/", component="shovel", name="wrong", value=value)
        broker.tell("set_parameter", vhost="/", component="shovel", name="wrong", value={**value, "src-url": uri})
        broker.said.append(broker.ask("parameters/shovel/%2F/wrong", "PUT", {"value": value}))
        rows = [{"vhost": "/", "component": "shovel", "name": "wrong", "value": value}]
        broker.said.append(broker.ask("definitions", "POST", {"parameters": rows}))
        if uri not in MALFORMED[1:]:  # the command prints what the broker answers: one of each form
            broker.hear("parameter", "set", "shovel", "wrong", "-", given=json.dumps(value), code=1)
    broker.hear("global-parameter", "set", "g", "-", given=json.dumps(upstream))
    broker.hear("global-parameter", "set", "g2", "-", given=f"{{uri: {URIS[0]}}}", code=2)


COMMANDS = [
    ["report"],
    ["parameter", "list"],
    ["parameter", "list", "--json"],
    ["list", "parameters", "value"],
    ["global-parameter", "list"],
    ["list", "global-parameters", "--json"],
    ["list", "shovels", "--json"],
    ["list", "users", "--json"],
    ["list", "connections", "--json"],
    ["environment"],
    ["environment", "--json"],
    ["status"],
    ["memory"],
    ["config", "show"],
    ["rabbitmqctl", "report"],
    ["rabbitmqctl", "environment"],
    ["rabbitmqctl", "status"],
    ["rabbitmqctl", "list_users"],
    ["rabbitmqctl", "shovel_status"],
    ["rabbitmq-diagnostics", "report"],
    ["rabbitmq-diagnostics", "environment"],
    ["rabbitmq-diagnostics", "status"],
    ["rabbitmq-diagnostics", "command_line_arguments"],
]
PATHS = [
    "shovels",
    "shovels/%2F",
    "config/effective",
    "overview",
    "nodes",
    "connections",
    "channels",
    "queues",
    "whoami",
]


def in_processes(process: BrokerProcess) -> str:
    """Return the broker's line in a process list."""
    return Path(f"/proc/{process.pid}/cmdline").read_text()


@pytest.mark.slow
def test_no_password_in_a_value_is_shown(printed: Printed) -> None:
    fill(printed)
    eventually(lambda: printed.process.log().count("could not connect") >= len(URIS), "the shovels to fail")
    known = printed.run("rabbitmqctl", "help")
    for words in COMMANDS:
        if words[0].startswith("rabbitmq") and words[1] not in known:
            continue
        printed.hear(*words)
    printed.said += [printed.ask(path) for path in PATHS]
    printed.said.append(ask(web_address(printed.process, "metrics"), "/metrics/per-object", user=None).body.decode())
    heard = printed.ask(
        "queues/%2F/heard/get", "POST", {"count": 999, "ackmode": "ack_requeue_true", "encoding": "auto"}
    )
    assert heard.count("parameter.set") > len(URIS), "events were heard"
    printed.said += [heard, in_processes(printed.process), printed.process.log()]
    assert disguised("\n".join(printed.said)) == []
    listed = printed.run("parameter", "list")
    assert f"amqp://app:(hidden)@{NOWHERE}" in listed, "it is to be seen where the shovel goes, and as whom"


@pytest.mark.slow
def test_what_rabbitmq_gives_back_as_it_was_set(printed: Printed) -> None:
    """For scripts that carry a broker's parameters to another one."""
    value = shovel(URIS[0])
    printed.process.tell("set_parameter", vhost="/", component="shovel", name="carried", value=value)
    row = {"vhost": "/", "component": "shovel", "name": "carried", "value": value}
    assert json.loads(printed.ask("parameters/shovel/%2F/carried")) == row
    assert row in json.loads(printed.ask("parameters/shovel"))
    assert value in [each["value"] for each in json.loads(printed.ask("definitions"))["parameters"]]
    assert json.loads(printed.ask("shovels/vhost/%2F/carried")) == row
    assert URIS[0] in printed.run("rabbitmqctl", "list_parameters")
    assert URIS[0] in printed.run("export", "definitions", "-")


@pytest.mark.slow
def test_who_may_not_read_parameters_sees_no_password(printed: Printed) -> None:
    """RabbitMQ 3.13 shows them to a user with the tag `monitoring`, whom it refuses the parameters."""
    printed.process.tell("set_parameter", vhost="/", component="shovel", name="watched", value=shovel(URIS))
    printed.process.tell("add_user", name="watcher", password="w", tags=["monitoring"])
    printed.process.tell("set_permissions", user="watcher", vhost="/", configure="", write="", read="")
    address = web_address(printed.process)
    paths = ["shovels/vhost/%2F/watched", "shovels/vhost/%2F/watched/restart", "shovels", "overview", "nodes"]
    replies = [ask(address, f"/api/{path}", user="watcher:w") for path in paths]
    assert [reply.status for reply in replies] == [200] * len(paths)
    assert disguised("".join(reply.body.decode() for reply in replies)) == []
    assert ask(address, "/api/parameters/shovel", user="watcher:w").status == 401


@pytest.mark.slow
def test_a_stopped_broker_s_values(printed: Printed) -> None:
    printed.process.tell("set_parameter", vhost="/", component="shovel", name="left", value=shovel(URIS))
    assert printed.process.stop() == 0
    found = "\n".join([printed.run("parameter", "list"), printed.run("check"), printed.run("check", "--json")])
    assert "left" in found
    assert disguised(found) == []


# Before there is a broker


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [f"[shovels.x]\nsrc-uri = '{uri}'\nsrc-queue = 'a'\ndest-uri = 'amqp://'\n" for uri in MALFORMED]
    + [
        f'[shovels.x]\nsrc-url = "{URIS[0]}"\nsrc-queue = "a"\nsrc-uri = "amqp://"\ndest-uri = "amqp://"\n',
        f'[shovels]\nx = "{URIS[0]}"\n',
        f'[definitions]\nfile = ["{URIS[0]}"]\n',
        f'[definitions]\nfile = "http://app:{SECRET}/x@{NOWHERE}"\n',
        f'[[defaults]]\npassword = "{SECRET}"\n',
    ],
)
def test_settings_that_do_not_fit(tmp_path: Path, settings: str) -> None:
    config = tmp_path / "leveret.toml"
    config.write_text(settings)
    for words in (
        ["serve", "--config", str(config), "--data-dir", str(tmp_path / "data")],
        ["config", "check", str(config)],
    ):
        ended = run_text(*words)
        if words[0] == "serve":
            assert ended.returncode == 1
        assert disguised(ended.stdout + ended.stderr) == []


@pytest.mark.slow
@pytest.mark.parametrize("uri", [*MALFORMED[:5], f"amqp://app:{SECRET}@[", f"amqp://app:{SECRET}/x@h", URIS[0]])
@pytest.mark.parametrize(
    "words",
    [
        ["get", "q", "--uri", "{}"],
        ["migrate", "--from", "{}", "--management", f"http://{NOWHERE}"],
        ["migrate", "--from", f"amqp://{NOWHERE}", "--management", "{}"],
    ],
)
def test_uris_on_a_command_line(tmp_path: Path, words: list[str], uri: str) -> None:
    """One line says what is wrong, and does not repeat it."""
    given = uri.replace("amqp", "http") if words[-1] == "{}" and words[0] == "migrate" else uri
    ended = run_text(*(word.format(given) for word in words), "--data-dir", str(tmp_path))
    assert ended.returncode in (1, 2)
    assert "Traceback" not in ended.stderr
    assert disguised(ended.stdout + ended.stderr) == []


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("amqp://app:p@h/v", "amqp://app:(hidden)@h/v"),
        ("amqp://app:p/a@s:s@h/v", "amqp://app:(hidden)@h/v"),
        ("amqp://:p@h", "amqp://:(hidden)@h"),
        ("amqp://app@h:5/v", "amqp://app@h:5/v"),
        ("amqp://h:5/v", "amqp://h:5/v"),
        ("amqps://h?a=b&password=p&c=d", "amqps://h?a=b&password=(hidden)&c=d"),
        ('amqp://app:"p q"@h', "amqp://app:(hidden)@h"),
        ("amqp:/app:p@h", "amqp:(hidden)@h"),
        ("two: amqp:app:p@h and app:p@h", "two: amqp:(hidden)@h and app:(hidden)@h"),
        ("to: a@b", "to: a@b"),
        ([["amqp://:p@"], 5, None, True], [["amqp://:(hidden)@"], 5, None, True]),
        (
            {"Password": "p", "n": {"api_token": ["p"], "token": 5}},
            {"Password": "(hidden)", "n": {"api_token": "(hidden)", "token": 5}},
        ),
        (
            {"password_hash": "p", "key_password_file": "f", "secret": ""},
            {"password_hash": "(hidden)", "key_password_file": "f", "secret": ""},
        ),
    ],
)
def test_what_is_hidden_of_a_value(value: object, shown: object) -> None:
    assert without_credentials(value) == shown


def test_an_endpoint_does_not_print_its_password() -> None:
    assert disguised(repr([*map(parse, URIS), ClientTls(key_password=SECRET)])) == []
