"""Commands on a stopped broker's data directory, through the command line as people use it."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from broker.admin.commands.command_catalogue import read_command
from broker.admin.protocol import AdministrationError
from broker.config import Config, ServerSettings
from broker.server import directory_lock
from broker.server.offline import offline_commands
from harness.brokers.broker_process import BrokerProcess
from harness.brokers.copied_commands import run_text
from harness.clients.contents import PERSISTENT, with_headers
from harness.clients.queue_steps import deposit, drain
from harness.clients.shorthand import exchange_declare, queue_bind, queue_declare
from harness.clients.wire_client import Client
from harness.project import ROOT
from harness.waiting import eventually
from storage.messages import lmdb_environment
from storage.offline.offline_reader import StoppedStore
from storage.storage_errors import StoreLocked
from tests.unit.conftest import Dial

pytestmark = pytest.mark.slow

LARGE = b"large" * 2000


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data directory of a broker that was killed: `q` holds two messages, one large and shared, and two wait."""
    process = BrokerProcess(tmp_path_factory.mktemp("original") / "data")
    process.start()
    client = Client.connect(process.address)
    for queue in ("q", "other"):
        client.ask(queue_declare(queue, durable=True))
        client.ask(queue_bind(queue, "amq.fanout"))
    client.ask(exchange_declare("later", "x-delayed-message", durable=True, arguments={"x-delayed-type": "topic"}))
    deposit(client, b"small", key="q", properties=PERSISTENT)
    deposit(client, LARGE, exchange="amq.fanout", key="", properties=PERSISTENT)
    deposit(client, b"1", b"2", key="k", exchange="later", properties=with_headers({"x-delay": 600_000}))
    client.close()
    assert waiting(process.tell("list_exchanges", vhost="/")) == {"later": 2}
    process.kill()
    return process.data_dir


def waiting(exchanges: list[dict[str, Any]]) -> dict[str, int]:
    """Delayed messages by exchange. RabbitMQ's plugin names the column `messages_delayed`."""
    return {row["name"]: row["messages_delayed"] for row in exchanges if row["messages_delayed"]}


