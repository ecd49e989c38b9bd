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
OTHER_WRITES = 500_000
PROGRAM = f"""
import os, signal, socket
reader, writer = socket.socketpair()
writer.setblocking(False)
signal.signal(signal.SIGALRM, lambda *_: None)
signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
signal.setitimer(signal.ITIMER_REAL, 0.00003, 0.00003)
file = os.open("written", os.O_CREAT | os.O_WRONLY)
for number in range({WRITES}):
    os.write(file, b"x")
nowhere = os.open(os.devnull, os.O_WRONLY)
for number in range({OTHER_WRITES}):
    os.write(nowhere, b"x")
signal.setitimer(signal.ITIMER_REAL, 0)
"""


def test_signals_that_come_meanwhile_do_no_harm(tmp_path: Path) -> None:
    """Python notes each in a socket, which is recorded as well. What is not recorded goes through the library, too."""
    recording = Recording(tmp_path / "record")
    recording.begin(0)
    command, environment = [sys.executable, "-c", PROGRAM], recording.environment()
    subprocess.run(command, cwd=recording.directory, env=environment, check=True, timeout=120)
    kinds = [event.kind for event in recording.events()]
    assert kinds.count("w") == WRITES
    assert "s" in kinds
