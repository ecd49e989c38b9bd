"""`leveret migrate`: what comes over, what does not, and what a kill may do. The other side is a Leveret with an API.

By hand against a RabbitMQ 3.10.8, both ways: bench/RESULTS.md.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from broker.client.uris import parse
from broker.migration.definitions_transfer import NotMigrated, import_definitions
from broker.migration.migrating_brokers import Definitions, DefinitionsRejected, RemoteBroker
from broker.wire.field_tables import Field, to_python
from broker.wire.methods import BasicDeliver
from broker.wire.properties import BasicProperties
from harness.brokers.broker_process import BrokerProcess
from harness.brokers.copied_commands import run_text
from harness.brokers.http_broker import basic, web_address, web_broker
from harness.clients.amqp_peer import Message
from harness.clients.shorthand import ack, consume, exchange_declare, prefetch, queue_bind, queue_declare
from harness.clients.wire_client import Client
from harness.project import ROOT
from harness.waiting import eventually
from tests.pipeline.inputs.command import Ended, leveret

pytestmark = pytest.mark.slow

KILLS, MESSAGES, WINDOW = 5, 5000, 100
PERSISTENT = BasicProperties(delivery_mode=2)
EVERY_PROPERTY = BasicProperties(
    "text/plain",
    "gzip",
    {
        "z": Field("s", -5),
        "a": Field("A", [Field("F", {"x": Field("x", b"\0")}), Field("f", 0.5)]),
        "d": Field("t", True),
    },
    1,
    200,
    "correlation",
    "reply",
    "86400000",
    "id",
    1_700_000_000,
    "type",
    "guest",
    "app",
    "cluster",
)


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[BrokerProcess]]:
    """The brokers of all tests here, which may order that they be empty."""
    started = [web_broker(tmp_path_factory.mktemp(side), "[testing]\nenabled = true\n") for side in ("here", "other")]
    for process in started:
        process.start()
    yield started
    for process in started:
        process.stop()


@pytest.fixture
def here(processes: list[BrokerProcess]) -> BrokerProcess:
    """This side, empty."""
    processes[0].tell("testing", order="reset")
    return processes[0]


@pytest.fixture
def other(processes: list[BrokerProcess]) -> BrokerProcess:
    """The other side, empty."""
    processes[1].tell("testing", order="reset")
    return processes[1]


def line(here: BrokerProcess, other: BrokerProcess, way: str, *more: str) -> list[str]:
    host, port = web_address(other)
    uri = f"amqp://guest:guest@127.0.0.1:{other.address[1]}"
    return ["migrate", "--data-dir", str(here.data_dir), way, uri, "--management", f"http://{host}:{port}", *more]


def migrated(here: BrokerProcess, other: BrokerProcess, way: str, *more: str) -> dict[str, Any]:
    ended = leveret(*line(here, other, way, "--json", *more))
    assert ended.code == 0, ended
    report: dict[str, Any] = json.loads(ended.output)
    return report


@contextmanager
def client_of(broker: BrokerProcess) -> Iterator[Client]:
    """A client; what it has sent is handled at the end."""
    client = Client.connect(broker.address)
    try:
        yield client
        client.leave_channels()
    finally:
        client.close()


def taken(broker: BrokerProcess, queue: str) -> list[Message]:
    """All messages of a queue, off it."""
    with client_of(broker) as client:
        count = client.ask(queue_declare(queue, passive=True)).message_count
        client.ask(consume(queue))
        messages = [client.expect_message(BasicDeliver) for _ in range(count)]
        if count:
            client.send(ack(count, multiple=True))
    return messages


def fill(broker: BrokerProcess, count: int) -> None:
    """A durable queue `q` with persistent messages, which are their numbers."""
    with client_of(broker) as client:
        client.ask(queue_declare("q", durable=True))
        for number in range(count):
            client.publish(b"%d" % number, key="q", properties=PERSISTENT)
    eventually(lambda: _count(broker) == count, "the messages")


@pytest.mark.parametrize("way", ["--from", "--to"])
@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_messages_come_over_as_they_are(here: BrokerProcess, other: BrokerProcess, way: str, kind: str) -> None:
    """Bodies, properties and headers to the byte; the routing key, too; CC leads to no copies at the target."""
    source, target = (other, here) if way == "--from" else (here, other)
    with client_of(source) as client:
        client.ask(exchange_declare("logs", "topic", durable=True))
        for queue in ("q", "copies"):
            client.ask(queue_declare(queue, durable=True, arguments={"x-queue-type": kind}))
        client.ask(queue_bind("q", "logs", "#"))
        client.publish(b"first", key="q", properties=EVERY_PROPERTY)
        client.publish(b"", exchange="logs", key="a.b")
        client.publish(b"x" * 300_000, key="q")
        client.publish(
            b"copied", key="q", properties=BasicProperties(headers={"CC": Field("A", [Field("S", b"copies")])})
        )
    report = migrated(here, other, way)
    assert (report["queues"], report["messages"], report["left"]) == (2, 5, [])
    messages = taken(target, "q")
    assert [message.body for message in messages] == [b"first", b"", b"x" * 300_000, b"copied"]
    assert [message.method.routing_key for message in messages] == ["q", "a.b", "q", "q"]
    assert messages[0].properties == EVERY_PROPERTY
    assert [message.body for message in taken(target, "copies")] == [b"copied"]
    assert taken(source, "q") == taken(source, "copies") == []
    exchanges = {row["name"] for row in target.tell("list_exchanges")}
    assert "logs" in exchanges
    assert not any(name.startswith("leveret.migrate") for name in exchanges)


def test_a_password_that_is_in_no_process_list(here: BrokerProcess, other: BrokerProcess) -> None:
    """A URI with a user alone; without a user guest's is meant."""
    words = [word.replace("guest:guest@", "guest@") for word in line(here, other, "--from", "--definitions-only")]
    environment = {**os.environ, "LEVERET_PASSWORD": "wrong"}
    ended = run_text(*words, environment=environment)
    assert (ended.returncode, "answers 401" in ended.stderr) == (1, True), ended
    environment["LEVERET_PASSWORD"] = "guest"
    assert run_text(*words, environment=environment).returncode == 0


