"""The report of a restore: what is there, what is not, and what comes again, held against the old directory."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from harness.brokers.broker_process import BrokerProcess
from harness.clients.contents import PERSISTENT
from harness.clients.queue_steps import deposit, fetch
from harness.clients.shorthand import ack, queue_declare
from harness.clients.wire_client import Client
from tests.durability.restart.test_around_a_crash import leveret
from tests.durability.shipping.test_drill import await_shipped, moment


def report(data: Path, *arguments: str) -> dict[str, Any]:
    done = leveret(data, "restore", "--json", *arguments)
    assert done.returncode == 0, done
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_restore_tells_what_is_missing_and_what_comes_again(
    shipped: BrokerProcess, away: Path, tmp_path: Path
) -> None:
    client = Client.connect(shipped.address)
    for name in ("kept", "emptied"):
        client.ask(queue_declare(name, durable=True))
        deposit(client, *[b"early"] * 3, key=name, properties=PERSISTENT)
    await_shipped(shipped)
    then = moment()
    for message in fetch(client, "emptied", 3):
        client.send(ack(message.method.delivery_tag))
    client.ask(queue_declare("later", durable=True))
    deposit(client, b"late", key="later", properties=PERSISTENT._replace(message_id="order-7"))
    deposit(client, b"late", key="kept", properties=PERSISTENT)
    deposit(client, b"not on disk for long", key="kept")
    await_shipped(shipped)
    client.close()
    shipped.kill()
    old = shipped.data_dir
    expected = {("kept", None), ("later", "order-7")}

    elsewhere = report(tmp_path / "elsewhere", "--from", str(away), "--at", then, "--compare", str(old))
    assert {each["name"]: each["messages"] for each in elsewhere["queues"]} == {"kept": 3, "emptied": 3}
    compared = elsewhere["compared"]
    assert (compared["problem"], compared["missing_messages"], compared["messages_again"]) == ("", 2, 3)
    assert {(each["queue"], each["message_id"]) for each in compared["missing"]} == expected

    replacing = leveret(old, "restore", "--from", str(away), "--at", then, "--replace")
    assert replacing.returncode == 0, replacing
    assert "2 messages of" in replacing.stdout
    assert "order-7" in replacing.stdout
    assert "3 messages, acknowledged or removed after that, come again" in replacing.stdout

    shutil.rmtree(old)
    alone = report(old, "--from", str(away))
    assert alone["compared"] is None
    assert {each["name"]: each["messages"] for each in alone["queues"]} == {"kept": 4, "emptied": 0, "later": 1}
    assert alone["seconds_not_there_max"] > 0


def test_a_directory_that_is_no_old_one_is_not_compared(shipped: BrokerProcess, away: Path, tmp_path: Path) -> None:
    await_shipped(shipped)
    backup = tmp_path / "backup"
    assert leveret(shipped.data_dir, "backup", str(backup)).returncode == 0
    running = report(tmp_path / "one", "--from", str(away), "--compare", str(shipped.data_dir))["compared"]
    assert "is in use" in running["problem"]
    shipped.kill()
    no_broker_ran = report(tmp_path / "two", "--from", str(away), "--compare", str(backup))["compared"]
    assert "is a backup" in no_broker_ran["problem"]
