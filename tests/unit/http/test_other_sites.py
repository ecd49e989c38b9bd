"""Pages of other sites: with a name of their own that leads here (DNS rebinding), and with requests across sites."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from broker.management.host_names import HostNames
from harness.brokers.broker_process import BrokerProcess
from harness.brokers.http_broker import Reply, ask, web_address
from tests.planted.planted_catalogue import with_mistake

EVERYWHERE = '[management]\nlisten = ["0.0.0.0:0"]\n'
OWN = socket.gethostname()
REACHING = [
    "localhost",
    "LocalHost:15672",
    "localhost.",
    "rabbit.localhost:15672",
    "127.0.0.1",
    "127.0.0.1:15672",
    "127.1",
    "192.0.2.7:8080",
    "[::1]:15672",
    "[2001:db8::1]",
    OWN,
    f"{OWN}:15672",
    OWN.partition(".")[0].upper(),
    "",
]
"""Addresses by which programs of this machine reach a broker on loopback, also through a tunnel or a proxy."""
FOREIGN = [
    "evil.example",
    "evil.example:15672",
    "rabbitmq:15672",
    "localhost.evil.example",
    f"{OWN}.evil.example",
    "evillocalhost",
    "127.0.0.1.evil.example",
    "1.evil",
    "évil",
    "guest:guest@evil.example",
    "localhost:evil",
    "x" * 300,
]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], BrokerProcess]]:
    """A function that starts a broker with these settings, or gives the one that runs with them."""
    started: dict[str, BrokerProcess] = {}

    def given(settings: str) -> BrokerProcess:
        if settings not in started:
            directory = tmp_path_factory.mktemp("site")
            (directory / "leveret.toml").write_text(settings)
            process = BrokerProcess(directory / "data", "--config", str(directory / "leveret.toml"))
            process.http = ("--prometheus-listen", "127.0.0.1:0")
            process.start()
            started[settings] = process
        return started[settings]

    yield given
    for process in started.values():
        assert process.stop() == 0
        assert "Traceback" not in process.log()


@pytest.fixture
def loopback(start: Callable[[str], BrokerProcess]) -> BrokerProcess:
    return start('[management]\nlisten = ["127.0.0.1:0"]\n')


def put_queue(process: BrokerProcess, **headers: str) -> Reply:
    """Declare a queue, as a script may have a browser do."""
    return ask(web_address(process), "/api/queues/%2F/it", method="PUT", body=b'{"durable":true}', **headers)


def queues(process: BrokerProcess) -> object:
    return process.tell("list_queues", columns=["name"])


def test_a_page_whose_name_leads_here_gets_nothing(loopback: BrokerProcess) -> None:
    """For its browser it is of the same site as the broker, so Host is all that tells it apart."""
    site: dict[str, Any] = {
        "Host": "evil.example:15672",
        "Origin": "http://evil.example:15672",
        "Sec_Fetch_Site": "same-origin",
    }
    refused = put_queue(loopback, **site)
    assert refused.status == 421
    assert json.loads(refused.body) == {
        "error": "misdirected_request",
        "reason": "'evil.example' is no name of this machine "
        "(management.host_names has further names by which it may be called)",
    }
    assert queues(loopback) == []
    assert "refused: 'evil.example' is no name of this machine" in loopback.log()


@pytest.mark.parametrize(
    ("path", "method"),
    [
        ("/", "GET"),
        ("/api/overview", "GET"),
        ("/api/overview", "HEAD"),
        ("/api/definitions", "GET"),
        ("/api/login", "POST"),
        ("/api/auth", "GET"),
        ("/api/overview", "OPTIONS"),
        ("/api/leveret/trace/%2F", "POST"),
        ("/api/testing/reset", "POST"),
        ("/none", "GET"),
    ],
)
def test_nothing_is_answered_by_another_name(loopback: BrokerProcess, path: str, method: str) -> None:
    assert ask(web_address(loopback), path, method=method, Host="evil.example").status == 421


@pytest.mark.parametrize("path", ["/metrics", "/metrics/per-object", "/metrics/detailed", "/none"])
def test_metrics_are_not_answered_by_another_name(loopback: BrokerProcess, path: str) -> None:
    """They want no credentials, and name every queue."""
    metrics = web_address(loopback, "metrics")
    assert ask(metrics, path, user=None, Host="evil.example").status == 421
    assert ask(metrics, path, user=None).status == (404 if path == "/none" else 200)


@pytest.mark.parametrize("name", FOREIGN)
def test_names_of_others(loopback: BrokerProcess, name: str) -> None:
    reply = ask(web_address(loopback), "/api/overview", Host=name)
    assert reply.status == 421
    assert b"guest" not in reply.body


@pytest.mark.parametrize("name", REACHING)
def test_names_of_this_machine(loopback: BrokerProcess, name: str) -> None:
    assert ask(web_address(loopback), "/api/overview", Host=name).status == 200


@pytest.mark.parametrize("name", ["rabbitmq:15672", "mq.example.com", "localhost", "10.0.0.7:15672"])
def test_a_listener_for_other_machines_answers_to_any_name(start: Callable[[str], BrokerProcess], name: str) -> None:
    """In a container, for example, nobody inside knows the names that lead to it."""
    process = start(EVERYWHERE)
    port = web_address(process)[1]
    assert ask(("127.0.0.1", port), "/api/overview", Host=name).status == 200
    assert ask(web_address(process, "metrics"), "/metrics", Host="rabbitmq").status == 421, "it is on loopback"


@pytest.mark.parametrize("listen", ["127.0.0.1", "0.0.0.0"])
@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("mq.example.com:15672", 200),
        ("MQ.example.com", 200),
        ("a.b.ops.example", 200),
        ("ops.example", 421),
        ("evilops.example", 421),
        ("example.com", 421),
        ("localhost", 200),
        ("10.0.0.7", 200),
    ],
)
def test_names_of_the_settings(start: Callable[[str], BrokerProcess], listen: str, name: str, status: int) -> None:
    """They hold for every listener, beside this machine's."""
    names = '["mq.example.com", "*.ops.example"]'
    process = start(f'[management]\nlisten = ["{listen}:0"]\nhost_names = {names}\n')
    for scheme, path in (("http", "/api/overview"), ("metrics", "/metrics")):
        assert ask(("127.0.0.1", web_address(process, scheme)[1]), path, Host=name).status == status