@pytest.mark.parametrize("way", ["--from", "--to"])
def test_kills_lose_nothing(here: BrokerProcess, other: BrokerProcess, way: str, tmp_path: Path) -> None:
    """Killed at any moment and run again; what was on its way comes twice, at most a window for each kill."""
    source, target = (other, here) if way == "--from" else (here, other)
    fill(source, MESSAGES)
    chance = Random(way)
    command = [sys.executable, "-m", "broker", *line(here, other, way, "--window", str(WINDOW))]
    for kill in range(KILLS):
        wanted = chance.randrange(MESSAGES * kill // KILLS, MESSAGES * (kill + 1) // KILLS)
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        eventually(lambda wanted=wanted: _count(target) >= wanted or process.poll() is not None, "messages to move")  # type: ignore[misc]  # noqa: B023
        process.kill()
        process.wait()
    migrated(here, other, way)
    bodies = [int(message.body) for message in taken(target, "q")]
    assert list(dict.fromkeys(bodies)) == list(range(MESSAGES))
    assert len(bodies) <= MESSAGES + KILLS * WINDOW
    assert taken(source, "q") == []
    assert not any(row["name"] == "leveret.migrate" for row in target.tell("list_exchanges"))


def _count(broker: BrokerProcess) -> int:
    rows = broker.tell("list_queues", columns=["messages"])
    return sum(int(row["messages"]) for row in rows)


def test_definitions_come_over(here: BrokerProcess, other: BrokerProcess) -> None:
    """All but what has no meaning here, which is named; a second run changes nothing."""
    other.tell("add_vhost", name="v/2", description="", tags=[], default_queue_type="")
    other.tell("add_user", name="ü", password="x", tags=["monitoring"])
    other.tell("set_permissions", user="ü", vhost="v/2", configure=".*", write=".*", read=".*")
    policy = {"vhost": "v/2", "pattern": ".*", "priority": 0, "apply_to": "queues"}
    other.tell("set_policy", name="mirrored", definition={"ha-mode": "all", "max-length": 5}, **policy)
    upstream = {"vhost": "/", "component": "federation-upstream", "name": "u", "value": {"uri": "amqp://"}}
    other.tell("import_definitions", definitions={"parameters": [upstream]})
    for _ in range(2):
        report = migrated(here, other, "--from")
        assert {(left["kind"], left["name"], left["reason"]) for left in report["left"]} == {
            ("parameters", "u federation-upstream", "there is no federation-upstream here"),
            ("policies", "mirrored", "has no effect here: ha-mode"),
        }
    exported = here.tell("export_definitions")
    assert exported["permissions"] == other.tell("export_definitions")["permissions"]
    assert {user["name"] for user in exported["users"]} == {"guest", "ü"}
    assert migrated(here, other, "--to", "--vhost", "v/2")["definitions"]["vhosts"] == 1


def test_what_stays_is_named(here: BrokerProcess, other: BrokerProcess) -> None:
    client = Client.connect(other.address)
    client.ask(queue_declare("held", durable=True))
    client.ask(queue_declare("own", exclusive=True))
    for queue in ("held", "own"):
        client.publish(b"x", key=queue)
    client.ask(consume("held"))
    client.expect_message(BasicDeliver)
    report = migrated(here, other, "--from")
    assert report["messages"] == 0
    assert {left["name"]: left["reason"].partition(":")[0] for left in report["left"]} == {
        "held": "1 messages",
        "own": "1 messages",
    }
    client.close()


@pytest.mark.parametrize("way", ["--from", "--to"])
def test_streams_are_copied(here: BrokerProcess, other: BrokerProcess, way: str) -> None:
    """Once, into an empty stream; one that has other messages there is left as it is, and named."""
    source, target = (other, here) if way == "--from" else (here, other)
    arguments = {"x-queue-type": "stream"}
    with client_of(source) as client:
        client.ask(queue_declare("s", durable=True, arguments=arguments))
        for number in range(300):
            client.publish(b"%d" % number, key="s", properties=BasicProperties(headers={"n": Field("I", number)}))
    eventually(lambda: _count(source) == 300, "the messages")
    assert migrated(here, other, way, "--window", "50")["messages"] == 300
    assert streamed(source) == streamed(target) == [(b"%d" % number, number) for number in range(300)]
    again = migrated(here, other, way)
    assert (again["messages"], again["left"]) == (0, [])
    with client_of(source) as client:
        client.publish(b"300", key="s")
    eventually(lambda: _count(source) == 301, "one more")
    (left,) = migrated(here, other, way)["left"]
    assert left["reason"] == "301 messages: the stream there has 300 already; delete it there to have it copied"


def streamed(broker: BrokerProcess) -> list[tuple[bytes, object]]:
    """Bodies and headers of the stream's messages, without what a delivery adds."""
    with client_of(broker) as client:
        count = client.ask(queue_declare("s", passive=True)).message_count
        client.ask(prefetch(500))
        client.ask(consume("s", arguments={"x-stream-offset": "first"}))
        messages = [client.expect_message(BasicDeliver) for _ in range(count)]
    headers = [to_python(message.properties.headers or {}) for message in messages]
    return [(message.body, each["n"]) for message, each in zip(messages, headers, strict=True)]


def refused(here: BrokerProcess, other: BrokerProcess, *more: str) -> Ended:
    ended = leveret(*line(here, other, *more))
    assert ended.code == 1, ended
    return ended


def test_a_full_queue_ends_the_migration_and_loses_nothing(here: BrokerProcess, other: BrokerProcess) -> None:
    fill(other, 10)
    arguments = {"x-max-length": 4, "x-overflow": "reject-publish"}
    with client_of(here) as client:
        client.ask(queue_declare("q", durable=True, arguments=arguments))
    assert (
        "queue 'q' of virtual host '/': the queue does not take the message: it is full"
        in refused(here, other, "--from").errors
    )
    bodies = [int(message.body) for broker in (here, other) for message in taken(broker, "q")]
    assert sorted(set(bodies)) == list(range(10))


class Picky:
    """A side that takes some definitions."""

    name, enter = "picky", None

    def __init__(self, *refused: str) -> None:
        self.refused = refused
        self.taken: list[str] = []

    def import_definitions(self, definitions: Definitions) -> None:
        names = [entry["name"] for entries in definitions.values() for entry in entries]
        wrong = [name for name in names if name in self.refused]
        if wrong:
            raise DefinitionsRejected(f"not {wrong[0]}")
        self.taken += names

    def endpoint(self, vhost: str) -> Any:
        raise AssertionError

    definitions = queues = endpoint


@pytest.mark.parametrize("refused", [(), ("q3",), ("q0", "q7", "x1"), tuple(f"q{number}" for number in range(8))])
def test_what_is_not_taken_keeps_nothing_else_back(refused: tuple[str, ...]) -> None:
    definitions = {kind: [{"name": f"{kind[0]}{number}", "vhost": "v"} for number in range(8)] for kind in ("queues",)}
    definitions["exchanges"] = [{"name": f"x{number}", "vhost": "v"} for number in range(3)]
    target = Picky(*refused)
    left = list(import_definitions(definitions, target))
    kinds = {"q": "queues", "x": "exchanges"}
    assert left == [NotMigrated(kinds[name[0]], "v", name, f"not {name}") for name in refused]
    assert sorted(target.taken) == sorted({*(f"q{n}" for n in range(8)), "x0", "x1", "x2"} - {*refused})


@pytest.mark.parametrize(
    ("uri", "url", "login"),
    [
        ("amqp://h", "http://h", "guest:guest"),
        ("amqp://u:p%2541@h", "http://h", "u:p%41"),
        ("amqp://u:p@h", "http://v:q%2541@h", "v:q%41"),
    ],
)
def test_the_api_is_asked_as_one_of_two_users(uri: str, url: str, login: str) -> None:
    assert RemoteBroker(parse(uri), url).headers["Authorization"] == basic(login)["Authorization"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--management", "http://h"], "expected --from or --to"),
        (["--from", "amqp://a", "--to", "amqp://b", "--management", "http://h"], "expected --from or --to"),
        (["--from", "http://a", "--management", "http://h"], "expected a URI such as amqp://"),
        (["--from", "amqp://a/v", "--management", "http://h"], "--vhost chooses some"),
    ],
)
def test_wrong_use_is_said(options: list[str], message: str) -> None:
    ended = leveret("migrate", *options)
    assert ended.code == 2
    assert message in ended.errors


def test_another_side_that_cannot_be_asked_is_named(here: BrokerProcess, other: BrokerProcess) -> None:
    where = web_address(other)
    wrong = ["migrate", "--data-dir", str(here.data_dir), "--from", "amqp://guest:wrong@127.0.0.1"]
    for options, message in (
        ([*wrong, "--management", f"http://{where[0]}:{where[1]}"], "answers 401 Unauthorized"),
        ([*wrong, "--management", "http://127.0.0.1:1"], "cannot be asked: [Errno 111]"),
    ):
        ended = leveret(*options)
        assert (ended.code, message in ended.errors) == (1, True), ended
