"""A standby follows a broker that is shipped, shows what it has, refuses to change it, and is promoted."""

from __future__ import annotations

import json
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.admin.protocol import AdministrationError
from broker.entities.arguments.personality import DEFAULT
from broker.management.routes.route_table import resources_of
from harness.brokers.broker_process import BrokerProcess
from harness.brokers.http_broker import basic
from harness.clients.contents import PERSISTENT
from harness.clients.queue_steps import deposit
from harness.clients.shorthand import queue_declare
from harness.clients.wire_client import Client
from harness.standby_process import StandbyProcess
from harness.waiting import eventually
from tests.durability.restart.test_around_a_crash import leveret
from tests.durability.shipping.test_drill import await_shipped, held

SECONDS = 60.0
BODIES = [b"%d" % number for number in range(20)]


@pytest.fixture
def standby(tmp_path: Path, away: Path, shipped: BrokerProcess) -> Iterator[StandbyProcess]:
    """A standby with the settings of the broker; not started."""
    process = StandbyProcess(tmp_path / "standby")
    process.options = shipped.options
    process.http = ("--management-listen", "127.0.0.1:0", "--prometheus-listen", "off")
    yield process
    process.discard()


def deposited(broker: BrokerProcess, *bodies: bytes) -> None:
    client = Client.connect(broker.address)
    client.ask(queue_declare("q", durable=True))
    deposit(client, *bodies, key="q", properties=PERSISTENT)
    client.close()


def await_followed(standby: StandbyProcess, messages: int) -> None:
    """Return once the standby shows this number of messages."""

    def shown() -> bool:
        try:
            rows = standby.tell("list_queues", columns=["name", "messages"])
        except AdministrationError:  # there is no base yet
            return False
        return {row["name"]: row["messages"] for row in rows} == {"q": messages}

    eventually(shown, f"{messages} messages at the standby", seconds=SECONDS)


def web(standby: StandbyProcess, path: str, method: str = "GET") -> tuple[int, bytes]:
    (address,) = standby.tell("status")["http_listeners"]
    request = urllib.request.Request(f"http://{address}{path}", method=method, headers=basic("guest:guest"))
    try:
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def test_a_standby_shows_what_it_has_and_is_promoted(
    shipped: BrokerProcess, standby: StandbyProcess, tmp_path: Path
) -> None:
    deposited(shipped, *BODIES)
    standby.start()
    await_followed(standby, len(BODIES))
    state = standby.tell("status")["standby"]
    assert (state["stage"], state["problem"]) == ("following", "")
    assert state["lag_seconds"] < SECONDS
    assert leveret(standby.data_dir, "health", "shipping").returncode == 0

    status, body = web(standby, "/api/queues")
    assert [(row["name"], row["messages"]) for row in json.loads(body)] == [("q", len(BODIES))]
    assert "this is a standby that follows" in json.loads(web(standby, "/api/overview")[1])["standby"]
    for path, method in (("/api/queues/%2F/new", "PUT"), ("/api/aliveness-test/%2F", "GET")):
        status, body = web(standby, path, method)
        assert (status, json.loads(body)["error"]) == (503, "standby")
    for command in ("purge_queue", "delete_queue"):
        with pytest.raises(AdministrationError, match="this is a standby that follows"):
            standby.tell(command, vhost="/", name="q")
    inspected = leveret(standby.data_dir, "inspect", "--queue", "q")
    assert f"messages: {len(BODIES)}" in inspected.stdout, inspected

    deposited(shipped, b"last")
    await_shipped(shipped)
    process = standby.pid
    promoted = leveret(standby.data_dir, "promote")
    assert promoted.returncode == 0, promoted
    assert f"{shipped.data_dir} is fenced" in promoted.stdout
    standby.await_promoted()
    assert standby.pid == process
    assert shipped.wait() == 1
    assert held(standby, "q") == [[*BODIES, b"last"]]
    assert "standby" not in standby.tell("status")
    again = leveret(standby.data_dir, "promote")
    assert "this is the broker already" in again.stderr
    deposited(standby, b"new")
    standby.kill_and_restart()
    assert held(standby, "q") == [[b"new"]], "started again it is the broker"


