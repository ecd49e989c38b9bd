"""`python -m tools.try_image [--core pure] BASE DIRECTORY`: make the image's root directory without docker, and try it.

As root. BASE is the root directory of a Debian with Python, its headers, pip and venv, in the place of python:slim:
`make check-image` makes one. DIRECTORY gets a root directory for each stage of the Dockerfile. The container has
processes and a network of its own; its entry point, user and health check are the Dockerfile's.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.project import ROOT
from harness.waiting import eventually
from tools.image_stages import Roots, Stage, read
from tools.try_single import in_root

READY = "Server startup complete"
NETWORK = 'ip link set lo up; exec "$@"'
SECONDS = 60


class Container:
    """A container's first process, and commands beside it."""

    def __init__(self, root: Path, image: Stage, log: Path) -> None:
        self.root, self.image, self.log, self.first = root, image, log, 0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run the entry point until this is left, from the log line that says that it is ready. It ends by SIGTERM,
        with exit code 0, or this fails."""
        command = [*json.loads(self.image.last("ENTRYPOINT")), *json.loads(self.image.last("CMD"))]
        inside = in_root(self.root, {}, *command, user=self.image.last("USER"))
        spaces = ["unshare", "--pid", "--net", "--fork", "--kill-child", "sh", "-euc", NETWORK, "sh"]
        with self.log.open("wb") as log:
            started = subprocess.Popen(
                [*spaces, *inside], env=self.image.variables(), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        try:
            eventually(lambda: READY in self.text() or started.poll() is not None, "the container to be ready")
            assert started.poll() is None, self.text()
            self.first = int(Path(f"/proc/{started.pid}/task/{started.pid}/children").read_text())
            yield
            os.kill(self.first, signal.SIGTERM)
            code = started.wait(SECONDS)
            assert code == 0, f"exit code {code} after SIGTERM\n{self.text()}"
        finally:
            started.kill()
            started.wait()

    def text(self) -> str:
        """Return its log."""
        return self.log.read_text(errors="replace")

    def run(self, *command: str) -> str:
        """Return what a command in the container printed, as by `docker exec`. Raises CalledProcessError."""
        spaces = ["nsenter", f"--target={self.first}", "--mount", "--pid", "--net", "--root", "--wdns=/"]
        user, _, group = self.image.last("USER").partition(":")
        return subprocess.run(
            [*spaces, f"--setuid={user}", f"--setgid={group}", *command],
            env=self.image.variables(),
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            timeout=SECONDS,
        ).stdout


def main() -> None:
    """Ends with a traceback at the first thing that does not work."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--core", choices=("compiled", "pure"), default="compiled")
    parser.add_argument("base", type=Path)
    parser.add_argument("directory", type=Path)
    wanted = parser.parse_args()
    base, directory = wanted.base.absolute(), wanted.directory.absolute()
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    python = base / "usr/local/bin/python"
    if not python.is_symlink():
        python.symlink_to("/usr/bin/python3")
    stages = read(ROOT / "Dockerfile", {"CORE": wanted.core})
    root = Roots(ROOT, stages, base, directory).root("image")
    with tempfile.TemporaryDirectory(prefix="leveret-image-") as scratch:
        _try(Container(root, stages["image"], Path(scratch, "log")), wanted.core)
    sizes = (path.lstat().st_size for path in (root / "opt/leveret").rglob("*") if path.is_file())
    print(f"{root}: a container with a {wanted.core} core keeps a message; {sum(sizes) / 1e6:.1f} MB in /opt/leveret")


def _try(container: Container, core: str) -> None:
    """Get a message from the second container that the first one has confirmed, by RabbitMQ's names of commands too."""
    healthcheck = shlex.split(container.image.last("HEALTHCHECK").rpartition("CMD ")[2].strip('[]"'))
    with container.running():
        container.run(*healthcheck)
        assert core in container.run("leveret", "status")
        container.run("leveret", "publish", "kept", "hello", "--declare")
    with container.running():
        assert "kept\t1" in container.run("rabbitmqctl", "list_queues"), container.text()
        assert container.run("leveret", "get", "kept") == "hello\n"
        assert subprocess.run(["chroot", container.root, "sh", "-c", "command -v gcc"], check=False).returncode


if __name__ == "__main__":
    main()
