"""Places: which target each is, and what is said of one that cannot be used."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import asyncssh
import pytest

from harness.second_places import ssh_server as ssh
from harness.second_places.s3_server import S3Server
from harness.second_places.ssh_server import SshServer
from storage.ship.targets.opened_target import PlaceUnusable, TargetAccess, open_target
from storage.ship.targets.overwriting import PROBE, refuse_overwriting
from storage.ship.targets.ship_target import ShipTarget, TargetError

SECRET = "hunter2"


@pytest.mark.parametrize(
    ("place", "named"),
    [
        ("/mnt/other/", "/mnt/other"),
        ("sftp://nas/backup", "sftp://nas/backup"),
        ("sftp://me@[::1]:2222/~/backup%20of", "sftp://me@[::1]:2222/backup of"),
        ("s3://bucket", "s3://bucket"),
        ("s3://bucket/a/b/", "s3://bucket/a/b"),
    ],
)
def test_a_place_names_a_target(place: str, named: str) -> None:
    with closing(open_target(place)) as target:
        assert str(target) == named


@pytest.mark.parametrize(
    ("place", "problem"),
    [
        ("http://nas/backup", "expected a directory, sftp://USER@HOST/PATH or s3://BUCKET/PREFIX, not http://"),
        (f"sftp://me:{SECRET}@nas/backup", "use a key of SSH"),
        (f"s3://id:{SECRET}@bucket/a", "put them into the environment"),
        ("sftp://nas", "the directory on it, is missing"),
        ("sftp://nas:port/backup", "Port could not be cast"),
        ("s3:///a", "the bucket is missing"),
    ],
)
def test_a_place_that_is_none_is_refused_without_its_secrets(place: str, problem: str) -> None:
    with pytest.raises(PlaceUnusable) as refused:
        open_target(place)
    assert problem in str(refused.value)
    assert SECRET not in str(refused.value)


def test_an_endpoint_has_a_scheme(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(PlaceUnusable, match="http://HOST:PORT"):
        open_target("s3://bucket", TargetAccess(s3_endpoint="127.0.0.1:9000"))
    monkeypatch.setenv("AWS_ENDPOINT_URL", "127.0.0.1:9000")
    with pytest.raises(PlaceUnusable, match="http://HOST:PORT"):
        open_target("s3://bucket")


@pytest.mark.parametrize(
    ("place", "module", "library"),
    [("sftp://nas/backup", "sftp_target", "asyncssh"), ("s3://bucket", "s3_target", "obstore")],
)
def test_a_missing_library_is_named_with_its_command(
    place: str, module: str, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, f"storage.ship.targets.{module}", raising=False)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(PlaceUnusable, match=rf"{library} is missing: `.* install 'leveret\[{place.split(':')[0]}\]'`"):
        open_target(place)


def test_a_server_that_overwrites_is_refused() -> None:
    names: list[str] = []

    def create(name: str) -> bool:
        names.append(name)
        return True

    with pytest.raises(TargetError, match="two brokers could own it"):
        refuse_overwriting(create)
    refuse_overwriting(lambda name: name not in names)
    assert names == [PROBE] * 2


@pytest.fixture
def own_ssh_server() -> Iterator[SshServer]:
    if ssh.SSHD is None:
        pytest.skip(ssh.MISSING)
    with ssh.ssh_server() as server:
        yield server


def _opened(server: SshServer, place: str = "", **access: str) -> ShipTarget:
    files = {"sftp_key": str(server.key), "sftp_known_hosts": str(server.known_hosts)}
    return open_target(place or server.place, TargetAccess(**(files | access)))


def test_a_server_that_was_gone_is_used_again(own_ssh_server: SshServer) -> None:
    with closing(_opened(own_ssh_server)) as target:
        target.begin("chain")
        own_ssh_server.kill()
        for _ in range(2):
            with pytest.raises(TargetError, match="Connect"):
                target.put("chain", "1", (b"once",))
        own_ssh_server.start()
        target.put("chain", "1", (b"once",))
        assert target.get("chain", "1") == b"once"


def test_keys_of_ssh_are_checked_on_both_sides(ssh_server: SshServer, tmp_path: Path) -> None:
    (tmp_path / "known").touch()
    with closing(_opened(ssh_server, sftp_known_hosts=str(tmp_path / "known"))) as target:
        with pytest.raises(TargetError, match=rf"host key of 127.0.0.1 is not in {tmp_path}/known"):
            target.chains()
    asyncssh.generate_private_key("ssh-ed25519").write_private_key(tmp_path / "other")
    with closing(_opened(ssh_server, sftp_key=str(tmp_path / "other"))) as target:
        with pytest.raises(TargetError, match="none of its keys"):
            target.chains()


def test_a_directory_that_is_not_mounted_is_missed(ssh_server: SshServer) -> None:
    with closing(_opened(ssh_server, f"{ssh_server.place}/absent")) as target:
        for use in (lambda: target.begin("chain"), lambda: target.names("chain"), target.chains):
            with pytest.raises(TargetError, match=r"there is no directory .*/absent"):
                use()


def test_a_server_of_s3_says_why_not(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    access = TargetAccess(s3_endpoint=s3_server.endpoint)
    other = open_target("s3://another-bucket", access)
    for use in (lambda: other.begin("chain"), lambda: other.get("chain", "1"), other.chains):
        with pytest.raises(TargetError, match="AccessDenied"):
            use()
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    with pytest.raises(TargetError, match="SignatureDoesNotMatch") as refused:
        open_target(s3_server.place, access).chains()
    assert SECRET not in str(refused.value)
    with pytest.raises(TargetError, match=r"^HTTP error: error sending request \(Connection refused\)$"):
        open_target(s3_server.place, TargetAccess(s3_endpoint="http://127.0.0.1:1")).chains()
