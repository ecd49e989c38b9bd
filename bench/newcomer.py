"""What a newcomer waits for: from a clone to a broker, a first message and a Celery result, by README's own commands.

    python -m bench.newcomer

In an empty home, without the variables of this shell, and with a PATH that has git, make, a shell and Python, and
neither a compiler nor Java. pip has no cache, and finds its packages where this machine does. Port 5672 has to be free.
Prints one line of JSON; a command that fails ends it with that command's output.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from harness.project import ROOT

PROGRAMS = (
    *(
        "git",
        "make",
        "sh",
        "bash",
        "env",
        "cat",
        "cp",
        "rm",
        "mv",
        "ln",
        "mkdir",
        "chmod",
        "touch",
        "mktemp",
        "dirname",
    ),
    *("basename", "uname", "nproc", "sed", "grep", "head", "tr", "sort", "test", "sleep", "id", "ls"),
)
SECONDS = 300
STOP_SECONDS = 20


class Newcomer(NamedTuple):
    """A user with an empty home, and the environment that its commands run in."""

    home: Path
    environment: Mapping[str, str]

    def start(self, command: str, directory: Path, log: Path) -> subprocess.Popen[bytes]:
        """Begin a command of the shell, with its output in a file."""
        with log.open("wb") as output:
            return subprocess.Popen(
                ["sh", "-c", f"exec {command}"],
                cwd=directory,
                env=self.environment,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def run(self, command: str, directory: Path) -> str:
        """Run a command to its end. Raises SystemExit with its output when it fails."""
        log = self.home / "command.log"
        code = self.start(command, directory, log).wait(SECONDS)
        if code:
            raise SystemExit(f"{command}: exit code {code}\n{log.read_text(errors='replace')}")
        return log.read_text()


@contextmanager
def newcomer() -> Iterator[Newcomer]:
    """A user with nothing, for as long as this is entered."""
    with tempfile.TemporaryDirectory(prefix="newcomer-") as name:
        home, programs = Path(name) / "home", Path(name) / "bin"
        home.mkdir()
        programs.mkdir()
        for program in PROGRAMS:
            found = shutil.which(program)
            assert found is not None, f"{program} is missing"
            (programs / program).symlink_to(found)
        (programs / "python3").symlink_to(Path(sys.base_prefix) / "bin" / "python3")
        pip = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_"))}
        yield Newcomer(
            home, {"HOME": str(home), "PATH": str(programs), "LANG": "C.UTF-8", "PIP_NO_CACHE_DIR": "1", **pip}
        )


def readme_block(start: str) -> str:
    """The block of README that begins so."""
    blocks: list[str] = re.findall(
        r"^```\w+\n(.*?)^```$", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    return next(block for block in blocks if block.startswith(start))


@contextmanager
def running(user: Newcomer, command: str, directory: Path, says: str) -> Iterator[None]:
    """A program that runs until this is left. Entered when it has printed `says`; raises SystemExit if it does not."""
    log = user.home / f"{Path(command.split()[0]).name}.log"
    process, until = user.start(command, directory, log), time.monotonic() + SECONDS
    try:
        while says not in log.read_text(errors="replace"):
            if process.poll() is not None or time.monotonic() > until:
                raise SystemExit(f"{command}: not ready\n{log.read_text(errors='replace')}")
            time.sleep(0.01)
        yield
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        process.wait(STOP_SECONDS)


def measure(user: Newcomer) -> dict[str, float]:
    """Seconds since the clone began: to the ready line, to the first message, to the first Celery result."""
    began, took = time.monotonic(), dict[str, float]()
    checkout, application = user.home / "leveret", user.home / "application"
    subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(checkout)], check=True)
    application.mkdir()
    with running(user, readme_block("make run").split("#")[0].strip(), checkout, "leveret ready:"):
        took["ready_s"] = time.monotonic() - began
        user.run("python3 -m venv .venv", application)
        user.run(".venv/bin/pip install --quiet pika", application)
        (application / "first.py").write_text(readme_block("import pika"))
        assert user.run(".venv/bin/python first.py", application) == "b'hello'\n"
        took["first_message_s"] = time.monotonic() - began
        user.run(".venv/bin/pip install --quiet celery", application)
        (application / "tasks.py").write_text(readme_block("from celery"))
        with running(user, ".venv/bin/celery --app tasks worker", application, "[queues]"):
            asked = ".venv/bin/python -c 'from tasks import add; print(add.delay(2, 3).get(timeout=60))'"
            assert user.run(asked, application) == "5\n"
        took["celery_result_s"] = time.monotonic() - began
    return {name: round(seconds, 1) for name, seconds in took.items()}


if __name__ == "__main__":
    with newcomer() as user:
        print(json.dumps(measure(user)))