def test_a_standby_goes_on_after_kills_of_both(shipped: BrokerProcess, standby: StandbyProcess) -> None:
    deposited(shipped, b"1")
    standby.start()
    await_followed(standby, 1)
    standby.kill()
    deposited(shipped, b"2")
    await_shipped(shipped)
    standby.start()
    await_followed(standby, 2)
    shipped.kill_and_restart()
    deposited(shipped, b"3")
    await_followed(standby, 3)
    refused = leveret(standby.data_dir, "promote", "--config", "/dev/null")
    assert refused.returncode == 0, refused
    standby.await_promoted()
    assert held(standby, "q") == [[b"1", b"2", b"3"]]


def test_the_directory_of_a_standby_is_promoted_without_it(
    shipped: BrokerProcess, standby: StandbyProcess, away: Path
) -> None:
    deposited(shipped, b"1")
    standby.start()
    await_followed(standby, 1)
    assert standby.stop() == 0, standby.log()
    deposited(shipped, b"2")
    await_shipped(shipped)
    shipped.kill()
    served = leveret(standby.data_dir, "serve", "--listen", "127.0.0.1:0", *shipped.http)
    assert "`leveret promote` makes it a broker's" in served.stderr
    checked = leveret(standby.data_dir, "check")
    assert checked.returncode == 0, checked
    away.rename(away.with_name("gone"))
    failed = leveret(standby.data_dir, "promote")
    assert (failed.returncode, "gone" in failed.stdout) == (1, False), failed
    away.with_name("gone").rename(away)
    assert leveret(standby.data_dir, "promote").returncode == 0
    standby.promoted = True
    standby.start()
    assert held(standby, "q") == [[b"1", b"2"]]


def test_without_the_place_it_serves_what_it_has(shipped: BrokerProcess, standby: StandbyProcess, away: Path) -> None:
    deposited(shipped, b"1")
    standby.start()
    await_followed(standby, 1)
    shipped.kill()
    away.rename(away.with_name("gone"))
    failed = leveret(standby.data_dir, "promote")
    assert failed.returncode == 1, failed
    assert "No such file or directory" in failed.stderr
    promoted = leveret(standby.data_dir, "promote", "--without-place")
    assert promoted.returncode == 0, promoted
    assert "not read: " in promoted.stdout
    standby.await_promoted()
    assert held(standby, "q") == [[b"1"]]


def test_a_place_without_a_base_and_a_brokers_directory_are_told(
    shipped: BrokerProcess, standby: StandbyProcess, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    standby.place = str(tmp_path / "empty")
    standby.start()
    failed = leveret(standby.data_dir, "promote")
    assert "first base is not there" in failed.stderr, failed
    assert standby.stop() == 0, standby.log()
    shipped.kill()
    refused = leveret(shipped.data_dir, "follow", "--from", str(tmp_path / "empty"), *shipped.http)
    assert "holds a broker's data" in refused.stderr, refused


@pytest.mark.slow
def test_a_standby_answers_each_route_or_refuses(shipped: BrokerProcess, standby: StandbyProcess) -> None:
    deposited(shipped, *BODIES)
    standby.start()
    await_followed(standby, len(BODIES))
    names = {
        "vhost": "%2F",
        "queue": "q",
        "user": "guest",
        "exchange": "amq.direct",
        "source": "amq.fanout",
    }
    others = dict.fromkeys(
        ("node", "name", "properties", "component", "segment", "group", "password", "id"), "none"
    ) | {"within": "1", "unit": "days", "port": "1", "protocol": "amqp"}
    failed = {}
    for resource in resources_of(DEFAULT.series):
        if resource.path.startswith("/api/testing"):  # off at any broker but those of tests
            continue
        for method in resource.operations:
            status, body = web(standby, resource.path.format(**names, **others), method)
            expected = (200, 400, 404, 503) if method == "GET" else (503,)
            if status not in expected:
                failed[method, resource.path] = status, body
    assert failed == {}


def test_no_port_of_amqp_is_open_before(shipped: BrokerProcess, standby: StandbyProcess) -> None:
    standby.start()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(standby.address).close()
