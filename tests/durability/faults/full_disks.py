"""Disks that are really full: small file systems of their own, or a limit on how large a process may make its files."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

DISK_BYTES = 64 << 20
FILLER_BLOCKS = (4 << 20, 64 << 10, 4 << 10)
"""In what steps room is taken; the large ones first, while others may be writing."""


class SmallDisk:
    """A small file system. Somebody else's file on it takes and gives room."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._filler = directory / "somebody-elses"

    @property
    def free(self) -> int:
        return shutil.disk_usage(self.directory).free

    def fill(self, *, leave: int = 0) -> None:
        """Somebody else takes all room but `leave` bytes."""
        with self._filler.open("ab") as file:
            for size in FILLER_BLOCKS:
                with suppress(OSError):
                    while self.free - leave >= size:
                        os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, size)

    def empty(self) -> None:
        """Somebody else gives back what they took."""
        self._filler.unlink(missing_ok=True)


class LimitedFiles(SmallDisk):
    """Stands for a small disk if nothing can be mounted: the message store of a process cannot grow."""

    def __init__(self, directory: Path, pid: Callable[[], int]) -> None:
        super().__init__(directory)
        self._pid = pid

    def fill(self, *, leave: int = 0) -> None:
        store = self.directory / "data" / "messages" / "data.mdb"
        limit_files(self._pid(), store.stat().st_size + leave)

    def empty(self) -> None:
        limit_files(self._pid())


def limit_files(pid: int, size: int = resource.RLIM_INFINITY) -> None:
    """Have no file of a process grow beyond a size: what is left where nothing can be mounted."""
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


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


def tmpfs(directory: Path, size: int = DISK_BYTES) -> AbstractContextManager[bool]:
    """A small file system in memory."""
    return mounted(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs"], directory / "disk")


def ext4(directory: Path, size: int = DISK_BYTES) -> AbstractContextManager[bool]:
    """A small file system of the common kind, in a file."""
    image = directory / "image"
    with image.open("wb") as file:
        file.truncate(size)
    made = shutil.which("mkfs.ext4") is not None and _run(["mkfs.ext4", "-q", "-m", "0", str(image)])
    return mounted(["mount", "-o", "loop", str(image)] if made else ["false"], directory / "disk")


def _run(command: list[str]) -> bool:
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


KINDS: dict[str, Callable[..., AbstractContextManager[bool]]] = {"tmpfs": tmpfs, "ext4": ext4}
