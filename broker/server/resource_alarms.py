"""Memory and disk alarms: they block publishers. And what the process does to use less of both.

Memory is anonymous memory (`broker/process_memory.py`): mapped pages of the message store do not count, because the
kernel drops them when it needs memory. The limit is a fraction of the machine's memory, or of the container's if that
is less.
"""

from __future__ import annotations

import gc
import logging
import os
import resource
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import trio

from broker.config import Config
from broker.entities.scheduling.alarms import DISK, MEMORY, Alarms
from broker.freed_memory import give_freed_memory_back
from broker.process_memory import memory_mapped, memory_used
from storage.space.store_space import StoreSpace

log = logging.getLogger("leveret.resources")

SHRINK_SECONDS = 60.0
REUSABLE_BYTES_MIN, REUSABLE_BYTES_KEPT = 1 << 20, 64 << 20
"""The store's file is shrunk if more than KEPT of it has been free for SHRINK_SECONDS; while the disk is short, if more
than MIN is: a few pages of LMDB's own hold no records either."""

_YOUNG = 1
"""The generation up to which garbage is collected: a few milliseconds, however many objects are old."""
TRIM_SECONDS = 60.0
TRIM_BYTES_MIN, TRIM_BYTES_KEPT = 16 << 20, 8 << 20
"""Freed memory but KEPT goes back to the system if memory has grown by MIN since its least, TRIM_SECONDS after the last
time."""

OPEN_MAX = 10_240
"""Open files that macOS grants to any process, also where it says that there is no limit."""

_CGROUPS = Path("/sys/fs/cgroup")
_OWN_CGROUPS = Path("/proc/self/cgroup")
_NETWORK_FILE_SYSTEMS = frozenset({"nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs"})


def raise_open_files_limit() -> int:
    """Raise the limit of open files as far as the system permits, and return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    refused: Exception | None = None
    for limit in (hard, min(hard, OPEN_MAX)):
        if limit <= soft:
            return soft
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
            return limit
        except (ValueError, OSError) as error:
            refused = error
    log.warning("cannot raise the limit of open files above %d: %s", soft, refused)
    return soft


def memory_limit(config: Config) -> int:
    """Return the bytes of anonymous memory above which publishers are blocked."""
    if config.memory.high_watermark_bytes:
        return config.memory.high_watermark_bytes
    return int(memory_total() * config.memory.high_watermark)


def memory_total() -> int:
    """Return the bytes of memory of the machine, or of the container if that is less."""
    return min([os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), *_cgroup_limits()])


def _cgroup_limits() -> Iterator[int]:
    """Yield the memory limits of the process's control groups (cgroup v2 or v1) and of all their parents."""
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


def process_age_seconds() -> float:
    """Return the seconds since this process was started, imports included; 0 if the kernel does not tell."""
    try:
        ticks = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return 0.0
    return time.clock_gettime(time.CLOCK_BOOTTIME) - int(ticks) / os.sysconf("SC_CLK_TCK")


def warn_of_unknown_memory() -> None:
    """Warn if the system does not say how much memory this process uses."""
    if not memory_used():
        log.warning("this system does not tell how much memory a process uses, by /proc or `ps`: no memory alarm")


def warn_of_network_file_system(directory: Path) -> None:
    """Warn if the data directory is on a network file system: neither locks nor syncs of LMDB are reliable there."""
    kind = file_system(directory)
    if kind in _NETWORK_FILE_SYSTEMS:
        log.warning("%s is on %s: use a local disk, a network file system may lose what was synced", directory, kind)


def file_system(directory: Path) -> str:
    """Return the type of a directory's file system; empty if the system does not tell."""
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
"""Sleeps for some seconds, and longer while nothing happens: `Activity.pause`."""


class SpaceKeeper(Protocol):
    """The part of the committer that changes the size of the store's files."""

    def shrink(self) -> None:
        """Give free pages of the store's file back to the disk."""

    def restore_ballast(self) -> None:
        """Write the ballast again."""


