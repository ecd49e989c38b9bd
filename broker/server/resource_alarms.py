"""Memory and disk: how much there is, and when publishers must wait.

Memory is anonymous memory (RssAnon): pages of the message store that the kernel keeps mapped do not
count, the kernel drops them when it needs the room. The limit is a share of the machine's memory, or of the
container's where that is less.
"""

from __future__ import annotations

import ctypes
import gc
import logging
import os
import resource
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Protocol

import trio

from broker.config import Config
from broker.entities.scheduling.alarms import DISK, MEMORY, Alarms
from storage.space.store_space import StoreSpace

log = logging.getLogger("leveret.resources")

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
"""From glibc's malloc.h."""
MAPPED_BYTES_MIN = 32 << 20
"""Blocks from here up are the kernel's again as soon as they are freed."""
KEPT_BYTES = 64 << 20
"""How much freed memory at the end of the heap is kept."""

SHRINK_SECONDS = 60.0
REUSABLE_BYTES_MIN, REUSABLE_BYTES_KEPT = 1 << 20, 64 << 20
"""When more of the store's file than KEPT has held nothing for so long, the disk gets its room back; while the disk is
short, when it is more than MIN: a few pages of LMDB's own hold no records either."""

_YOUNG = 1
"""The generation up to which garbage in cycles is looked for: in a few milliseconds, however much has stayed."""
TRIM_SECONDS = 60.0
TRIM_BYTES_MIN, TRIM_BYTES_KEPT = 16 << 20, 8 << 20
"""Freed memory goes back to the system when it has grown by MIN since, after so long; all of it but KEPT."""

_CGROUPS = Path("/sys/fs/cgroup")
_OWN_CGROUPS = Path("/proc/self/cgroup")
_NETWORK_FILE_SYSTEMS = frozenset({"nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs"})


def keep_freed_memory() -> None:
    """Have the C library keep memory for large messages that come next, instead of asking the kernel each time.

    Pages that the kernel hands out anew it has to clear, and the broker to touch one by one: for messages of a
    mebibyte that was a third of their cost. Up to KEPT_BYTES may lie idle in return. Without glibc nothing happens.
    """
    options = {_M_MMAP_THRESHOLD: MAPPED_BYTES_MIN, _M_TRIM_THRESHOLD: KEPT_BYTES}
    mallopt = getattr(_c_library(), "mallopt", None)
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
    return int(memory_total() * config.memory.high_watermark)


def memory_total() -> int:
    """Bytes of memory of the machine, or of the container where that is less."""
    return min([os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), *_cgroup_limits()])


def _cgroup_limits() -> Iterator[int]:
    """The limits of the process's control groups, of the kernel's second kind or its first, and of all around them."""
    try:
        memberships = _OWN_CGROUPS.read_text().splitlines()
    except OSError:
        memberships = []
    for membership in (*memberships, "0::/", "0:memory:/"):
        _, controllers, own = membership.split(":", 2)
        if controllers == "":
            root, file = _CGROUPS, "memory.max"
        elif "memory" in controllers.split(","):
            root, file = _CGROUPS / "memory", "memory.limit_in_bytes"
        else:
            continue
        group = root / own.lstrip("/")
        for directory in (group, *group.parents):
            with suppress(OSError):
                text = (directory / file).read_text().strip()
                if text.isdecimal():
                    yield int(text)
            if directory == root:
                break


def give_freed_memory_back(kept_bytes: int = 0) -> None:
    """Have the C library give the system what was freed, but for so much. Takes long; without glibc nothing happens."""
    trim = getattr(_c_library(), "malloc_trim", None)
    if trim is not None:
        trim(ctypes.c_size_t(kept_bytes))


@cache
def _c_library() -> ctypes.CDLL:
    """The C library, loaded once: each object for it is a cycle of its own."""
    return ctypes.CDLL(None)


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


Pause = Callable[[float], Awaitable[None]]
"""Sleeps for so many seconds, and longer where nothing happens: see `Activity.pause`."""


class SpaceKeeper(Protocol):
    """What has the store's file changed on behalf of the watch: the committer."""

    def shrink(self) -> None:
        """Give the room that free pages take back to the disk."""

    def restore_ballast(self) -> None:
        """Take the ballast again."""


