"""A root directory as in a new container: a shell and its tools, and what a newcomer brings along.

Nothing else of this machine is in it: no compiler, no headers, no home but an empty one. It is read-only but for that
home and /tmp, and made of read-only binds in mounts and process numbers of its own (unshare), so that all of it ends
with its first process. The network is the machine's.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from bench.newcomer.kits import Kit

PROGRAMS = (
    *("sh", "bash", "env", "cat", "cp", "rm", "mv", "ln", "mkdir", "chmod", "touch", "mktemp", "ls", "tar", "xz"),
    *("dirname", "basename", "uname", "nproc", "sed", "grep", "head", "tr", "sort", "test", "sleep", "id"),
)
"""All that is in /usr/bin, but for a kit's."""
LIBRARIES = (
    *(f"/usr/lib/{sysconfig.get_config_var('MULTIARCH')}", "/usr/lib64"),
    *("/usr/lib/ssl", "/etc/ssl", "/etc/pki", "/usr/share/zoneinfo"),
)
"""Those of Debian and of Fedora: what is there is bound."""
FILES_OF_ETC = ("resolv.conf", "hosts", "nsswitch.conf", "ld.so.cache", "localtime")
DEVICES = ("null", "zero", "full", "random", "urandom")
PASSED = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR")
"""Other variables of the environment that say how a package index is reached."""

USER = 1000
HOME = Path("/home", "newcomer")
TOOLS = Path("/srv")
"""Directory of the program that plays the newcomer, and of its clone."""


class NoNamespacesError(Exception):
    """The machine does not let this process have a root directory of its own."""


class BareRoot(NamedTuple):
    """The root directory of a user who has an empty home."""

    scratch: Path
    binds: Mapping[Path, Path]
    """Directories and files of the machine by where they are in it, read-only."""
    environment: Mapping[str, str]

    @property
    def path(self) -> Path:
        return self.scratch / "root"

    def run(self, command: Sequence[str], *, seconds: float) -> str:
        """Run a command in it, in TOOLS, as its user; what it printed. Its errors go where this process's go.

        Raises CalledProcessError; TimeoutExpired when all of it had to be killed.
        """
        script = self._mounts() + shlex.join(["exec", *_become(self.path), *command])
        return subprocess.run(
            [*_unshare(), "sh", "-euc", script],
            env=self.environment,
            stdout=subprocess.PIPE,
            text=True,
            timeout=seconds,
            check=True,
        ).stdout

    def _mounts(self) -> str:
        """The commands that put it together: it is made read-only first, then the rest is bound in it."""
        root = self.path
        lines = [["mount", "-o", "bind,ro", str(root), str(root)]]
        lines += [["mount", "-o", "bind,ro", str(ours), f"{root}{place}"] for place, ours in self.binds.items()]
        lines += [["mount", "--bind", f"/dev/{name}", f"{root}/dev/{name}"] for name in DEVICES]
        lines += [
            ["mount", "--bind", str(self.scratch / name), f"{root}{place}"]
            for name, place in (("home", HOME), ("tmp", "/tmp"))
        ]
        lines += [
            ["mount", "-t", "tmpfs", "-o", "mode=1777", "shm", f"{root}/dev/shm"],
            ["mount", "-t", "proc", "proc", f"{root}/proc"],
        ]
        return "".join(f"{shlex.join(line)}\n" for line in lines)


def _unshare() -> list[str]:
    """Gives a command mounts and process numbers of its own; users, too, to one that is not root and so may mount."""
    users = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    return ["unshare", *users, "--mount", "--pid", "--fork", "--kill-child"]


def _become(root: Path) -> list[str]:
    """Runs a command in a root directory as its user."""
    if os.geteuid() == 0:
        user = [f"--setuid={USER}", f"--setgid={USER}"]
    else:
        user = ["--user", f"--map-user={USER}", f"--map-group={USER}"]
    return ["unshare", *user, f"--root={root}", f"--wd={TOOLS}"]


@contextmanager
def bare_root(kit: Kit, tools: Mapping[str, Path]) -> Iterator[BareRoot]:
    """Make one for as long as this is entered, with files of this machine below TOOLS. Raises NoNamespacesError."""
    _ask_for_namespaces()
    paths = {path for path in (*map(Path, LIBRARIES), *kit.paths) if path.exists()}
    binds = {path: path for path in sorted(paths)} | {TOOLS / name: path for name, path in tools.items()}
    with tempfile.TemporaryDirectory(prefix="newcomer-") as scratch:
        root = BareRoot(Path(scratch), binds, _environment(kit))
        with readable_by_others():
            _furnish(root, kit)
        yield root


@contextmanager
def readable_by_others() -> Iterator[None]:
    """Have the files that are made meanwhile readable by the newcomer, who is another user."""
    umask = os.umask(0o022)
    try:
        yield
    finally:
        os.umask(umask)


def _ask_for_namespaces() -> None:
    try:
        subprocess.run([*_unshare(), "true"], check=True, capture_output=True, text=True)
    except FileNotFoundError:
        raise NoNamespacesError("there is no unshare (util-linux) on this machine") from None
    except subprocess.CalledProcessError as error:
        raise NoNamespacesError(f"run as root, or allow namespaces to users: {error.stderr.strip()}") from error


def _environment(kit: Kit) -> dict[str, str]:
    """The variables of the user."""
    passed = {name: value for name, value in os.environ.items() if name.upper() in PASSED}
    return {"HOME": str(HOME), "PATH": "/usr/bin", "LANG": "C.UTF-8", **passed, **kit.variables}


def _furnish(root: BareRoot, kit: Kit) -> None:
    """Make the directories and files that a root has, and where others are bound."""
    for directory in ("usr/bin", "etc", "dev/shm", "proc", HOME.relative_to("/"), "tmp"):
        (root.path / directory).mkdir(parents=True)
    for link in ("bin", "lib", "lib64"):
        (root.path / link).symlink_to(f"usr/{link}")
    programs = {program: Path("/usr/bin", program) for program in PROGRAMS} | kit.programs
    for name, program in programs.items():
        if any(program.is_relative_to(path) for path in kit.paths):
            (root.path / "usr/bin" / name).symlink_to(program)
        else:
            shutil.copy(program, root.path / "usr/bin" / name)
    for name in FILES_OF_ETC:
        with suppress(FileNotFoundError):
            shutil.copy(Path("/etc") / name, root.path / "etc" / name)
    (root.path / "etc/passwd").write_text(f"root:x:0:0::/:/bin/sh\nnewcomer:x:{USER}:{USER}::{HOME}:/bin/sh\n")
    (root.path / "etc/group").write_text(f"root:x:0:\nnewcomer:x:{USER}:\n")
    for place, ours in root.binds.items():
        _place(root.path / place.relative_to("/"), directory=ours.is_dir())
    for device in DEVICES:
        _place(root.path / "dev" / device, directory=False)
    for name in ("home", "tmp"):
        (root.scratch / name).mkdir()
        if os.geteuid() == 0:
            os.chown(root.scratch / name, USER, USER)


def _place(path: Path, *, directory: bool) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if directory:
        path.mkdir(exist_ok=True)
    else:
        path.touch()
