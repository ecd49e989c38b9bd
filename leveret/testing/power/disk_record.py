"""A record of a process's file operations, written by recorder.c."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from leveret.testing.power.preload import library

SOURCE = Path(__file__).with_name("recorder.c")

_HEAD = struct.Struct("<IBBIQ")


@dataclass(frozen=True, slots=True)
class Event:
    """One recorded operation. What its fields mean depends on `kind`:

    o opened: handle, payload path, flags 1 created if missing, 2 emptied    c closed is not recorded
    w written: handle, number offset, payload data, flags 1 synced at once   f synced: handle
    h made a hole: handle, number offset, payload size (8 bytes)
    t truncated, a allocated: handle, number size                            u removed, d directory made: payload path
    n renamed: payload old path, zero byte, new path
    s sent, r received: handle descriptor of the socket, payload data
    x not all was sent of what was recorded: handle, number how many bytes less
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


def recorded(directory: Path, log: Path, *, sockets: bool = False) -> dict[str, str]:
    """Return the environment variables of a process to be recorded; with `sockets` also data sent and received.

    Raises LeveretError if there is no C compiler.
    """
    where = {"RECORDER_DIRECTORY": str(directory.resolve()), "RECORDER_LOG": str(log)}
    return {"LD_PRELOAD": str(library(SOURCE)), **where, **({"RECORDER_SOCKETS": "1"} if sockets else {})}


def read_events(log: Path) -> Iterator[Event]:
    """Yield the events of a record, in order."""
    data, at = log.read_bytes(), 0
    while at < len(data):
        size, kind, flags, handle, number = _HEAD.unpack_from(data, at)
        yield Event(chr(kind), flags, handle, number, data[at + _HEAD.size : at + 4 + size])
        at += 4 + size
