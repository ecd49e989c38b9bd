"""Memory and disk: how much there is, and when publishers must wait.

Memory is anonymous memory (RssAnon): pages of the message store that the kernel keeps mapped are not ours to
count, they go when somebody needs the room. The limit is a share of the machine's memory, or of the
container's where that is less.
"""

from __future__ import annotations

import ctypes
import logging
import os
import resource
import shutil
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

import trio

from broker.config import Config
from broker.entities.scheduling.alarms import DISK, MEMORY, Alarms

log = logging.getLogger("leveret.resources")

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
"""From glibc's malloc.h."""
MAPPED_BYTES_MIN = 32 << 20
"""Blocks from here up are the kernel's again as soon as they are freed."""
KEPT_BYTES = 64 << 20
"""How much freed memory at the end of the heap is kept."""

_CGROUP_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
_NETWORK_FILE_SYSTEMS = frozenset({"nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs"})


def keep_freed_memory() -> None:
    """Have the C library keep memory for large messages that come next, instead of asking the kernel each time.

    Pages that the kernel hands out anew it has to clear, and the broker to touch one by one: for messages of a
    mebibyte that was a third of their cost. Up to KEPT_BYTES may lie idle in return. Without glibc nothing happens.
    """
    options = {_M_MMAP_THRESHOLD: MAPPED_BYTES_MIN, _M_TRIM_THRESHOLD: KEPT_BYTES}
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for option, value in options.items():
            mallopt(option, value)


def raise_open_files_limit() -> int:
    """Allow as many open files as the system lets us; how many that is."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            return hard
        except (ValueError, OSError) as error:
            log.warning("cannot raise the limit of open files above %d: %s", soft, error)
    return soft


def memory_limit(config: Config) -> int:
    """From how many bytes of anonymous memory on publishers have to wait."""
    if config.memory.high_watermark_bytes:
        return config.memory.high_watermark_bytes
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path in _CGROUP_LIMITS:
        try:
            text = path.read_text().strip()
        except OSError:
            continue
        if text.isdecimal():
            total = min(total, int(text))
    return int(total * config.memory.high_watermark)


def memory_used() -> int:
    """Bytes of anonymous memory of this process. Where the kernel does not tell (macOS), its peak of all memory."""
    status = _own_status()
    if status >= 0:
        for line in os.pread(status, 1 << 14, 0).splitlines():
            if line.startswith(b"RssAnon:"):
                return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


@cache
def _own_status() -> int:
    """A descriptor that stays open: memory is looked at when there are no more descriptors, too. -1: there is none."""
    try:
        return os.open("/proc/self/status", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return -1


def process_age_seconds() -> float:
    """How long ago this process was started, interpreter and imports included; 0 where the kernel does not tell."""
    try:
        ticks = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return 0.0
    return time.clock_gettime(time.CLOCK_BOOTTIME) - int(ticks) / os.sysconf("SC_CLK_TCK")


def disk_free(directory: Path) -> int:
    """Bytes that may still be written below a directory."""
    return shutil.disk_usage(directory).free


def warn_of_network_file_system(directory: Path) -> None:
    """LMDB needs a local disk: on a network file system neither its locks nor its syncs can be relied on."""
    kind = file_system(directory)
    if kind in _NETWORK_FILE_SYSTEMS:
        log.warning("%s is on %s: use a local disk, a network file system may lose what was synced", directory, kind)


def file_system(directory: Path) -> str:
    """The type of the file system a directory is on; empty where the system does not tell."""
    target, best, kind = str(directory.resolve()), "", ""
    try:
        mounts = Path("/proc/self/mounts").read_text().splitlines()
    except OSError:
        return ""
    for line in mounts:
        _, point, type_, *_ = line.split(" ")
        inside = point == "/" or target == point or target.startswith(point + "/")
        if inside and len(point) >= len(best):
            best, kind = point, type_
    return kind


class ResourceWatch:
    """Raises and clears the alarms that make publishers wait."""

    def __init__(self, config: Config, alarms: Alarms, restore_ballast: Callable[[], bool]) -> None:
        self._config = config
        self._alarms = alarms
        self._restore_ballast = restore_ballast
        self._disk_full = False
        self._ballast_spent = True  # it may have been, by a start on a full disk
        self.memory_limit = memory_limit(config)

    async def watch_memory(self) -> None:
        """Look at memory again and again."""
        while True:
            self._set(MEMORY, memory_used() > self.memory_limit)
            await trio.sleep(self._config.memory.check_interval_seconds)

    async def watch_disk(self) -> None:
        """Look at the disk again and again."""
        while True:
            self.check_disk()
            await trio.sleep(self._config.disk.check_interval_seconds)

    def check_disk(self) -> None:
        """Look at the disk now."""
        free = disk_free(self._config.server.directory)
        short = self._disk_full or free < self._config.disk.free_limit_bytes
        self._set(DISK, short)
        if self._ballast_spent and not short:
            self._ballast_spent = not self._restore_ballast()

    def disk_full(self, full: bool) -> None:
        """The message store has met, or overcome, a full disk."""
        self._disk_full = full
        self._ballast_spent = True
        self.check_disk()

    def _set(self, name: str, short: bool) -> None:
        if self._alarms.is_raised(name) != short:
            change = "raised: publishers are blocked" if short else "cleared: publishers continue"
            log.warning("%s alarm %s", name, change)
        self._alarms.set(name, short=short)
