"""Runs a command under the recorder, and reads what it recorded."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).with_name("recorder.c")
PROJECT = Path(__file__).parents[2]

_HEAD = struct.Struct("<IBBIQ")


@dataclass(frozen=True, slots=True)
class Event:
    """One recorded operation. What its fields mean depends on `kind`:

    o opened: handle, payload path, flags 1 created if missing, 2 emptied    c closed is not recorded
    w written: handle, number offset, payload data, flags 1 synced at once   f synced: handle
    t truncated, a allocated: handle, number size                            u removed, d directory made: payload path
    n renamed: payload old path, zero byte, new path                         m mark: payload
    s sent, r received: handle descriptor of the socket, payload data      x less was sent than was recorded: handle
    """

    kind: str
    flags: int
    handle: int
    number: int
    payload: bytes

    @property
    def path(self) -> str:
        """The payload as a path."""
        return os.fsdecode(self.payload)


def compiler() -> str | None:
    """A C compiler, if there is one."""
    return shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


def build(directory: Path) -> Path:
    """Compile the recorder into a directory; the library's path."""
    library, cc = directory / "recorder.so", compiler()
    assert cc, "asked for only when there is a compiler"
    subprocess.run(
        [cc, "-shared", "-fPIC", "-O1", "-o", str(library), str(SOURCE), "-ldl", "-lpthread"],
        check=True,
        capture_output=True,
    )
    return library


@dataclass(frozen=True)
class Recording:
    """Where a recorded process works, and where its record is."""

    library: Path
    directory: Path
    log: Path
    marks: Path

    def environment(self, *, sockets: bool = False) -> Mapping[str, str]:
        """What a process needs in its environment to be recorded."""
        recorded = {
            "LD_PRELOAD": str(self.library),
            "RECORDER_DIRECTORY": str(self.directory.resolve()),
            "RECORDER_LOG": str(self.log),
            "RECORDER_MARKS": str(self.marks),
            "PYTHONPATH": str(PROJECT),
        }
        return {**os.environ, **recorded, **({"RECORDER_SOCKETS": "1"} if sockets else {})}

    def run(self, command: Sequence[str]) -> None:
        """Run a command to its end. Raises CalledProcessError when it fails."""
        self.directory.mkdir(parents=True, exist_ok=True)
        subprocess.run(command, env=dict(self.environment()), check=True, cwd=PROJECT)


def read_events(log: Path) -> Iterator[Event]:
    """Every event of a record, in order."""
    data, at = log.read_bytes(), 0
    while at < len(data):
        size, kind, flags, handle, number = _HEAD.unpack_from(data, at)
        yield Event(chr(kind), flags, handle, number, data[at + _HEAD.size : at + 4 + size])
        at += 4 + size
