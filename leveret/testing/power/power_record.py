"""The data that a power failure would leave of a broker, at any moment."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

from leveret.testing.power.disk_record import read_events, recorded
from leveret.testing.power.disk_states import Chance, Disk, write_out


class PowerRecord:
    """Follows the operations of processes in a directory. Files that exist at the beginning count as synced."""

    def __init__(self, directory: Path, log: Path) -> None:
        """`log` is the file in which the processes record their writes, with all data."""
        self._directory = directory
        self._log = log
        self._disk = Disk.found(directory)

    def environment(self) -> dict[str, str]:
        """Return the environment variables of a process to be recorded. Raises LeveretError without a C compiler."""
        return recorded(self._directory, self._log)

    def fail(self, seed: int | None) -> int:
        """Make the directory a state that a power failure may leave; return the number of uncertain writes and changes.

        All that was not synced is lost; with a `seed` a part that the seed chooses is kept, torn at any sector. To be
        called after the processes have ended.
        """
        for event in read_events(self._log) if self._log.exists() else ():
            self._disk.follow(event)
        uncertain, choose = self._disk.uncertain, random.Random(seed)
        kind = "nothing" if seed is None else choose.choice(Chance.KINDS)
        remains = self._disk.crash(Chance(kind, choose, uncertain))
        for path in self._directory.iterdir():
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        write_out(remains, self._directory)
        self._disk = Disk.found(self._directory)
        self._log.unlink(missing_ok=True)
        return uncertain
