"""Servers to ship to, one of each kind for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.second_places import s3_server as s3
from harness.second_places import ssh_server as ssh


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
