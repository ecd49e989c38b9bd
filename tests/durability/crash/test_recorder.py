"""The recorder, in a process that does nothing but write."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.durability.crash.exploring import needs_compiler
from tests.durability.crash.recording.recorder import Recording

pytestmark = [needs_compiler, pytest.mark.slow]

WRITES = 10_000
PROGRAM = f"""
import os, signal, socket
reader, writer = socket.socketpair()
writer.setblocking(False)
signal.signal(signal.SIGPROF, lambda *_: None)
signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
signal.setitimer(signal.ITIMER_PROF, 0.001, 0.001)
file = os.open("written", os.O_CREAT | os.O_WRONLY)
for number in range({WRITES}):
    os.write(file, b"x")
signal.setitimer(signal.ITIMER_PROF, 0)
"""


def test_signals_that_come_meanwhile_do_no_harm(tmp_path: Path) -> None:
    """Python notes each in a socket, which is recorded as well."""
    recording = Recording(tmp_path / "record")
    recording.begin(0)
    command, environment = [sys.executable, "-c", PROGRAM], recording.environment()
    subprocess.run(command, cwd=recording.directory, env=environment, check=True, timeout=120)
    kinds = [event.kind for event in recording.events()]
    assert kinds.count("w") == WRITES
    assert "s" in kinds
