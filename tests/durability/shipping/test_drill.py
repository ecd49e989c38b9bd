"""The drill: a broker writes and is shipped, its directory is destroyed, and moments of it come back."""

from __future__ import annotations

import shutil
import time
import urllib.request
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from harness.brokers.broker_process import BrokerProcess
from harness.clients.contents import PERSISTENT
from harness.clients.queue_steps import deposit, drain, fetch
from harness.clients.shorthand import ack, queue_declare, queue_delete
from harness.clients.wire_client import Client
from harness.waiting import eventually, pass_by
from tests.durability.restart.test_around_a_crash import leveret
from tests.durability.shipping.conftest import Place

SECONDS = 60.0
LARGE = bytes(6 << 20)
"""More than the journal takes."""


def await_shipped(broker: BrokerProcess) -> dict[str, Any]:
    """Return the state of shipping once nothing waits."""

    def nothing_waits() -> dict[str, Any] | None:
        state: dict[str, Any] = broker.tell("status")["ship"]
        return state if state["bases"] and not state["lag_bytes"] else None

    state = eventually(nothing_waits, "all to be shipped", seconds=SECONDS)
    assert state is not None
    return state


def held(broker: BrokerProcess, *queues: str) -> list[list[bytes]]:
    """Take everything out of queues."""
    client = Client.connect(broker.address)
    found = [drain(client, queue) for queue in queues]
    client.close()
    return found


def queues(broker: BrokerProcess) -> list[str]:
    return sorted(row["name"] for row in broker.tell("list_queues"))


def moment() -> str:
    """Return the time, and let a millisecond pass, so that it is before all that comes."""
    now = datetime.now(UTC)
    pass_by(time.monotonic() + 0.002)
    return now.isoformat(timespec="milliseconds")


@pytest.mark.slow
@pytest.mark.parametrize("place", ["directory", "sftp", "s3"], indirect=True)
def test_three_moments_come_back_message_by_message(shipped: BrokerProcess, place: Place) -> None:
    client = Client.connect(shipped.address)
    client.ask(queue_declare("first", durable=True))
    deposit(client, *[b"%d" % number for number in range(50)], key="first", properties=PERSISTENT)
    moments = []
    await_shipped(shipped)
    moments.append((moment(), {"first": [b"%d" % number for number in range(50)]}))
    for message in fetch(client, "first", 20):
        client.send(ack(message.method.delivery_tag))
    client.ask(queue_declare("second", durable=True))
    deposit(client, LARGE, b"small", key="second", properties=PERSISTENT)
    await_shipped(shipped)
    moments.append((moment(), {"first": [b"%d" % number for number in range(20, 50)], "second": [LARGE, b"small"]}))
    client.ask(queue_delete("first"))
    deposit(client, b"last", key="second", properties=PERSISTENT)
    await_shipped(shipped)
    moments.append(("last", {"second": [LARGE, b"small", b"last"]}))
    client.close()
    shipped.kill()
    shutil.rmtree(shipped.data_dir)
    options, shipped.options = shipped.options, ()
    boots = []
    for at, expected in reversed(moments):
        done = leveret(shipped.data_dir, "restore", "--from", place.to, "--at", at, "--replace", *options)
        assert done.returncode == 0, done
        assert f"{len(expected)} queue" in done.stdout
        shipped.start()
        assert queues(shipped) == list(expected)
        assert held(shipped, *expected) == list(expected.values()), at
        boots.append(shipped.tell("status")["boot"])
        shipped.kill()
    assert boots == sorted(set(boots)), "each restore is a new timeline"


def test_a_stop_ships_the_rest_and_a_start_begins_a_new_base(shipped: BrokerProcess, away: Path) -> None:
    client = Client.connect(shipped.address)
    client.ask(queue_declare("q", durable=True))
    await_shipped(shipped)
    deposit(client, b"a", key="q", properties=PERSISTENT)
    client.close()
    assert shipped.stop() == 0, shipped.log()
    assert "not shipped" not in shipped.log()
    shipped.start()
    await_shipped(shipped)
    shipped.kill()
    assert len(list(away.glob("*-*"))) == 2
    for base in away.glob("*/*.base"):
        shutil.rmtree(shipped.data_dir)
        assert leveret(shipped.data_dir, "restore", "--from", str(away)).returncode == 0
        if base == max(away.glob("*/*.base")):
            shutil.rmtree(base.parent)
    shipped.options = ()
    shipped.start()
    assert held(shipped, "q") == [[b"a"]]


def test_how_far_it_is_behind_is_told(shipped: BrokerProcess, away: Path) -> None:
    shipped.kill()
    shipped.http = ("--management-listen", "off", "--prometheus-listen", "127.0.0.1:0")
    shipped.start()
    await_shipped(shipped)
    healthy = leveret(shipped.data_dir, "health", "shipping")
    assert (healthy.returncode, healthy.stdout) == (0, f"{away} is 0.0 s behind\n")
    away.rename(away.with_name("gone"))
    client = Client.connect(shipped.address)
    client.ask(queue_declare("q", durable=True))
    deposit(client, b"a", b"b", key="q", properties=PERSISTENT)
    client.close()
    eventually(lambda: shipped.tell("status")["ship"]["problem"], "the target to be missed", seconds=SECONDS)
    state = shipped.tell("status")["ship"]
    assert state["lag_messages"] == 2
    failed = leveret(shipped.data_dir, "health", "shipping")
    assert failed.returncode == 1
    assert "No such file or directory" in failed.stderr
    ((host, port),) = [text.rsplit(":", 1) for text in shipped.tell("status")["metrics_listeners"]]
    with urllib.request.urlopen(f"http://{host}:{port}/metrics", timeout=SECONDS) as answer:
        metrics = answer.read().decode()
    assert "leveret_ship_lag_messages 2.0\n" in metrics
    assert "leveret_ship_failing 1.0\n" in metrics
    away.with_name("gone").rename(away)
    assert await_shipped(shipped)["problem"] == ""
