"""Stores, and places to ship them to: a directory, and a server of each kind."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from harness.second_places import s3_server as s3
from harness.second_places import ssh_server as ssh
from storage.ship.targets.directory_target import DirectoryTarget
from storage.ship.targets.opened_target import TargetAccess, open_target
from storage.ship.targets.ship_target import ShipTarget


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


@pytest.fixture
def away(tmp_path: Path) -> Path:
    (tmp_path / "away").mkdir()
    return tmp_path / "away"


@pytest.fixture
def away_target(away: Path) -> DirectoryTarget:
    return DirectoryTarget(away)


@pytest.fixture(scope="package")
def ssh_server() -> Iterator[ssh.SshServer]:
    if ssh.SSHD is None:
        pytest.skip(ssh.MISSING)
    with ssh.ssh_server() as server:
        yield server


@pytest.fixture(scope="package")
def plain_ssh_server() -> Iterator[ssh.SshServer]:
    """A server without the extensions of OpenSSH's."""
    if ssh.SSHD is None:
        pytest.skip(ssh.MISSING)
    with ssh.ssh_server("-P hardlink,fsync") as server:
        yield server


@pytest.fixture(scope="package")
def s3_server() -> Iterator[s3.S3Server]:
    if s3.WEED is None:
        pytest.skip(s3.MISSING)
    with s3.s3_server() as server:
        yield server


@pytest.fixture(params=["directory", "ssh_server", "plain_ssh_server", "s3_server"])
def target(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ShipTarget]:
    """A target with nothing in it."""
    place, access = str(tmp_path), TargetAccess()
    if request.param != "directory":
        server, name = request.getfixturevalue(request.param), secrets.token_hex(4)
        place = f"{server.place}/{name}"
        access = _access(server, name, monkeypatch)
    with closing(open_target(place, access)) as opened:
        yield opened


def _access(server: ssh.SshServer | s3.S3Server, name: str, monkeypatch: pytest.MonkeyPatch) -> TargetAccess:
    if isinstance(server, ssh.SshServer):
        server.make(server.away / name)
        return TargetAccess(sftp_key=str(server.key), sftp_known_hosts=str(server.known_hosts))
    for variable, value in server.environment.items():
        monkeypatch.setenv(variable, value)
    return TargetAccess(s3_endpoint=server.endpoint)
