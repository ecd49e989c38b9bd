"""The name localhost: a broker listens on 127.0.0.1 and ::1, since clients try either first."""

from __future__ import annotations

import errno
import json
import re
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest

from broker.config import Address, Config
from broker.server.net import listeners
from broker.server.net.listeners import bind
from harness.brokers.broker_process import BrokerProcess
from harness.brokers.http_broker import ask, web_address
from harness.clients.wire_client import Client

BOTH = ["127.0.0.1", "::1"]


def bound(*addresses: Address) -> list[tuple[str, int]]:
    with ExitStack() as opened:
        made = [opened.enter_context(each) for each in bind(list(addresses), 16)]
        return [listener.getsockname()[:2] for listener in made]


@pytest.fixture(scope="module", autouse=True)
def two_loopbacks() -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError as error:
        pytest.skip(f"this machine has no ::1: {error}")


def test_localhost_is_both_loopbacks_with_one_port() -> None:
    """Whatever /etc/hosts has, and where the system chooses the port too."""
    (first, port), second = bound(Address("LocalHost", 0))
    assert ([first, second[0]], second[1]) == (BOTH, port)


@pytest.mark.parametrize("missing", BOTH)
def test_a_loopback_that_the_machine_lacks_is_left_out(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where IPv6 is switched off: an address of nobody stands for it here."""
    nobodys = {"127.0.0.1": "192.0.2.77", "::1": "2001:db8::1"}
    here = [host for host in BOTH if host != missing]
    monkeypatch.setitem(listeners.LOCALHOST, "localhost", (nobodys[missing], *here))
    assert [host for host, _ in bound(Address("localhost", 0))] == here
    monkeypatch.setitem(listeners.LOCALHOST, "localhost", tuple(nobodys.values()))
    with pytest.raises(listeners.ListenError, match=r"192\.0\.2\.77:0: no address of this machine"):
        bound(Address("localhost", 0))


def test_a_port_that_one_loopback_has_not_free_is_refused() -> None:
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(listeners.ListenError, match=rf"cannot listen on \[::1\]:{port}: another") as refused:
            bound(Address("localhost", port))
        assert refused.value.errno == errno.EADDRINUSE
        with socket.socket() as free:
            free.bind(("127.0.0.1", port))  # it was closed again after the refusal


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker as the defaults have it, but for the ports."""
    config = Config()
    settings = config.server.listen + config.management.listen + config.prometheus.listen
    assert [address.partition(":")[0] for address in settings] == ["localhost"] * 3
    process = BrokerProcess(tmp_path_factory.mktemp("loopbacks") / "data")
    process.address = ("localhost", 0)
    process.http = ("--management-listen", "localhost:0", "--prometheus-listen", "localhost:0")
    process.start()
    yield process
    process.stop()


def test_both_loopbacks_are_this_machine_to_guest(broker: BrokerProcess) -> None:
    """The ready line and the lists have both. A connection's name has IPv6 in brackets, as in RabbitMQ."""
    port = broker.address[1]
    assert broker.ready_line.startswith(f"leveret ready: amqp://127.0.0.1:{port},amqp://[::1]:{port} data=")
    api, metrics = web_address(broker), web_address(broker, "metrics")
    for name in ("amqp", "http", "http/prometheus"):
        rows = [row for row in json.loads(ask(api, "/api/overview").body)["listeners"] if row["protocol"] == name]
        assert [row["ip_address"] for row in rows] == BOTH
    with closing(Client.connect(("::1", port))):
        (row,) = json.loads(ask(("::1", api[1]), "/api/connections").body)
    assert (re.sub(r":\d{4,}", "", row["name"]), row["peer_host"]) == ("[::1] -> [::1]", "::1")
    assert ask(("::1", metrics[1]), "/metrics", user=None).status == 200
