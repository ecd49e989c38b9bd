"""OpenSSH's server with SFTP for one directory, run by a user without rights."""

from __future__ import annotations

import getpass
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import asyncssh

from harness.project import ROOT
from harness.waiting import eventually

SECONDS = 30.0
WITHOUT_RIGHTS = "daemon"
"""The user of the server where tests run as root: as root itself it would need a user of its own."""
_PATHS = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"))
SSHD = shutil.which("sshd", path=_PATHS) or shutil.which("sshd", path=ROOT / "build/ssh-server/usr/sbin")
"""The machine's, or the one that `make build/ssh-server` puts here; None without both."""
MISSING = "no sshd is installed, and `make build/ssh-server` has found none"

_CONFIG = """\
ListenAddress 127.0.0.1:{port}
HostKey {directory}/host_key
AuthorizedKeysFile {directory}/authorized_keys
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
Subsystem sftp internal-sftp
"""


class SshServer(NamedTuple):
    """A server that runs. `directory` is the one that it is for, on this disk; `key` and `known_hosts` are files."""

    directory: Path
    place: str
    key: Path
    known_hosts: Path
    sessions: Path
    """The log of the server."""


@contextmanager
def ssh_server() -> Iterator[SshServer]:
    """Run a server, and give it up with its directory."""
    user = WITHOUT_RIGHTS if os.geteuid() == 0 else getpass.getuser()
    # Temporary directories of pytest are closed to other users.
    directory = Path(tempfile.mkdtemp(prefix="leveret-ssh."))
    try:
        with _running(directory, user) as server:
            yield server
    finally:
        shutil.rmtree(directory)


@contextmanager
def _running(directory: Path, user: str) -> Iterator[SshServer]:
    port = _free_port()
    server = _files(directory, user, port)
    owner = pwd.getpwnam(user)
    for path in (directory, *directory.iterdir()):
        os.chown(path, owner.pw_uid, owner.pw_gid)
    identity = {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []} if os.geteuid() == 0 else {}
    command = [str(SSHD), "-D", "-e", "-f", str(directory / "sshd_config")]
    with server.sessions.open("wb") as log, subprocess.Popen(command, stderr=log, **identity) as process:
        try:
            eventually(lambda: _listens(process, port), "the SSH server to listen", seconds=SECONDS)
            yield server
        finally:
            process.terminate()


def _files(directory: Path, user: str, port: int) -> SshServer:
    away, key, host_key = directory / "away", directory / "key", directory / "host_key"
    away.mkdir()
    for path in (key, host_key):
        made = asyncssh.generate_private_key("ssh-ed25519")
        made.write_private_key(path)
        made.write_public_key(path.with_suffix(".pub"))
        path.chmod(0o600)
    shutil.copy(key.with_suffix(".pub"), directory / "authorized_keys")
    known_hosts = directory / "known_hosts"
    known_hosts.write_text(f"[127.0.0.1]:{port} {host_key.with_suffix('.pub').read_text()}")
    (directory / "sshd_config").write_text(_CONFIG.format(port=port, directory=directory))
    place = f"sftp://{user}@127.0.0.1:{port}{away}"
    return SshServer(away, place, key, known_hosts, directory / "sshd.log")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def _listens(process: subprocess.Popen[bytes], port: int) -> bool:
    assert process.poll() is None, "the SSH server has ended"
    with suppress(OSError):
        socket.create_connection(("127.0.0.1", port)).close()
        return True
    return False
