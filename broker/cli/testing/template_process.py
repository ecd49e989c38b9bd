"""The process of which brokers for tests are copies (fork): it has loaded the program, which is most of a start.

It has one thread, and is asked by `leveret.testing.broker_copies` through a socket.
When that is closed, because the tests have ended in whatever way, it kills all copies.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import select
import signal
import socket
import sys
import threading
from collections.abc import Callable
from importlib import import_module
from typing import Any, NoReturn

import msgspec

from broker.cli.main import main
from broker.config import Config

LOADED = (
    "broker.cli.serve_command",
    "broker.server.serve",
    "broker.testing.control",
    "broker.server.http.http_services",
    "encodings.idna",  # for the first address
)


def run(descriptor: int, begin: Callable[[list[str]], object] = main) -> None:
    """Make copies until nobody asks for more by this socket. Each runs its command line by `begin`."""
    asking = socket.socket(fileno=descriptor)
    woken, waker = socket.socketpair()
    for end in (woken, waker):
        end.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(waker.fileno())
    _load()
    reports: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([asking, woken], [], [])
        if woken in ready:
            woken.recv(1 << 10)
            _report_ends(reports)
        if asking in ready:
            request, descriptors = _received(asking)
            if not request:
                return _kill(reports)
            if not (pid := os.fork()):
                for end in (asking, woken, waker):
                    end.close()
                for report in reports.values():
                    os.close(report)
                _become(begin, request, *descriptors)
            *others, report = descriptors
            for descriptor in others:
                os.close(descriptor)
            os.write(report, b"%d\n" % pid)
            reports[pid] = report


def _load() -> None:
    gc.disable()  # what is loaded stays: looking for cycles in it takes a tenth of the time
    for name in LOADED:
        import_module(name)
    msgspec.convert({}, Config)  # the first time it reads the types of all settings
    gc.freeze()  # copies share this memory as long as nothing is written to it


def _received(asking: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Return the request of a copy, and its descriptors; nothing at the end of the stream."""
    data, descriptors, _, _ = socket.recv_fds(asking, 1 << 16, 3)
    while data and not data.endswith(b"\n"):
        data += asking.recv(1 << 16)
    return json.loads(data or b"{}"), descriptors


def _become(
    begin: Callable[[list[str]], object], request: dict[str, Any], output: int, log: int, report: int
) -> NoReturn:
    """Run a command line as a process that was started for it would."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.dup2(output, 1)
    os.dup2(log, 2)
    for descriptor in (output, log, report):
        os.close(descriptor)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", closefd=False, buffering=1, errors="backslashreplace")
    os.setpgid(0, 0)
    os.chdir(request["directory"])
    os.environ.clear()
    os.environ.update(request["environment"])
    gc.enable()
    try:
        begin(request["arguments"])
        _end(0)
    except SystemExit as ended:
        _end(ended.code)


def _end(code: str | int | None) -> NoReturn:
    """End as `sys.exit` does, but leave the modules to the system, as the standard library does with processes that it
    forks. To take them apart takes twice as long as to end, because each page that is written to is copied first."""
    if isinstance(code, str):
        sys.stderr.write(f"{code}\n")
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(1 if isinstance(code, str) else code or 0)


def _report_ends(reports: dict[int, int]) -> None:
    for pid in list(reports):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            report = reports.pop(pid)
            os.write(report, b"%d\n" % os.waitstatus_to_exitcode(status))
            os.close(report)


def _kill(reports: dict[int, int]) -> None:
    for pid in reports:
        os.kill(pid, signal.SIGKILL)
    for pid in reports:
        os.waitpid(pid, 0)
