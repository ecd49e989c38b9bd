"""Brokers that are forked from one process with the program loaded: loading takes most of a start."""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import site
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from threading import Lock
from typing import IO

import leveret
from leveret.own_program import TEMPLATE, program
from leveret.testing.testing_errors import LeveretError

IGNORED = ("LEVERET_", "RABBITMQ_", "PYTHONDONTWRITEBYTECODE")
FORKS = sys.platform == "linux"
"""Brokers are forked. On macOS a process whose system libraries are loaded may not go on after a fork."""


def environment() -> dict[str, str]:
    """Return the environment of a broker: no variables for settings, and the Leveret that is imported here.

    Its bytecode is cached whatever the tests have set: compiling the modules takes as long as two starts.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith(IGNORED)}
    place = str(Path(leveret.__file__).resolve().parent.parent)
    if place not in site.getsitepackages():
        kept["PYTHONPATH"] = os.pathsep.join([place, *filter(None, [kept.get("PYTHONPATH")])])
    return kept


class Copy:
    """A forked broker, with the interface of `subprocess.Popen` that is used."""

    def __init__(self, stdout: IO[str], report: IO[str]) -> None:
        self.stdout = stdout
        self._report = report
        self._code: int | None = None
        first = report.readline()
        if not first:
            raise LeveretError("the process of which brokers are copies has ended")
        self.pid = int(first)

    def poll(self) -> int | None:
        """Return its exit code, -9 if it was killed; None while it runs."""
        return self._ended(0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end and return the exit code. Raises subprocess.TimeoutExpired."""
        code = self._ended(timeout)
        if code is None:
            raise subprocess.TimeoutExpired("leveret serve", timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it has ended since
                os.kill(self.pid, number)

    def _ended(self, seconds: float | None) -> int | None:
        if self._code is None and select.select([self._report], [], [], seconds)[0]:
            self._code = int(self._report.readline() or -signal.SIGKILL)
            self._report.close()
        return self._code


class Copies:
    """The process from which copies are forked. It ends with this process, and all copies with it."""

    def __init__(self, environment: Mapping[str, str], command: Sequence[str] = ()) -> None:
        """Start the process; `command` is Leveret's own by default. It gets the descriptor of its socket."""
        self._owner = os.getpid()
        self._asking, asked = socket.socketpair()
        self._turn = Lock()
        with asked:
            self._template = subprocess.Popen(
                [*(command or (*program(), TEMPLATE)), str(asked.fileno())],
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[asked.fileno()],
                process_group=0,  # ^C at the terminal ends the tests, which then end it
            )

    def start(
        self, arguments: Sequence[str], environment: Mapping[str, str], log: int, directory: Path | None = None
    ) -> Copy:
        """Fork a copy that runs a command line; `log` is the descriptor of its standard error. Raises LeveretError."""
        request = {"arguments": arguments, "environment": dict(environment), "directory": str(directory or Path.cwd())}
        message = json.dumps(request).encode() + b"\n"
        (output, theirs), (report, reporting) = os.pipe(), os.pipe()
        try:
            with self._turn:
                sent = socket.send_fds(self._asking, [message], [theirs, log, reporting])
                self._asking.sendall(message[sent:])
        except OSError:
            pass  # the end of the copy is reported by its exit code
        finally:
            os.close(theirs)
            os.close(reporting)
        return Copy(os.fdopen(output), os.fdopen(report))

    def close(self) -> None:
        """Kill all copies, unless this process was forked from that of the tests."""
        if os.getpid() == self._owner:
            with suppress(OSError):  # its end may be closed already
                self._asking.shutdown(socket.SHUT_RDWR)  # a forked process may have the socket as well
            self._template.wait()
        self._asking.close()


@cache
def copies_of(pid: int) -> Copies:
    """Return the copies of the process `pid`, which is this one: a forked process gets copies of its own."""
    copies = Copies(environment())
    atexit.register(copies.close)
    return copies
