"""Builds the fault injector, and says which fault a process is to have."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).with_name("injector.c")

SHORT = 0
"""In place of an error: a write that takes half of its bytes, and says so."""

SLOW = 0
"""In place of an error: a sync that takes longer; see `Disk.slow_down`."""

MESSAGES, LMDB, JOURNAL = "messages*", "messages/data.mdb", "messages/journal"
DEFINITIONS, LOG, ANYTHING = "definitions.sqlite*", "definitions.sqlite-wal", "*"
"""Patterns of the files to fail, as paths below the data directory."""

KINDS = ("write", "sync", "rename", "truncate", "open", "unlink")


@dataclass(frozen=True, slots=True)
class Fault:
    """The `nth` operation of a kind on some files fails, and with `forever` all that follow."""

    kind: str
    error: int
    files: str
    nth: int = 1
    forever: bool = False

    def __str__(self) -> str:
        error = errno.errorcode.get(self.error, "short")
        return f"{self.kind} {self.nth}{'+' if self.forever else ''} of {self.files}: {error}"


SLOW_SYNCS = Fault("sync", SLOW, ANYTHING, forever=True)


@dataclass(frozen=True)
class Disk:
    """The disk below one directory of a process, which has a fault while it is broken."""

    library: Path
    directory: Path
    signs: Path | None = None
    """Directory of the files by which it is broken and mended; beside the data directory by default."""

    @property
    def _sign(self) -> Path:
        return (self.signs or self.directory.parent) / f"{self.directory.name}.broken"

    @property
    def _report(self) -> Path:
        return (self.signs or self.directory.parent) / f"{self.directory.name}.failures"

    def environment(self, fault: Fault, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
        """Return the environment of a process that is to meet the fault."""
        settings = {
            "LD_PRELOAD": str(self.library),
            "FAULT_DIRECTORY": str(self.directory.resolve()),
            "FAULT_KIND": fault.kind,
            "FAULT_ERROR": str(fault.error),
            "FAULT_FILES": fault.files,
            "FAULT_NTH": str(fault.nth),
            "FAULT_SIGN": str(self._sign),
            "FAULT_REPORT": str(self._report),
        }
        return {**environment, **settings, **({"FAULT_FOREVER": "1"} if fault.forever else {})}

    def break_down(self) -> None:
        """Count from now on, and fail."""
        self._sign.touch()

    def slow_down(self, milliseconds: int) -> None:
        """Have each sync take that much longer from now on: with the fault `SLOW_SYNCS`."""
        self._sign.write_text(str(milliseconds))

    def mend(self) -> None:
        """Fail no more, and count no more."""
        self._sign.unlink(missing_ok=True)

    @property
    def failures(self) -> list[str]:
        """Return failures so far: `kind path` of each operation."""
        return self._report.read_text().splitlines() if self._report.exists() else []
