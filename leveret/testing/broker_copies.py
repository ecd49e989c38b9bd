"""Brokers that are copies (fork) of one process which has loaded the program: to load it takes most of a start."""

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
from leveret.testing.testing_errors import LeveretError

IGNORED = ("LEVERET_", "RABBITMQ_", "PYTHONDONTWRITEBYTECODE")
PROGRAM = "from leveret.__main__ import template; template()"


def environment() -> dict[str, str]:
    """For a broker that obeys its options alone, and is of the Leveret that is imported here, installed or not.

    Its modules are compiled once, whatever the tests have set: to compile them takes as long as two starts.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith(IGNORED)}
    place = str(Path(leveret.__file__).resolve().parent.parent)
    if place not in site.getsitepackages():
        kept["PYTHONPATH"] = os.pathsep.join([place, *filter(None, [kept.get("PYTHONPATH")])])
    return kept


class Copy:
    """One of them, with what is used of a `subprocess.Popen`."""

    def __init__(self, stdout: IO[str], report: IO[str]) -> None:
        self.stdout = stdout
        self._report = report
        self._code: int | None = None
        first = report.readline()
        if not first:
            raise LeveretError("the process of which brokers are copies has ended")
        self.pid = int(first)

    def poll(self) -> int | None:
        """Its exit code, if it has ended: -9 when it was killed."""
        return self._ended(0)

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code, once it has ended. Raises subprocess.TimeoutExpired."""
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
    """The process that copies are made of. It ends with this one, and all copies with it."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._owner = os.getpid()
        self._asking, asked = socket.socketpair()
        self._turn = Lock()
        with asked:
            self._template = subprocess.Popen(
                [sys.executable, "-P", "-c", PROGRAM, str(asked.fileno())],
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[asked.fileno()],
                process_group=0,  # ^C at the terminal ends the tests, which then end it
            )

    def start(
        self, arguments: Sequence[str], environment: Mapping[str, str], log: int, directory: Path | None = None
    ) -> Copy:
        """Have one more run a command line; `log` is the descriptor of its standard error. Raises LeveretError."""
        request = {"arguments": arguments, "environment": dict(environment), "directory": str(directory or Path.cwd())}
        message = json.dumps(request).encode() + b"\n"
        (output, theirs), (report, reporting) = os.pipe(), os.pipe()
        try:
            with self._turn:
                sent = socket.send_fds(self._asking, [message], [theirs, log, reporting])
                self._asking.sendall(message[sent:])
        except OSError:
            pass  # the copy's report has the end of it
        finally:
            os.close(theirs)
            os.close(reporting)
        return Copy(os.fdopen(output), os.fdopen(report))

    def close(self) -> None:
        """Kill all copies, unless this is a process that was forked from the tests'."""
        if os.getpid() == self._owner:
            with suppress(OSError):  # its end may be closed already
                self._asking.shutdown(socket.SHUT_RDWR)  # a forked process may have the socket as well
            self._template.wait()
        self._asking.close()


@cache
def copies_of(pid: int) -> Copies:
    """Those of this process, whose number it is: one that is forked has others."""
    copies = Copies(environment())
    atexit.register(copies.close)
    return copies