def test_any_name(start: Callable[[str], BrokerProcess]) -> None:
    process = start('[management]\nlisten = ["127.0.0.1:0"]\nhost_names = ["*"]\n')
    assert ask(web_address(process), "/api/overview", Host="evil.example").status == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 204),
        ({"Origin": "http://localhost:15672", "Host": "localhost:15672"}, 204),
        ({"Origin": "https://mq.example", "Sec_Fetch_Site": "same-origin"}, 204),
        ({"Sec_Fetch_Site": "none"}, 204),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://["}, 403),
        ({"Sec_Fetch_Site": "cross-site"}, 403),
        ({"Sec_Fetch_Site": "same-site", "Origin": "http://localhost:3000"}, 403),
        ({"Sec_Fetch_Site": "cross-site", "Origin": "http://localhost:15672", "Host": "localhost:15672"}, 403),
    ],
)
def test_changes_across_sites(loopback: BrokerProcess, headers: dict[str, Any], status: int) -> None:
    """A proxy may have given the broker another name than the page has: Sec-Fetch-Site knows better."""
    reply = ask(web_address(loopback), "/api/cluster-name", method="PUT", body=b'{"name":"it"}', **headers)
    assert reply.status == status


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded"])
def test_forms_of_other_sites(loopback: BrokerProcess, kind: str) -> None:
    """A browser sends these without asking first, with the credentials that it has."""
    headers: dict[str, Any] = {"Content_Type": kind, "Origin": "http://evil.example", "Host": "localhost"}
    for path in ("/api/exchanges/%2F/amq.direct/publish", "/api/definitions", "/api/testing/reset", "/api/login"):
        assert ask(web_address(loopback), path, method="POST", body=b"{}", **headers).status == 403


def test_a_broker_that_answers_to_any_name_is_found(tmp_path: Path) -> None:
    process = BrokerProcess(tmp_path / "data", environment=with_mistake("any name answered"))
    process.http = ("--management-listen", "127.0.0.1:0", "--prometheus-listen", "off")
    process.start()
    assert put_queue(process, Host="evil.example").status == 201
    assert queues(process) == [{"name": "it"}]
    assert process.stop() == 0


# The system's table of names


TABLE = """
127.0.0.1 localhost
127.0.1.1 Laptop.lan.example laptop # comment.example
127.0.0.1 rabbitmq mq.test
192.0.2.9 gateway
192.0.2.10 other.example laptop
nonsense nonsense
"""


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("rabbitmq", True),
        ("mq.test", True),
        ("laptop.lan.example", True),
        ("other.example", True),
        ("comment.example", False),
        ("gateway", False),
        ("nonsense", False),
        ("127", True),
        ("mq", False),
        ("évil", False),
    ],
)
def test_names_of_the_system_s_table(tmp_path: Path, name: str, known: bool) -> None:
    """Those of loopback, and those beside the machine's name: browsers look there first."""
    table = tmp_path / "hosts"
    table.write_text(TABLE)
    assert trio.run(HostNames((), "laptop", table).known, name) is known


def test_without_a_table(tmp_path: Path) -> None:
    assert not trio.run(HostNames((), "laptop", tmp_path / "none").known, "rabbitmq")
