"""Commands on a stopped broker's data directory, through the command line as people use it."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker.admin.protocol import AdministrationError
from broker.config import Config, Server
from broker.server import offline
from broker.wire.properties import BasicProperties
from harness.brokers.broker_process import BrokerProcess
from harness.clients.queue_steps import deposit, drain
from harness.clients.shorthand import queue_bind, queue_declare
from harness.clients.wire_client import Client
from harness.project import ROOT
from storage.storage_errors import StoreLocked

pytestmark = pytest.mark.slow

PERSISTENT = BasicProperties(delivery_mode=2)


@pytest.fixture
def stopped(fresh_broker: BrokerProcess) -> BrokerProcess:
    """A broker that was stopped with two messages in queue `q` of virtual host `/`, one of them large and shared."""
    client = Client.connect(fresh_broker.address)
    for queue in ("q", "other"):
        client.ask(queue_declare(queue, durable=True))
        client.ask(queue_bind(queue, "amq.fanout"))
    deposit(client, b"small", key="q", properties=PERSISTENT)
    deposit(client, b"large" * 2000, exchange="amq.fanout", key="", properties=PERSISTENT)
    client.close()
    assert fresh_broker.stop() == 0
    return fresh_broker


@pytest.fixture
def tell(stopped: BrokerProcess) -> Callable[..., Any]:
    """A function that carries out a command on the stopped broker's data."""
    config = Config(server=Server(data_dir=str(stopped.data_dir)))

    def run(command: str, **arguments: object) -> Any:
        return offline.run(config, command, arguments)

    return run


def leveret(directory: Path, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "broker", *arguments],
        cwd=ROOT,
        env={**os.environ, "LEVERET_DATA_DIR": str(directory)},
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_users_made_while_it_is_stopped_may_log_in_afterwards(stopped: BrokerProcess) -> None:
    directory = stopped.data_dir
    for arguments in (
        ["user", "add", "ann", "-"],
        ["vhost", "add", "v"],
        ["permission", "set", "-p", "v", "ann", ".*", "", ""],
    ):
        done = leveret(directory, *arguments, stdin="secret\n")
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    stopped.start()
    client = Client.connect(stopped.address, user="ann", password="secret", vhost="v")
    client.ask(queue_declare("q"))
    client.close()
    listed = leveret(directory, "list", "permissions", "user", "configure", "-p", "v")
    assert listed.stdout.splitlines() == ["user  configure", "ann   .*"]


def test_listings_count_what_is_on_disk(tell: Callable[..., Any]) -> None:
    assert {row["name"]: row["messages"] for row in tell("list_queues", vhost="/")} == {"q": 2, "other": 1}
    assert tell("list_connections") == []


def test_a_purge_is_on_disk(stopped: BrokerProcess, tell: Callable[..., Any]) -> None:
    assert tell("purge_queue", vhost="/", name="q") == {"messages": 2}
    assert tell("check")["problems"] == []
    stopped.start()
    client = Client.connect(stopped.address)
    assert drain(client, "q") == []
    assert drain(client, "other") == [b"large" * 2000]
    client.close()


def test_a_deleted_virtual_host_leaves_nothing_behind(tell: Callable[..., Any]) -> None:
    tell("delete_vhost", name="/")
    assert tell("list_queues", vhost=None) == []
    report = tell("check")
    assert (report["queues"], report["messages"], report["problems"]) == (0, 0, [])
    tell("add_vhost", name="/", description="", tags=[], default_queue_type="")
    assert tell("list_queues", vhost="/") == []


def test_an_error_is_the_same_as_from_a_running_broker(tell: Callable[..., Any]) -> None:
    with pytest.raises(AdministrationError, match='User "nobody" does not exist') as caught:
        tell("delete_user", name="nobody")
    assert caught.value.kind == "not_found"


def test_a_directory_without_a_broker_is_not_made_into_one(tmp_path: Path) -> None:
    done = leveret(tmp_path / "typo", "user", "add", "ann", "pw")
    assert done.returncode == 1
    assert done.stderr == f"leveret: error: {tmp_path}/typo: no broker has run on this data directory yet\n"
    assert not (tmp_path / "typo").exists()


def test_the_stores_of_a_running_broker_are_left_alone(stopped: BrokerProcess, tell: Callable[..., Any]) -> None:
    stopped.start()
    for command in ("check", "list_users"):
        with pytest.raises(StoreLocked, match="in use by another process"):
            tell(command)


# leveret check


def test_check_says_what_is_there_and_changes_nothing(stopped: BrokerProcess) -> None:
    before = contents(stopped.data_dir)
    done = leveret(stopped.data_dir, "check", "--json")
    report = json.loads(done.stdout)
    assert (done.returncode, report["queues"], report["messages"], report["problems"]) == (0, 2, 3, [])
    assert report["large_bodies"] == 1
    assert contents(stopped.data_dir) == before


def contents(directory: Path) -> dict[str, bytes]:
    """The files that hold data."""
    return {name: (directory / name).read_bytes() for name in ("definitions.sqlite", "messages/data.mdb")}


def test_check_reads_what_a_crash_left(fresh_broker: BrokerProcess) -> None:
    client = Client.connect(fresh_broker.address)
    client.ask(queue_declare("q", durable=True))
    deposit(client, b"one", key="q", properties=PERSISTENT)
    fresh_broker.kill()
    client.close()
    report = json.loads(leveret(fresh_broker.data_dir, "check", "--json").stdout)
    assert (report["queues"], report["messages"], report["problems"]) == (1, 1, [])


def test_check_finds_messages_that_no_definition_names(stopped: BrokerProcess) -> None:
    with sqlite3.connect(stopped.data_dir / "definitions.sqlite") as definitions:
        definitions.execute("DELETE FROM bindings")
        definitions.execute("DELETE FROM queues WHERE name = 'q'")
    definitions.close()
    done = leveret(stopped.data_dir, "check")
    assert done.returncode == 1
    assert "the message store holds queues that no definition names" in done.stdout


def test_check_finds_stores_that_do_not_belong_together(stopped: BrokerProcess, tell: Callable[..., Any]) -> None:
    with sqlite3.connect(stopped.data_dir / "definitions.sqlite") as definitions:
        definitions.execute("UPDATE metadata SET value = randomblob(16) WHERE key = 'store_uuid'")
        definitions.execute("DELETE FROM queues WHERE name = 'other'")
    definitions.close()
    problems = "\n".join(tell("check")["problems"])
    assert "the two stores belong to different brokers" in problems
    assert "a binding in vhost '/' leads to 'other', which is not there" in problems


def test_check_of_what_is_no_store_is_one_line(stopped: BrokerProcess) -> None:
    (stopped.data_dir / "definitions.sqlite-wal").unlink(missing_ok=True)
    (stopped.data_dir / "definitions.sqlite").write_bytes(b"something else entirely" * 100)
    done = leveret(stopped.data_dir, "check")
    assert done.returncode == 1
    assert done.stderr.startswith(
        f"leveret: error: {stopped.data_dir}/definitions.sqlite: cannot be read as definitions"
    )
    assert len(done.stderr.splitlines()) == 1


def test_a_backup_of_a_stopped_broker_runs(stopped: BrokerProcess, tell: Callable[..., Any], tmp_path: Path) -> None:
    tell("backup", directory=str(tmp_path / "copy"))
    shutil.rmtree(stopped.data_dir)
    (tmp_path / "copy").rename(stopped.data_dir)
    stopped.start()
    client = Client.connect(stopped.address)
    assert drain(client, "q") == [b"small", b"large" * 2000]
    client.close()
