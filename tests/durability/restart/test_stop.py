"""A clean stop, and starts that must be refused: what clients see, what the process prints, what is touched."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import socket
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from broker.admin.protocol import SOCKET_NAME
from broker.server.net.listeners import UNPRIVILEGED
from broker.wire.methods import BasicAck, BasicDeliver, ConfirmSelect, ConnectionClose
from harness.brokers.broker_process import BrokerProcess
from harness.brokers.copied_commands import run_text
from harness.clients.contents import PERSISTENT
from harness.clients.queue_steps import deposit, drain, numbered
from harness.clients.shorthand import consume, exchange_declare, queue_declare
from harness.clients.wire_client import Client
from storage.definitions.features import JOURNAL, KNOWN

Dial = Callable[[], Client]

pytestmark = pytest.mark.slow

PUBLISHED_AT_ONCE = 1000
"""More than the broker has handled when it is told to end."""
SHUTDOWN = ConnectionClose(320, "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'", 0, 0)


@pytest.fixture
def dial(fresh_broker: BrokerProcess) -> Iterator[Dial]:
    """A function that connects to the test's own broker; the connections are dropped at the end."""
    clients: list[Client] = []

    def dialled() -> Client:
        clients.append(Client.connect(fresh_broker.address))
        return clients[-1]

    yield dialled
    for client in clients:
        client.close()


def test_a_stop_under_load_loses_nothing(fresh_broker: BrokerProcess, dial: Dial) -> None:
    """Exit code 0; each client is told why; everything confirmed is there afterwards, once and in order."""
    idle, busy = dial(), {queue: dial() for queue in "abc"}
    for queue, client in busy.items():
        client.ask(queue_declare(queue, durable=True))
        client.ask(ConfirmSelect(False))
    for number in range(PUBLISHED_AT_ONCE):
        for queue, client in busy.items():
            client.publish(b"%d" % number, key=queue, properties=PERSISTENT)
    confirmed = {queue: client.expect(BasicAck).delivery_tag for queue, client in busy.items()}
    fresh_broker.terminate()
    assert idle.expect_gone() == [SHUTDOWN]
    for queue, client in busy.items():
        items = client.expect_gone()
        items.remove(SHUTDOWN)
        confirmed[queue] = max([confirmed[queue], *(answer.delivery_tag for answer in items)])
    assert fresh_broker.wait() == 0, fresh_broker.log()
    fresh_broker.start()
    client = dial()
    for queue, last in confirmed.items():
        found = drain(client, queue)
        assert found == numbered(len(found))
        assert len(found) >= last


def test_an_interrupt_is_a_stop_and_flushes_what_nobody_asked_about(fresh_broker: BrokerProcess, dial: Dial) -> None:
    """Without confirms; a clean stop writes publishes all the same, acknowledgements too."""
    client = dial()
    client.ask(queue_declare("q", durable=True))
    for number in range(100):
        client.publish(b"%d" % number, key="q", properties=PERSISTENT)
    client.ask(consume("q", no_ack=True))
    client.expect_message(BasicDeliver)
    fresh_broker.signal(signal.SIGINT)
    items = client.expect_gone()
    assert SHUTDOWN in items
    assert fresh_broker.wait() == 0, fresh_broker.log()
    fresh_broker.start()
    left = drain(dial(), "q")
    assert left == [b"%d" % number for number in range(100 - len(left), 100)]
    assert len(left) <= 100 - len(items)


def test_nobody_can_hold_a_stop_up(fresh_broker: BrokerProcess, dial: Dial) -> None:
    """Neither one that answers nothing, nor one whose buffers are full, nor one that never said a word.

    A reader of the ready line may send SIGTERM the next moment.
    """
    stuck = dial()
    stuck.ask(queue_declare("q"))
    stuck.ask(consume("q", no_ack=True))
    deposit(dial(), *[b"x" * 100_000] * 200, key="q")
    with socket.create_connection(fresh_broker.address):
        assert fresh_broker.stop() == 0, fresh_broker.log()
    for _ in range(3):
        fresh_broker.start()
        assert fresh_broker.stop() == 0, fresh_broker.log()
        assert not (fresh_broker.data_dir / SOCKET_NAME).exists()


# Starts that are refused


def expect_refusal(
    data_dir: Path, *words: str, address: str = "127.0.0.1:0", options: Sequence[str] = (), prefix: tuple[str, ...] = ()
) -> None:
    """`serve` ends with exit code 1 and one line that has these words; nothing looks like a start."""
    without = () if options else ("--management-listen", "off", "--prometheus-listen", "off")
    command = ["serve", "--data-dir", str(data_dir), "--listen", address, *(options or without)]
    result = run_text(*command, prefix=prefix)
    errors = [line for line in result.stderr.splitlines() if line]
    assert (result.returncode, result.stdout, len(errors)) == (1, "", 1), errors
    assert errors[0].startswith("leveret: error: ")
    for word in words:
        assert word in errors[0]


