"""A record of what a broker did to its disk and said over its sockets: where it is, and what it is of."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from leveret.testing.power.disk_record import Event, read_events, recorded


class About(NamedTuple):
    """The subject of a record.

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
        """The recorded directory."""
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
        """The subject of the record."""
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
        """Return the environment of a process that is recorded."""
        return {**os.environ, **recorded(self.directory, self.log, sockets=True)}
