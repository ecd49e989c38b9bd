"""`rabbitmqadmin` goes to the broker that is named, and speaks the version that the line or the broker wants."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from broker.cli.main import main
from harness.brokers.broker_process import BrokerProcess
from harness.brokers.certificate_authority import Authority
from harness.brokers.http_broker import web_address, web_broker

Run = Callable[..., tuple[int, str, str]]
"""Carries out the words of a `rabbitmqadmin`; exit code, output, errors."""
SERIES = {"one": "3.13", "two": "4.3"}
"""Personalities of two brokers, by the virtual host that each has."""


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, BrokerProcess]]:
    started = {}
    for vhost, series in SERIES.items():
        started[vhost] = web_broker(tmp_path_factory.mktemp(vhost), f'[identity]\npersonality = "{series}"\n')
        started[vhost].start()
        started[vhost].tell("add_vhost", name=vhost, description="", tags=[], default_queue_type="classic")
    yield started
    for process in started.values():
        process.stop()


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    for name in ("LEVERET_DATA_DIR", "LEVERET_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))

    def run(*words: str, data_dir: Path | None = None) -> tuple[int, str, str]:
        if data_dir is not None:
            monkeypatch.setenv("LEVERET_DATA_DIR", str(data_dir))
        monkeypatch.setattr(sys, "argv", ["/usr/bin/rabbitmqadmin", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        return int(ended.value.code or 0), *capsys.readouterr()

    return run


@pytest.fixture
def ports(brokers: dict[str, BrokerProcess]) -> dict[str, str]:
    return {vhost: str(web_address(process)[1]) for vhost, process in brokers.items()}


VERSION_1, VERSION_2 = "+---", "╭───"
"""The beginnings of tables."""


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("list vhosts", {"one": VERSION_1, "two": VERSION_2}),
        ("list vhosts name", {"one": VERSION_1, "two": VERSION_1}),
        ("-f table list vhosts", {"one": VERSION_1, "two": VERSION_1}),
        ("vhosts list", {"one": VERSION_2, "two": VERSION_2}),
        ("--table-style modern list vhosts", {"one": VERSION_2, "two": VERSION_2}),
    ],
)
def test_a_line_is_for_the_version_that_alone_knows_it_else_for_the_brokers(
    line: str, shown: dict[str, str], run: Run, ports: dict[str, str]
) -> None:
    for vhost, port in ports.items():
        code, out, _ = run("-P", port, *line.split())
        assert (code, out[:4]) == (0, shown[vhost])


def test_settings_of_version_2_in_the_environment_make_all_lines_its(
    run: Run, ports: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RABBITMQADMIN_TARGET_PORT", ports["one"])
    code, out, _ = run("list", "vhosts")
    assert (code, out[:4], "one" in out) == (0, VERSION_2, True)
    assert run("list", "vhosts", "name")[0] == 2


def test_wrong_usage_is_told_in_the_words_of_the_brokers_version(run: Run, ports: dict[str, str]) -> None:
    code, _, err = run("-P", ports["one"], "declare", "queue")
    assert (code, err.splitlines()[1]) == (1, 'ERROR: mandatory argument "name" is required')
    code, _, err = run("-P", ports["two"], "declare", "queue")
    assert (code, err.splitlines()[0]) == (2, "error: the following required arguments were not provided:")
    code, _, err = run("-P", ports["two"], "declare", "queue", "name=q", "nosuch=1")
    assert (code, err.splitlines()[1]) == (1, 'ERROR: Argument "nosuch" is not recognised')


@pytest.mark.parametrize("line", ["-f tsv list vhosts name", "vhosts list"])
def test_the_named_data_directory_says_which_broker_is_asked(
    line: str, run: Run, brokers: dict[str, BrokerProcess], ports: dict[str, str]
) -> None:
    for vhost, other in (("one", "two"), ("two", "one")):
        code, out, _ = run(*line.split(), data_dir=brokers[vhost].data_dir)
        assert (code, vhost in out, other in out) == (0, True, False)
        code, out, _ = run("-P", ports[other], *line.split(), data_dir=brokers[vhost].data_dir)
        assert (code, vhost in out, other in out) == (0, False, True)


@pytest.mark.parametrize("line", ["-f tsv list vhosts name", "vhosts list"])
def test_a_usual_file_gives_way_to_the_named_directory_and_a_named_file_does_not(
    line: str, run: Run, brokers: dict[str, BrokerProcess], ports: dict[str, str], tmp_path: Path
) -> None:
    quote = '"' if line.startswith("vhosts") else ""
    file = tmp_path / ".rabbitmqadmin.conf"
    file.write_text(f"[default]\nhostname = {quote}127.0.0.1{quote}\nport = {ports['two']}\n")
    assert "one" in run(*line.split(), data_dir=brokers["one"].data_dir)[1]
    assert "two" in run("-c", str(file), *line.split(), data_dir=brokers["one"].data_dir)[1]


@pytest.mark.parametrize(("line", "code"), [("-f tsv list vhosts name", 1), ("vhosts list", 65)])
def test_a_named_directory_without_a_broker_is_an_error(line: str, code: int, run: Run, tmp_path: Path) -> None:
    ended, out, err = run(*line.split(), data_dir=tmp_path)
    assert (ended, out) == (code, "")
    assert f"no broker is running on the data directory {tmp_path}, which LEVERET_DATA_DIR" in err


def test_a_named_broker_without_the_api_is_an_error(run: Run, tmp_path: Path) -> None:
    process = BrokerProcess(tmp_path / "data")
    process.start()
    try:
        code, _, err = run("vhosts", "list", data_dir=process.data_dir)
        assert (code, "the broker has no management API (management.listen is off)" in err) == (65, True)
    finally:
        process.stop()


def test_version_2_checks_certificates(run: Run, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    process = web_broker(tmp_path, tls=authority.config())
    process.start()
    try:
        uri = f"https://localhost:{web_address(process, 'https')[1]}"
        for trusted in (["--tls-ca-cert-file", str(authority.ca_file)], ["-k"]):
            code, out, _ = run("-U", uri, *trusted, "vhosts", "list")
            assert (code, out[:4]) == (0, VERSION_2)
        code, out, err = run("-U", uri, "vhosts", "list")
        assert (code, out, "certificate verify failed" in err) == (65, "", True)
    finally:
        process.stop()


def test_columns_that_a_list_has_not_got_are_an_error(run: Run, ports: dict[str, str]) -> None:
    code, out, err = run("-P", ports["two"], "queues", "list", "--columns", "name,messages")
    assert (code, out, "messages; known: name, vhost, queue_type" in err) == (64, "", True)