def contents(directory: Path) -> dict[str, str]:
    """Every file of a directory with its hash."""
    files = sorted(path for path in directory.rglob("*") if path.is_file())
    return {str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_a_second_broker_on_the_same_data_or_port(fresh_broker: BrokerProcess, dial: Dial, tmp_path: Path) -> None:
    """The first one goes on, and nothing is made where nothing can run."""
    client = dial()
    client.ask(queue_declare("q", durable=True))
    directory = fresh_broker.data_dir
    expect_refusal(
        directory,
        f"{directory}/broker is in use by process {fresh_broker.pid} ({directory}/broker.lock is locked): stop that",
    )
    port = "{}:{}".format(*fresh_broker.address)
    in_use = f"cannot listen on {port}: another program listens there: stop it, or choose another port"
    expect_refusal(tmp_path / "data", in_use, "(server.listen, LEVERET_LISTEN or --listen)", address=port)
    assert not (tmp_path / "data").exists()
    deposit(client, b"1", key="q", properties=PERSISTENT)
    fresh_broker.kill_and_restart()
    assert drain(dial(), "q") == [b"1"]


HTTP, TLS = "[management]\n", '[tls]\nlisten = ["127.0.0.1:0"]\n'
REFUSED_SETTINGS = {
    "HTTP on a port in use": (
        HTTP + 'listen = ["{taken}"]',
        "{taken}: another program listens there",
        "(management.listen)",
    ),
    "HTTPS without a certificate": (HTTP + 'tls_listen = ["127.0.0.1:0"]', "tls.certificate_file: expected the file"),
    "no such certificate": (TLS + 'certificate_file = "{tmp}/none.pem"', "{tmp}/none.pem: cannot be read: "),
    "a path that is none": (TLS + 'certificate_file = "a\\u0000b"', "null"),
    "nobody's address": (HTTP + 'listen = ["192.0.2.7:0"]', "192.0.2.7:0: no address of this machine"),
    "an address of IPv6": (HTTP + 'listen = ["[2001:db8::1]:0"]', "[2001:db8::1]:0: "),
    "a name that leads nowhere": (
        HTTP + 'listen = ["no.such.host.invalid:0"]',
        "expected an address of this machine, or",
    ),
    "a name that is none": (HTTP + f'listen = ["{"x" * 70}:1"]', "not a host's name", "(management.listen)"),
}
"""Settings, and words of the line that refuses them. Certificates: tests/unit/net/test_tls_broker.py."""


@pytest.mark.parametrize("case", REFUSED_SETTINGS)
def test_what_cannot_be_listened_on_is_one_line(case: str, tmp_path: Path) -> None:
    """It names the setting, the address or file, and what to do; nothing has been made."""
    settings, *words = REFUSED_SETTINGS[case]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = {"{taken}": f"127.0.0.1:{taken.getsockname()[1]}", "{tmp}": str(tmp_path)}
        for name, value in place.items():
            settings, words = settings.replace(name, value), [word.replace(name, value) for word in words]
        config = tmp_path / "config.toml"
        config.write_text(settings)
        expect_refusal(tmp_path / "data", *words, options=["--config", str(config)])
    assert not (tmp_path / "data").exists()


def test_a_privileged_port_is_one_line(tmp_path: Path) -> None:
    without = ("setpriv", "--bounding-set", "-net_bind_service", "--inh-caps", "-net_bind_service")
    prefix = without if os.geteuid() == 0 else ()
    if int(UNPRIVILEGED.read_text()) <= 1 or (prefix and shutil.which(prefix[0]) is None):
        pytest.skip("no port is privileged here, or the privilege cannot be dropped")
    expect_refusal(tmp_path / "data", "127.0.0.1:1: ports below", address="127.0.0.1:1", prefix=prefix)


def test_a_place_for_the_commands_socket_that_is_taken_is_one_line(tmp_path: Path) -> None:
    place = tmp_path / "data" / SOCKET_NAME
    place.parent.mkdir(mode=0o700)
    place.mkdir(mode=0o600)
    expect_refusal(tmp_path / "data", f"cannot listen on {place}: Is a directory; expected to make the socket")


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The data directories of two stopped brokers, each with a message."""
    brokers = {name: BrokerProcess(tmp_path_factory.mktemp(name) / "data") for name in ("ours", "others")}
    for broker in brokers.values():
        broker.start()
        with closing(Client.connect(broker.address)) as client:
            client.ask(queue_declare("q", durable=True))
            deposit(client, b"kept", key="q", properties=PERSISTENT)
        assert broker.stop() == 0, broker.log()
    return {name: broker.data_dir for name, broker in brokers.items()}


def of_a_newer_release(data: Path, _others: Path) -> None:
    with closing(sqlite3.connect(data / "definitions.sqlite")) as connection:
        connection.execute("PRAGMA user_version = 9999")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def definitions_lost(data: Path, _others: Path) -> None:
    for path in data.glob("definitions.sqlite*"):
        path.unlink()


def definitions_of_another_broker(data: Path, others: Path) -> None:
    definitions_lost(data, others)
    for path in others.glob("definitions.sqlite*"):
        shutil.copy(path, data)


def not_a_store(name: str) -> Callable[[Path, Path], object]:
    return lambda data, _: (data / name).write_bytes(b"this is no store of ours\n" * 4096)


SPOILT: dict[str, tuple[Callable[[Path, Path], object], str]] = {
    "of a newer release": (of_a_newer_release, "9999"),
    "no definitions": (not_a_store("definitions.sqlite"), "definitions.sqlite"),
    "no messages": (not_a_store("messages/data.mdb"), "messages/data.mdb"),
    "definitions lost": (definitions_lost, "definitions.sqlite"),
    "definitions of another broker": (definitions_of_another_broker, "data"),
}


@pytest.mark.parametrize("case", SPOILT)
def test_stores_that_are_not_ours_are_left_alone(stopped: dict[str, Path], tmp_path: Path, case: str) -> None:
    """The file is named, and no byte is changed: with what belongs there the broker starts, and has the message."""
    data = tmp_path / "data"
    shutil.copytree(stopped["ours"], data)
    spoil, word = SPOILT[case]
    spoil(data, stopped["others"])
    before = contents(data)
    expect_refusal(data, word)
    after = contents(data)
    assert {name: after.get(name) for name in before} == before
    broker = BrokerProcess(data)
    for path in stopped["ours"].rglob("*.*"):
        shutil.copy(path, data / path.relative_to(stopped["ours"]))
    broker.start()
    with closing(Client.connect(broker.address)) as client:
        assert drain(client, "q") == [b"kept"]
    broker.kill()


def test_what_nobody_thought_of_is_one_line_too(stopped: dict[str, Path], tmp_path: Path) -> None:
    """A binding from an exchange that is not there, which no Leveret writes."""
    data = tmp_path / "data"
    shutil.copytree(stopped["ours"], data)
    with closing(sqlite3.connect(data / "definitions.sqlite")) as connection:
        connection.execute("INSERT INTO bindings VALUES ('/', 'nowhere', 'q', 'queue', '', x'00000000')")
        connection.commit()
    expect_refusal(data, "KeyError: 'nowhere'", "recovery.py:")


def test_a_limit_of_the_address_space_is_no_damage(fresh_broker: BrokerProcess, dial: Dial) -> None:
    """`ulimit -v`, in KiB: the store takes half of it."""
    client = dial()
    client.ask(queue_declare("q", durable=True))
    deposit(client, b"kept", key="q", properties=PERSISTENT)
    client.close()
    assert fresh_broker.stop() == 0
    fresh_broker.prefix = ("sh", "-c", f'ulimit -v {8 << 20}; exec "$@"', "sh")
    fresh_broker.start()
    assert drain(dial(), "q") == [b"kept"]


def test_features_that_this_release_does_not_know(fresh_broker: BrokerProcess, dial: Dial) -> None:
    """A store names what it uses; one that counts deliveries is not opened by a release that would lose the counts."""
    client = dial()
    delayed = {"x-delayed-type": "direct"}
    client.ask(exchange_declare("x", "x-delayed-message", durable=True, arguments=delayed))
    for arguments in ({"x-queue-type": "quorum"}, {"x-queue-type": "stream"}, {"x-max-priority": 3}, {}):
        client.ask(queue_declare(f"q{arguments}", durable=True, arguments=arguments))
    client.close()
    assert fresh_broker.stop() == 0
    connection = sqlite3.connect(fresh_broker.data_dir / "definitions.sqlite")
    named = connection.execute("SELECT key FROM metadata WHERE key LIKE 'feature.%' ORDER BY key").fetchall()
    connection.execute("UPDATE metadata SET key = 'feature.telepathy' WHERE key = 'feature.streams'")
    connection.commit()
    connection.close()
    assert [key for (key,) in named] == [f"feature.{name}" for name in sorted(KNOWN - {JOURNAL})]
    before = contents(fresh_broker.data_dir)
    expect_refusal(fresh_broker.data_dir, "definitions.sqlite", "uses telepathy, which this release does not know")
    assert contents(fresh_broker.data_dir) == before
