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

import asyncssh
import psutil

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
Subsystem sftp internal-sftp {options}
"""


class SshServer:
    """A server with its files in a directory; `away` is the one to ship to."""

    def __init__(self, directory: Path, options: str) -> None:
        user = WITHOUT_RIGHTS if os.geteuid() == 0 else getpass.getuser()
        self._owner = pwd.getpwnam(user)
        self._port = _free_port()
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        self.away, self.key, self.known_hosts = (directory / name for name in ("away", "key", "known_hosts"))
        self.place = f"sftp://{user}@127.0.0.1:{self._port}{self.away}"
        self.make(self.away)
        self._write_keys()
        # A checkout may be closed to the server's user, as temporary directories are.
        self._program = shutil.copy(str(SSHD), directory)
        (directory / "sshd_config").write_text(_CONFIG.format(port=self._port, directory=directory, options=options))
        for path in (directory, *directory.iterdir()):
            os.chown(path, self._owner.pw_uid, self._owner.pw_gid)

    def make(self, directory: Path) -> None:
        """Make a directory that the server may write to."""
        directory.mkdir()
        os.chown(directory, self._owner.pw_uid, self._owner.pw_gid)

    def start(self) -> None:
        """Start it; it listens."""
        identity = {"user": self._owner.pw_uid, "group": self._owner.pw_gid, "extra_groups": []}
        command = [self._program, "-D", "-e", "-f", str(self._directory / "sshd_config")]
        with (self._directory / "log").open("ab") as log:
            process = subprocess.Popen(command, stderr=log, **(identity if os.geteuid() == 0 else {}))
        self._process = process
        eventually(lambda: self._listens(process), "the SSH server to listen", seconds=SECONDS)

    def kill(self) -> None:
        """Kill it, with its connections."""
        if self._process is not None:
            for each in psutil.Process(self._process.pid).children(recursive=True):
                each.kill()
            self._process.kill()
            self._process.wait()
            self._process = None

    def _write_keys(self) -> None:
        host_key = self._directory / "host_key"
        for path in (self.key, host_key):
            made = asyncssh.generate_private_key("ssh-ed25519")
            made.write_private_key(path)
            made.write_public_key(path.with_suffix(".pub"))
            path.chmod(0o600)
        shutil.copy(self.key.with_suffix(".pub"), self._directory / "authorized_keys")
        self.known_hosts.write_text(f"[127.0.0.1]:{self._port} {host_key.with_suffix('.pub').read_text()}")

    def _listens(self, process: subprocess.Popen[bytes]) -> bool:
        assert process.poll() is None, f"the SSH server has ended: {(self._directory / 'log').read_text()}"
        with suppress(OSError):
            socket.create_connection(("127.0.0.1", self._port)).close()
            return True
        return False


@contextmanager
def ssh_server(options: str = "") -> Iterator[SshServer]:
    """Run a server, and give it up with its directory. `options`: those of `sftp-server`."""
    # Temporary directories of pytest are closed to other users.
    directory = Path(tempfile.mkdtemp(prefix="leveret-ssh."))
    try:
        server = SshServer(directory, options)
        server.start()
        try:
            yield server
        finally:
            server.kill()
    finally:
        shutil.rmtree(directory)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])
