"""Command lines of this checkout, run by copies of the process that has the program loaded, as brokers are."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from signal import SIGKILL
from subprocess import CompletedProcess
from tempfile import TemporaryFile
from threading import Event, Timer

from harness.forked.changed_copies import copies_that_run_modules, copies_with
from harness.project import ROOT
from leveret.testing.broker_copies import Copies

COMMAND_SECONDS = 120
"""Longest time of a command, also on a busy machine; one that takes longer is killed."""
MODULE_SECONDS = 900
"""Longest time of a module, which may be an exploration."""


def run_bytes(*words: str, environment: Mapping[str, str], prefix: tuple[str, ...] = ()) -> CompletedProcess[bytes]:
    """Run `leveret WORDS` in a process of its own, without input, and return its end and its output.

    Loading the program takes most of a command's time, and a copy has it loaded. Behind a `prefix` it is no copy.
    Raises TimeoutExpired.
    """
    copies = None if prefix else copies_with(environment)
    if copies is None:
        return subprocess.run(
            [*prefix, sys.executable, "-m", "broker", *words],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )
    return _run_copy(copies, words, environment, COMMAND_SECONDS)


def run_module(*words: str) -> CompletedProcess[bytes]:
    """Run `python -m WORDS`, a module of this checkout, in a copy that has loaded the program."""
    copies = copies_that_run_modules()
    assert copies is not None
    return _run_copy(copies, ("-m", *words), os.environ, MODULE_SECONDS)


def _run_copy(
    copies: Copies, words: Sequence[str], environment: Mapping[str, str], seconds: float
) -> CompletedProcess[bytes]:
    late = Event()

    def kill() -> None:
        late.set()
        copy.send_signal(SIGKILL)

    with TemporaryFile() as errors:
        copy = copies.start(words, environment, errors.fileno(), ROOT)
        timer = Timer(seconds, kill)
        timer.start()
        with copy.stdout:
            printed = copy.stdout.buffer.read()
        code = copy.wait()
        timer.cancel()
        if late.is_set():
            raise subprocess.TimeoutExpired(["leveret", *words], seconds)
        errors.seek(0)
        return CompletedProcess(["leveret", *words], code, printed, errors.read())


def run_text(
    *words: str, environment: Mapping[str, str] | None = None, given: str = "", prefix: tuple[str, ...] = ()
) -> CompletedProcess[str]:
    """Run a command and return its output as text. With input it is no copy."""
    theirs = os.environ if environment is None else environment
    if not given:
        done = run_bytes(*words, environment=theirs, prefix=prefix)
        output, errors = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
        return CompletedProcess(done.args, done.returncode, output, errors)
    return subprocess.run(
        [*prefix, sys.executable, "-m", "broker", *words],
        cwd=ROOT,
        env=theirs,
        input=given,
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS,
        check=False,
    )
