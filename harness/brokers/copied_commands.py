"""Command lines of this checkout, run by copies of the process that has the program loaded, as brokers are."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from signal import SIGKILL
from subprocess import CompletedProcess
from tempfile import TemporaryFile
from threading import Timer

from harness.project import ROOT
from leveret.testing.broker_copies import copies_of

COMMAND_SECONDS = 120
"""Longest time of a command, also on a busy machine; one that takes longer is killed."""


def run_bytes(*words: str, environment: Mapping[str, str]) -> CompletedProcess[bytes]:
    """Run `leveret WORDS` in a process of its own, without input, and return its end and its output.

    Loading the program takes most of a command's time, and a copy has it loaded.
    """
    with TemporaryFile() as errors:
        copy = copies_of(os.getpid()).start(words, environment, errors.fileno(), ROOT)
        late = Timer(COMMAND_SECONDS, copy.send_signal, (SIGKILL,))
        late.start()
        with copy.stdout:
            printed = copy.stdout.buffer.read()
        code = copy.wait()
        late.cancel()
        errors.seek(0)
        return CompletedProcess(["leveret", *words], code, printed, errors.read())


def run_text(
    *words: str, environment: Mapping[str, str] | None = None, given: str = "", prefix: tuple[str, ...] = ()
) -> CompletedProcess[str]:
    """Run a command and return its output as text. With input, or behind a `prefix`, it is no copy."""
    if not given and not prefix:
        done = run_bytes(*words, environment=os.environ if environment is None else environment)
        return CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())
    command = [*prefix, sys.executable, "-m", "broker", *words]
    return subprocess.run(
        command,
        cwd=ROOT,
        env=environment,
        input=given,
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS,
        check=False,
    )
