"""A record of what a broker did to its disk and said over its sockets: where it is, and how it is read."""

from __future__ import annotations

import json
import os
import shutil
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from harness.brokers.preload import library

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


class About(NamedTuple):
    """What a record is of.

    `root` is the directory in which the broker worked; `seed` decided what its clients did, and decides which crash
    states there are.
    """

    root: str
    seed: int
    planted: str = ""


@dataclass(frozen=True)
class Recording:
    """A record in a directory, whole enough to be explored at any time: the log, and what it is of.

    The recorded process works in `directory` below it, which nobody needs afterwards.
    """

    home: Path

    @property
    def directory(self) -> Path:
        """What is recorded."""
        return self.home / "root"

    @property
    def log(self) -> Path:
        """The record."""
        return self.home / "log"

    def begin(self, seed: int, planted: str = "") -> None:
        """Make the directory, and say what the record is of."""
        self.directory.mkdir(parents=True)
        about = About(str(self.directory.resolve()), seed, planted)
        (self.home / "about.json").write_text(json.dumps(about._asdict()))

    @property
    def about(self) -> About:
        """What the record is of."""
        return About(**json.loads((self.home / "about.json").read_text()))

    def events(self) -> list[Event]:
        """Every event, in order."""
        return list(read_events(self.log))

    def keep(self, home: Path) -> Recording:
        """Copy what exploring needs to another place."""
        home.mkdir(parents=True, exist_ok=True)
        for name in ("log", "about.json"):
            shutil.copy(self.home / name, home / name)
        return Recording(home)

    def environment(self) -> dict[str, str]:
        """What a process needs in its environment to be recorded."""
        recorded = {
            "LD_PRELOAD": str(library(SOURCE)),
            "RECORDER_DIRECTORY": str(self.directory.resolve()),
            "RECORDER_LOG": str(self.log),
        }
        return {**os.environ, **recorded}


def read_events(log: Path) -> Iterator[Event]:
    """Every event of a record, in order."""
    data, at = log.read_bytes(), 0
    while at < len(data):
        size, kind, flags, handle, number = _HEAD.unpack_from(data, at)
        yield Event(chr(kind), flags, handle, number, data[at + _HEAD.size : at + 4 + size])
        at += 4 + size