class ResourceWatch:
    """Raises and clears the alarms that make publishers wait."""

    def __init__(self, config: Config, alarms: Alarms, space: StoreSpace, held_bytes: Callable[[], int]) -> None:
        """`held_bytes` says how much of the memory is what publishers have sent while they had to wait."""
        self._held_bytes = held_bytes
        self._config = config
        self._alarms = alarms
        self._space = space
        self._disk_full = False
        self._least_reusable = space.reusable_bytes()
        self._idle_since = time.monotonic()
        self.memory_limit = memory_limit(config)
        self.disk_free_limit = config.disk.free_limit_bytes
        memory = config.memory
        self.memory_setting: dict[str, float] = (
            {"absolute": memory.high_watermark_bytes}
            if memory.high_watermark_bytes
            else {"relative": memory.high_watermark}
        )

    def limit_memory(self, fraction: float | None, size: int) -> None:
        """Publishers wait from now on above this fraction of all memory or, where it is None, above this size."""
        self.memory_limit = size if fraction is None else int(memory_total() * fraction)
        self.memory_setting = {"absolute": size} if fraction is None else {"relative": fraction}
        self._set(MEMORY, self._memory_taken() > self.memory_limit)

    def limit_disk(self, size: int) -> None:
        """Publishers wait from now on below so much free disk."""
        self.disk_free_limit = size
        self.check_disk()

    def restore_limits(self) -> None:
        """Both limits are those of the settings again."""
        memory = self._config.memory
        size = memory.high_watermark_bytes
        self.limit_memory(None if size else memory.high_watermark, size)
        self.limit_disk(self._config.disk.free_limit_bytes)

    async def watch_memory(self, pause: Pause) -> None:
        """Look at memory again and again. What is garbage or freed is given back before it counts as used."""
        trimmed_at, least = trio.current_time(), self._memory_taken()
        while True:
            used = self._memory_taken()
            least = min(least, used)
            overdue = used > least + TRIM_BYTES_MIN and trio.current_time() > trimmed_at + TRIM_SECONDS
            if overdue or used > self.memory_limit:
                kept = 0 if used > self.memory_limit else TRIM_BYTES_KEPT
                gc.collect(_YOUNG)  # while publishers wait so little is made that Python would not look for long
                await trio.to_thread.run_sync(give_freed_memory_back, kept)
                # What is freed while the alarm's cause ends, after this, goes back with the next, a minute later.
                trimmed_at, least = trio.current_time(), self._memory_taken() if kept else 0
            self.check_memory()
            await pause(self._config.memory.check_interval_seconds)

    def check_memory(self) -> None:
        """Look at memory now."""
        self._set(MEMORY, self._memory_taken() > self.memory_limit)

    def _memory_taken(self) -> int:
        """What waits for the end of an alarm would keep it up for good, if it counted."""
        return memory_used() - self._held_bytes()

    async def watch_disk(self, keeper: SpaceKeeper, pause: Pause) -> None:
        """Look at the disk again and again, and have the writer of the store do what follows."""
        while True:
            self.look_at_disk(keeper)
            await pause(self._config.disk.check_interval_seconds)

    def look_at_disk(self, keeper: SpaceKeeper) -> None:
        """Look at the disk now, and have done what follows."""
        self.check_disk()
        if not self._space.has_ballast and not self._alarms.is_raised(DISK):
            keeper.restore_ballast()
        if self.should_shrink():
            keeper.shrink()  # last: it stops as soon as something behind it waits for the writer

    def check_disk(self) -> None:
        """Look at the disk now."""
        self._set(DISK, self._disk_full or self._space.room_bytes() < self.disk_free_limit)

    def should_shrink(self) -> bool:
        """The store takes room on the disk that others need now, or that it has not needed for SHRINK_SECONDS."""
        reusable, now = self._space.reusable_bytes(), time.monotonic()
        if self._space.disk_free_bytes() < self.disk_free_limit:
            return reusable > REUSABLE_BYTES_MIN
        self._least_reusable = min(self._least_reusable, reusable)
        if now < self._idle_since + SHRINK_SECONDS:
            return False
        unneeded, self._least_reusable, self._idle_since = self._least_reusable, reusable, now
        return unneeded > REUSABLE_BYTES_KEPT

    def disk_full(self, full: bool) -> None:
        """The message store has met, or overcome, a full disk."""
        self._disk_full = full
        self.check_disk()

    def _set(self, name: str, short: bool) -> None:
        if self._alarms.is_raised(name) != short:
            change = "raised: publishers are blocked" if short else "cleared: publishers continue"
            log.warning("%s alarm %s", name, change)
        self._alarms.set(name, short=short)