@pytest.fixture
def stopped(original: Path, tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker that is not running, on a copy of that directory."""
    process = BrokerProcess(tmp_path / "data")
    shutil.copytree(original, process.data_dir, ignore=shutil.ignore_patterns("*.sock"))
    yield process
    if process.running:
        process.kill()


def tell(process: BrokerProcess, command: str, **arguments: object) -> Any:
    """Carry out a command on the data of a broker that does not run."""
    config = Config(server=ServerSettings(data_dir=str(process.data_dir)))
    if command == "check":
        return offline_commands.check_stores(config)
    return offline_commands.run(config, read_command(command, arguments))


def leveret(directory: Path, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "LEVERET_DATA_DIR": str(directory)}
    return run_text(*arguments, environment=environment, given=stdin)


def test_users_made_while_it_is_stopped_may_log_in_afterwards(stopped: BrokerProcess) -> None:
    directory = stopped.data_dir
    done = leveret(directory, "user", "add", "ann", "-", stdin="secret\n")
    assert (done.returncode, done.stdout.startswith("user ann is added; "), done.stderr) == (0, True, "")
    tell(stopped, "add_vhost", name="v", description="", tags=[], default_queue_type="")
    tell(stopped, "set_permissions", vhost="v", user="ann", configure=".*", write="", read="")
    stopped.start()
    client = Client.connect(stopped.address, user="ann", password="secret", vhost="v")
    client.ask(queue_declare("q"))
    client.close()
    listed = leveret(directory, "list", "permissions", "user", "configure", "-p", "v")
    assert listed.stdout.splitlines() == ["user  configure", "ann   .*"]
    for command in ("check", "list_users"):
        with pytest.raises(StoreLocked, match=f"in use by process {stopped.pid} "):
            tell(stopped, command)


def test_a_queue_declared_while_it_is_stopped_is_there_afterwards(stopped: BrokerProcess) -> None:
    """A refusal is one line, as that of a running broker."""
    declare = ("queue", "declare", "by-hand", "--argument", "x-max-length=5")
    assert leveret(stopped.data_dir, *declare).stdout == "queue by-hand is declared\n"
    refusal = "inequivalent arg 'durable' for queue 'by-hand' in vhost '/': received 'false' but current is 'true'"
    assert leveret(stopped.data_dir, *declare, "--transient").stderr == f"leveret: error: {refusal}\n"
    stopped.start()
    client = Client.connect(stopped.address)
    client.ask(queue_declare("by-hand", durable=True, arguments={"x-max-length": 5}))
    client.close()


def test_questions_are_answered_from_the_disk(stopped: BrokerProcess, tmp_path: Path) -> None:
    """They do as a running broker does, its errors too. A directory without a broker is not made into one."""
    assert {row["name"]: row["messages"] for row in tell(stopped, "list_queues", vhost="/")} == {"q": 2, "other": 1}
    assert tell(stopped, "list_connections") == []
    assert waiting(tell(stopped, "list_exchanges", vhost="/")) == {"later": 2}
    seen = tell(stopped, "peek_queue", vhost="/", name="q")
    assert (len(seen["messages"]), seen["next_offset"], seen["messages_ready"]) == (2, None, 2)
    (exchange,) = tell(stopped, "export_definitions")["exchanges"]
    assert exchange["arguments"] == {"x-delayed-type": "topic"}
    with pytest.raises(AdministrationError, match='User "nobody" does not exist') as caught:
        tell(stopped, "delete_user", name="nobody")
    assert caught.value.kind == "not_found"
    done = leveret(tmp_path / "typo", "user", "add", "ann", "pw")
    named = "name another one with --data-dir or LEVERET_DATA_DIR"
    words = f"leveret: error: no broker has run on the data directory {tmp_path}/typo yet: {named}\n"
    assert (done.returncode, done.stderr) == (1, words)
    assert not (tmp_path / "typo").exists()


def test_a_purge_is_on_disk_and_so_is_a_backup_before_it(stopped: BrokerProcess, tmp_path: Path) -> None:
    """A deleted virtual host leaves nothing behind."""
    tell(stopped, "backup", directory=str(tmp_path / "copy"))
    assert tell(stopped, "purge_queue", vhost="/", name="q") == {"messages": 2}
    assert tell(stopped, "check")["problems"] == []
    for found in ([], [b"small", LARGE]):
        stopped.start()
        client = Client.connect(stopped.address)
        assert (drain(client, "q"), drain(client, "other")) == (found, [LARGE])
        client.close()
        stopped.kill()
        shutil.rmtree(stopped.data_dir)
        shutil.copytree(tmp_path / "copy", stopped.data_dir)
    tell(stopped, "delete_vhost", name="/")
    assert tell(stopped, "list_queues", vhost=None) == []
    report = tell(stopped, "check")
    assert (report["queues"], report["messages"], report["problems"]) == (0, 0, [])
    tell(stopped, "add_vhost", name="/", description="", tags=[], default_queue_type="")
    assert tell(stopped, "list_queues", vhost="/") == []


# Policies


def policy(name: str, pattern: str, definition: dict[str, Any], **others: Any) -> dict[str, Any]:
    """Return the arguments that set a policy."""
    said = {"name": name, "pattern": pattern, "definition": definition, "priority": 0, "apply_to": "all"}
    return {"vhost": "/", **said, **others}


def test_what_is_changed_while_the_broker_is_stopped_holds_from_its_start(
    fresh_broker: BrokerProcess, dial: Dial
) -> None:
    """A policy that makes no sense any more is kept and not applied: another version may have taken it."""
    client = dial(fresh_broker)
    client.ask(queue_declare("q", durable=True))
    client.ask(exchange_declare("x", durable=True))
    client.ask(exchange_declare("spare", "fanout", durable=True))
    client.ask(queue_bind("q", "spare"))
    deposit(client, b"1", b"2", b"3", key="q", properties=PERSISTENT)
    fresh_broker.tell("set_policy", **policy("bad", "^q", {"max-length": 2}, priority=9))
    fresh_broker.stop()
    with closing(sqlite3.connect(fresh_broker.data_dir / "definitions.sqlite")) as definitions, definitions:
        definitions.execute("UPDATE policies SET definition = ? WHERE name = 'bad'", ('{"max-length": "two"}',))
    tell(fresh_broker, "set_policy", **policy("p", "^q$", {"max-length": 1}))
    tell(fresh_broker, "set_policy", **policy("ax", "^x$", {"alternate-exchange": "spare"}, apply_to="exchanges"))
    fresh_broker.start()
    client = dial(fresh_broker)
    assert drain(client, "q") == [b"3"]
    deposit(client, b"by the other way", exchange="x", key="nowhere", properties=PERSISTENT)
    assert drain(client, "q") == [b"by the other way"]
    assert {row["name"] for row in fresh_broker.tell("list_policies", vhost="/")} == {"p", "ax"}
    assert {row["name"] for row in fresh_broker.tell("export_definitions")["policies"]} == {"bad", "p", "ax"}
    why = 'Validation failed: <<"two">> is not a valid maximum length'
    assert f"policy 'bad' of vhost '/' is not applied: {why}" in fresh_broker.log()
    fresh_broker.stop()
    for name in ("bad", "p"):
        tell(fresh_broker, "clear_policy", vhost="/", name=name)
    fresh_broker.start()
    client = dial(fresh_broker)
    deposit(client, b"1", b"2", b"3", key="q", properties=PERSISTENT)
    assert drain(client, "q") == [b"1", b"2", b"3"]


# leveret check


def test_check_says_what_a_crash_left_and_changes_nothing(stopped: BrokerProcess) -> None:
    tell(stopped, "list_users")  # what is in the write-ahead log goes to the file
    before = contents(stopped.data_dir)
    done = leveret(stopped.data_dir, "check", "--json")
    report = json.loads(done.stdout)
    assert (done.returncode, report["queues"], report["messages"], report["problems"]) == (0, 2, 5, [])
    assert report["large_bodies"] == 1
    assert contents(stopped.data_dir) == before


def contents(directory: Path) -> dict[str, bytes]:
    """The files that hold data."""
    return {name: (directory / name).read_bytes() for name in ("definitions.sqlite", "messages/data.mdb")}


def test_check_finds_what_does_not_fit(stopped: BrokerProcess) -> None:
    definitions = stopped.data_dir / "definitions.sqlite"
    for change, problem in (
        ("DELETE FROM queues WHERE name = 'other'", "a binding in vhost '/' leads to 'other', which is not there"),
        ("DELETE FROM bindings", "the message store holds queues that no definition names"),
        (
            "UPDATE metadata SET value = randomblob(16) WHERE key = 'store_uuid'",
            "the two stores belong to different brokers",
        ),
    ):
        with closing(sqlite3.connect(definitions)) as connection, connection:
            connection.execute(change)
        done = leveret(stopped.data_dir, "check")
        assert done.returncode == 1
        assert problem in done.stdout

    definitions.with_name("definitions.sqlite-wal").unlink(missing_ok=True)
    definitions.write_bytes(b"something else entirely" * 100)
    done = leveret(stopped.data_dir, "check")
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"leveret: error: {definitions}: cannot be read as definitions")


# A start and a command in one moment


def test_a_start_waits_for_a_command(stopped: BrokerProcess) -> None:
    """It waits for `leveret inspect` and `archive`, too, which share the lock of the message store."""
    with directory_lock.for_command(stopped.data_dir):
        stopped.launch()
        eventually(lambda: "waiting for a command" in stopped.log(), "the start to wait")
    stopped.await_ready()
    stopped.kill()
    with StoppedStore(stopped.data_dir / "messages"):
        stopped.launch()
        eventually(lambda: locked(stopped.data_dir / "broker.lock"), "the start to come to the messages")
    stopped.await_ready()


def locked(path: Path) -> bool:
    with path.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def test_a_command_waits_for_a_start(stopped: BrokerProcess) -> None:
    starting = lmdb_environment.lock(stopped.data_dir / "broker")
    with subprocess.Popen(
        [sys.executable, "-m", "broker", "list", "queues", "--data-dir", str(stopped.data_dir)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    ) as command:
        eventually(
            lambda: (stopped.data_dir / f"{directory_lock.COMMANDS}.lock").exists(), "the command to ask for the lock"
        )
        os.close(starting)
        stopped.start()
        assert "other" in command.communicate(timeout=60)[0]
    assert command.returncode == 0
