"""What a power failure would leave of a broker's data, at any moment of its lives."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

from leveret.testing.power.disk_record import read_events, recorded
from leveret.testing.power.disk_states import Chance, Disk, write_out


class PowerRecord:
    """Follows what processes do to a directory. What is there when it is made counts as synced."""

    def __init__(self, directory: Path, log: Path) -> None:
        """`log` is where the processes note what they write: as much as they do."""
        self._directory = directory
        self._log = log
        self._disk = Disk.found(directory)

    def environment(self) -> dict[str, str]:
        """What a process needs in its environment to be recorded. Raises LeveretError where there is no C compiler."""
        return recorded(self._directory, self._log)

    def fail(self, seed: int | None) -> int:
        """Leave in the directory what a power failure may leave; how many writes and changes of names were uncertain.

        All that was not synced is gone; with a `seed` a part of it that the seed chooses, torn at any sector. The
        processes have ended before.
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