class ResourceWatch:
    """Raises and clears the alarms that block publishers."""

    def __init__(self, config: Config, alarms: Alarms, space: StoreSpace, held_bytes: Callable[[], int]) -> None:
        """`held_bytes` returns the bytes that blocked publishers have sent."""
        self._held_bytes = held_bytes
        self._config = config
        self._alarms = alarms
        self._space = space
        self._disk_full = False
        self._disk_monitored = True
        self._disk_short = False
        self._held = set[str]()
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
        """Set the memory limit: a fraction of all memory or, if that is None, a size."""
        self.memory_limit = size if fraction is None else int(memory_total() * fraction)
        self.memory_setting = {"absolute": size} if fraction is None else {"relative": fraction}
        self._set(MEMORY, self._memory_taken() > self.memory_limit)

    def limit_disk(self, size: int) -> None:
        """Set the least free disk space, in bytes."""
        self.disk_free_limit = size
        self.check_disk()

    def monitor_disk(self, *, on: bool) -> None:
        """Check the free disk space, or no more: the alarm stays as it is, but for a commit that meets a full disk."""
        self._disk_monitored = on
        self.check_disk()

    def hold(self, resource: str, *, on: bool) -> None:
        """Keep the alarm of a resource raised whatever is measured, or let it follow the resource again."""
        if on:
            self._held.add(resource)
        else:
            self._held.discard(resource)
        self.check_memory()
        self.check_disk()

    def restore_limits(self) -> None:
        """Set both limits to those of the settings again, and let alarms follow what is measured."""
        self._held.clear()
        memory = self._config.memory
        size = memory.high_watermark_bytes
        self.limit_memory(None if size else memory.high_watermark, size)
        self.limit_disk(self._config.disk.free_limit_bytes)

    async def watch_memory(self, pause: Pause) -> None:
        """Check memory at intervals, during an alarm also if nothing happens: all who wait for its end may be still.

        Garbage and freed memory are given back before they count as used, and too many mapped pages of the message
        store."""
        trimmed_at, least = trio.current_time(), self._memory_taken()
        while True:
            used = self._memory_taken()
            least = min(least, used)
            overdue = used > least + TRIM_BYTES_MIN and trio.current_time() > trimmed_at + TRIM_SECONDS
            if overdue or used > self.memory_limit:
                kept = 0 if used > self.memory_limit else TRIM_BYTES_KEPT
                gc.collect(_YOUNG)  # blocked publishers make few objects, so that Python itself would collect late
                await trio.to_thread.run_sync(give_freed_memory_back, kept)
                # With 0 as the least, memory that is freed after this goes back TRIM_SECONDS later.
                trimmed_at, least = trio.current_time(), self._memory_taken() if kept else 0
            self.check_memory()
            if memory_mapped() > self._config.memory.mapped_bytes_max > 0:
                await trio.to_thread.run_sync(self._space.give_mapped_back)
            await (trio.sleep if self._alarms.is_raised(MEMORY) else pause)(self._config.memory.check_interval_seconds)

    def check_memory(self) -> None:
        """Raise or clear the memory alarm by the memory in use now."""
        self._set(MEMORY, self._memory_taken() > self.memory_limit)

    def _memory_taken(self) -> int:
        """Return the memory in use without held publishes, which would keep the alarm raised for ever."""
        return memory_used() - self._held_bytes()

    async def watch_disk(self, keeper: SpaceKeeper, pause: Pause) -> None:
        """Check the disk at intervals: `look_at_disk`. During an alarm, and while the store has room to give back, also
        if nothing happens: others may free or fill the disk meanwhile."""
        while True:
            self.look_at_disk(keeper)
            urgent = self._alarms.is_raised(DISK) or self._space.reusable_bytes() > REUSABLE_BYTES_MIN
            await (trio.sleep if urgent else pause)(self._config.disk.check_interval_seconds)

    def look_at_disk(self, keeper: SpaceKeeper) -> None:
        """Check the disk now, and have the ballast written again or the store's file shrunk if that is due."""
        self.check_disk()
        if not self._space.has_ballast and not self._alarms.is_raised(DISK):
            keeper.restore_ballast()
        if self.should_shrink():
            keeper.shrink()  # last, because it stops as soon as anything else is handed over

    def check_disk(self) -> None:
        """Raise or clear the disk alarm by the disk space free now."""
        if self._disk_monitored:
            self._disk_short = self._space.room_bytes() < self.disk_free_limit
        self._set(DISK, self._disk_full or self._disk_short)

    def should_shrink(self) -> bool:
        """Return whether free pages of the store's file are to be given back: the disk is short, or they were free for
        SHRINK_SECONDS."""
        reusable, now = self._space.reusable_bytes(), time.monotonic()
        if self._space.disk_free_bytes() < self.disk_free_limit:
            return reusable > REUSABLE_BYTES_MIN
        self._least_reusable = min(self._least_reusable, reusable)
        if now < self._idle_since + SHRINK_SECONDS:
            return False
        unneeded, self._least_reusable, self._idle_since = self._least_reusable, reusable, now
        return unneeded > REUSABLE_BYTES_KEPT

    def disk_full(self, full: bool) -> None:
        """Note that a commit met a full disk, or that there is space again."""
        self._disk_full = full
        self.check_disk()

    def _set(self, name: str, short: bool) -> None:
        short = short or name in self._held
        if self._alarms.is_raised(name) != short:
            change = "raised: publishers are blocked" if short else "cleared: publishers continue"
            log.warning("%s alarm %s", name, change)
        self._alarms.set(name, short=short)
