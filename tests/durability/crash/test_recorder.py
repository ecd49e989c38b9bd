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
OTHER_WRITES = 150_000
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

CALLS = (
    "lambda data: writer.send(data)",
    "lambda data: writer.sendmsg([data[:1000], data[1000:]])",
    "lambda data: os.write(writer.fileno(), data)",
    "lambda data: os.writev(writer.fileno(), [data[:1000], data[1000:]])",
)
SENDS = """
import os, socket, sys
reader, writer = socket.socketpair()
writer.setblocking(False)
left = os.urandom(4 << 20)
with open("arrived", "wb") as arrived:
    while left:
        try:
            left = left[({call})(left):]
        except BlockingIOError:
            arrived.write(os.read(reader.fileno(), 4 << 20))
    writer.close()
    while data := os.read(reader.fileno(), 4 << 20):
        arrived.write(data)
"""


@pytest.mark.parametrize("call", CALLS)
def test_what_a_socket_did_not_take_is_not_recorded_as_sent(tmp_path: Path, call: str) -> None:
    recording = Recording(tmp_path / "record")
    recording.begin(0)
    command, environment = [sys.executable, "-c", SENDS.format(call=call)], recording.environment()
    subprocess.run(command, cwd=recording.directory, env=environment, check=True, timeout=120)
    sent, times = bytearray(), 0
    for event in recording.events():
        if event.kind == "s":
            sent += event.payload
        elif event.kind == "x":
            del sent[len(sent) - event.number :]
            times += 1
    assert times
    assert sent == (recording.directory / "arrived").read_bytes()


def test_signals_that_come_meanwhile_do_no_harm(tmp_path: Path) -> None:
    """Python notes each in a socket, which is recorded as well. Calls that are not recorded go through the library,
    too."""
    recording = Recording(tmp_path / "record")
    recording.begin(0)
    command, environment = [sys.executable, "-c", PROGRAM], recording.environment()
    subprocess.run(command, cwd=recording.directory, env=environment, check=True, timeout=120)
    kinds = [event.kind for event in recording.events()]
    assert kinds.count("w") == WRITES
    assert "s" in kinds
