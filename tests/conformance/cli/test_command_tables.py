"""Each command line of the tables prints what RabbitMQ's own does, and ends as it does, by series."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.cli.main import main
from broker.wire.methods import ConnectionBlocked, ConnectionUnblocked
from harness.brokers.broker_process import BrokerProcess
from harness.brokers.http_broker import web_address, web_broker
from harness.brokers.rabbitmq_reference import REFERENCE, REFERENCE_HTTP, REFERENCE_SERIES
from harness.clients.shorthand import consume, queue_declare
from harness.clients.wire_client import Address
from tests.conformance import Connect
from tests.conformance.cli.printed_commands import BASE, Ending, Run, Section, differences, sections

pytestmark = pytest.mark.slow

ALL_SERIES = [REFERENCE_SERIES] if REFERENCE else [BASE, "4.3"]
SECTIONS = [
    section
    for file in sorted(Path(__file__).parent.glob("*.commands"))
    for section in sections(file.read_text(encoding="utf-8"))
]
LEFT = ("delete_vhost v1", "delete_user ann", "delete_user bob", "clear_global_parameter own")
"""Commands that remove leftovers of the section before."""


@pytest.fixture(scope="module", params=ALL_SERIES)
def series(request: pytest.FixtureRequest) -> str:
    """The RabbitMQ whose tools are compared with."""
    return str(request.param)


@pytest.fixture(scope="module")
def web_process(series: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker of that personality; tables of 3.10 hold for 3.13, the default."""
    personality = "3.13" if series == BASE else series
    process = web_broker(tmp_path_factory.mktemp("web"), f'[identity]\npersonality = "{personality}"\n')
    process.start()
    yield process
    process.stop()


@pytest.fixture(scope="module")
def shared_process(web_process: BrokerProcess) -> BrokerProcess:
    """Clients speak to the broker that has the API."""
    return web_process


@pytest.fixture
def places(request: pytest.FixtureRequest, broker: Address, tmp_path: Path) -> dict[str, str]:
    """Values of names in braces."""
    fixed = {"{dir}": str(tmp_path), "{port}": str(broker[1])}
    if REFERENCE:
        node, http = os.environ.get("RABBITMQ_NODENAME", "rabbit@localhost"), REFERENCE_HTTP.rpartition(":")[2]
        return {**fixed, "{node}": node, "{http}": http}
    process: BrokerProcess = request.getfixturevalue("web_process")
    return {**fixed, "{node}": process.tell("status")["node"], "{http}": str(web_address(process)[1])}


@pytest.fixture
def run(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Run:
    """Carry out a command line: within this process or, with RabbitMQ's tools, which are on PATH and find it."""
    if REFERENCE:
        return _run_reference
    process: BrokerProcess = request.getfixturevalue("web_process")
    plugins = tmp_path / "enabled_plugins"
    plugins.write_text("[rabbitmq_management].")
    for name, value in (("LEVERET_DATA_DIR", process.data_dir), ("RABBITMQ_ENABLED_PLUGINS_FILE", plugins)):
        monkeypatch.setenv(name, str(value))
    monkeypatch.setenv("HOME", str(tmp_path))

    def run(words: list[str]) -> Ending:
        monkeypatch.setattr(sys, "argv", [f"/usr/bin/{words[0]}", *words[1:]])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        return Ending(int(ended.value.code or 0), _lines(out), _lines(err))

    return run


def _run_reference(words: list[str]) -> Ending:
    ended = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=60)
    return Ending(ended.returncode, _lines(ended.stdout), _lines(ended.stderr))


def _lines(text: str) -> list[str]:
    return [line.rstrip(" ") for line in text.removesuffix("\n").split("\n")] if text else []


@pytest.mark.parametrize(
    ("series", "section"),
    [(series, each) for series in ALL_SERIES for each in SECTIONS if each.only in (None, series)],
    ids=lambda value: value.title if isinstance(value, Section) else value,
    indirect=["series"],
    scope="module",
)
def test_commands_print_what_rabbitmqs_print(section: Section, series: str, run: Run, places: dict[str, str]) -> None:
    for command in LEFT:
        run(["rabbitmqctl", "-q", *command.split()])

    def fill(text: str) -> str:
        for name, value in places.items():
            text = text.replace(name, value)
        return text

    wrong = differences(section.commands, run, fill, series, reference=bool(REFERENCE))
    assert not wrong, "\n".join(wrong)


def test_a_connection_is_listed_and_closed_by_its_pid(
    series: str, connect: Connect, run: Run, places: dict[str, str]
) -> None:
    client = connect()
    queue = client.ask(queue_declare("", exclusive=True)).queue
    client.ask(consume(queue, "tag"))
    columns = ["pid", "user", "vhost", "state", "protocol", "auth_mechanism", "channels", "ssl"]
    (row,) = run(["rabbitmqctl", "-s", "list_connections", *columns]).out
    pid, *rest = row.split("\t")
    assert pid.startswith(f"<{places['{node}']}.")
    assert rest == ["guest", "/", "running", "{0,9,1}", "PLAIN", "1", "false"]
    (row,) = run(["rabbitmqctl", "-s", "list_channels", "connection", "number", "consumer_count", "confirm"]).out
    assert row.split("\t") == [pid, "1", "1", "false"]
    rows = run(["rabbitmqctl", "-s", "list_queues", "name", "exclusive", "owner_pid", "messages"]).out
    assert f"{queue}\ttrue\t{pid}\t0" in rows
    assert run(["rabbitmqctl", "close_connection", pid, "why"]).out == [f"Closing connection {pid}, reason: why..."]
    assert client.closing() == "connection 320 CONNECTION_FORCED - why"


def test_an_alarm_raised_by_hand_blocks_publishers_until_it_is_cleared(series: str, connect: Connect, run: Run) -> None:
    """As the suite of RabbitMQ's Java client does."""
    publisher = connect()
    for resource in ("memory", "disk"):
        alarm = f"{{resource_limit, {resource}, node()}}"
        assert run(["rabbitmqctl", "eval", f"rabbit_alarm:set_alarm({{{alarm}, []}})."]).out == ["ok"]
        publisher.publish(b"held", key="nowhere")
        assert publisher.expect(ConnectionBlocked, channel=0).reason == f"low on {resource}"
        assert run(["rabbitmqctl", "eval", f"rabbit_alarm:clear_alarm({alarm})."]).out == ["ok"]
        publisher.expect(ConnectionUnblocked, channel=0)
