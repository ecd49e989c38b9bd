"""A broker that is shipped, to a directory or a server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from harness.brokers.broker_process import BrokerProcess
from harness.second_places import s3_server as s3
from harness.second_places import ssh_server as ssh


class Place(NamedTuple):
    """A second place, and the lines of `[ship]` by which it is reached."""

    to: str
    lines: str = ""


@pytest.fixture
def away(tmp_path: Path) -> Path:
    (tmp_path / "away").mkdir()
    return tmp_path / "away"


@pytest.fixture
def place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """The place to ship to: a directory, unless the test names another kind."""
    kind = getattr(request, "param", "directory")
    if kind == "sftp":
        yield from _on_a_server_of_sftp()
    elif kind == "s3":
        yield from _on_a_server_of_s3(monkeypatch)
    else:
        yield Place(str(request.getfixturevalue("away")))


def _on_a_server_of_sftp() -> Iterator[Place]:
    if ssh.SSHD is None:
        pytest.skip(ssh.MISSING)
    with ssh.ssh_server() as server:
        yield Place(server.place, f'sftp_key = "{server.key}"\nsftp_known_hosts = "{server.known_hosts}"\n')


def _on_a_server_of_s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    if s3.WEED is None:
        pytest.skip(s3.MISSING)
    with s3.s3_server() as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        yield Place(f"{server.place}/store", f's3_endpoint = "{server.endpoint}"\n')


@pytest.fixture
def shipped(tmp_path: Path, place: Place) -> Iterator[BrokerProcess]:
    """A broker that is shipped, all that is there each 50 ms."""
    broker = BrokerProcess(tmp_path / "data")
    settings = tmp_path / "leveret.toml"
    settings.write_text(f'[ship]\nto = "{place.to}"\npiece_seconds = 0.05\n{place.lines}')
    broker.options = ("--config", str(settings))
    broker.start()
    yield broker
    broker.discard()
