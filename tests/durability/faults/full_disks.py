"""Disks that are really full: small file systems of their own, or a limit on how large a process may make its files."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

DISK_BYTES = 64 << 20
FILLER_BLOCK = 64 << 10


class SmallDisk:
    """A file system of 64 MiB. Somebody else's file on it takes and gives room."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._filler = directory / "somebody-elses"

    @property
    def free(self) -> int:
        return shutil.disk_usage(self.directory).free

    def fill(self, *, leave: int = 0) -> None:
        """Somebody else takes all room but so many bytes."""
        with self._filler.open("ab", buffering=0) as file:
            try:
                while self.free > leave:
                    file.write(bytes(min(FILLER_BLOCK, self.free - leave)))
            except OSError:
                pass

    def empty(self) -> None:
        """Somebody else gives back what they took."""
        self._filler.unlink(missing_ok=True)


class Limit:
    """A limit on the size of a process's files: what is left where nothing can be mounted."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._pid = 0

    def fill(self, pid: int, *, leave: int = 0) -> None:
        """The message store may grow by so many bytes, and no more."""
        self._pid = pid
        size = (self._data / "messages" / "data.mdb").stat().st_size + leave
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    def empty(self) -> None:
        """No limit any more."""
        resource.prlimit(self._pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


@contextmanager
def mounted(command: list[str], directory: Path) -> Iterator[bool]:
    """A file system for as long as this is entered; False where it may not be mounted."""
    directory.mkdir()
    done = shutil.which("mount") is not None and os.geteuid() == 0 and _run([*command, str(directory)])
    try:
        yield done
    finally:
        if done:
            _run(["umount", "--lazy", str(directory)])


@contextmanager
def tmpfs(directory: Path) -> Iterator[bool]:
    """A small file system in memory."""
    with mounted(["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs"], directory / "disk") as done:
        yield done


@contextmanager
def ext4(directory: Path) -> Iterator[bool]:
    """A small file system of the common kind, in a file."""
    image = directory / "image"
    with image.open("wb") as file:
        file.truncate(DISK_BYTES)
    made = shutil.which("mkfs.ext4") is not None and _run(["mkfs.ext4", "-q", "-m", "0", str(image)])
    with mounted(["mount", "-o", "loop", str(image)] if made else ["false"], directory / "disk") as done:
        yield done


def _run(command: list[str]) -> bool:
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


KINDS: dict[str, Callable[[Path], object]] = {"tmpfs": tmpfs, "ext4": ext4}
