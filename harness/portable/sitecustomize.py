"""Takes from this process what CPython on macOS lacks, and gives it macOS's sync. Python loads this at its start.

`make test-portable` has this directory in PYTHONPATH. /proc and /sys cannot be opened, but by the tests themselves,
which look at other processes. `fsync` and `O_DSYNC` leave everything in the drive's cache: a power failure in a test
takes what was not synced by F_FULLFSYNC. A broker that works so does not need Linux; whether it works on a Mac is not
proved by this.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os
import resource
import select
import socket
import struct
import sys
import time
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

LACKING = {
    os: "fdatasync posix_fadvise posix_fallocate memfd_create eventfd pidfd_open pipe2 copy_file_range splice"
    " sched_getaffinity sched_setaffinity O_TMPFILE O_PATH O_DIRECT",
    socket: "SOCK_CLOEXEC SOCK_NONBLOCK TCP_KEEPIDLE TCP_QUICKACK TCP_USER_TIMEOUT TCP_CORK SO_PEERCRED",
    time: "CLOCK_BOOTTIME",
    resource: "prlimit RLIMIT_MSGQUEUE RLIMIT_RTPRIO RLIMIT_SIGPENDING RUSAGE_THREAD",
    mmap: "MADV_DONTNEED",
}
F_FULLFSYNC, F_PUNCHHOLE = 51, 99
"""Commands of macOS's sys/fcntl.h."""
HOLE = struct.Struct("=IIqq")
OPEN_MAX = 10_240
SOCKET_PATH_BYTES_MAX = 103
CLOSED = "/proc", "/sys"
ROOT = str(Path(__file__).parents[2])
OWN_PLACES = tuple(f"{ROOT}/{name}/" for name in ("tests", "harness", "bench"))


def _take_away() -> None:
    for module, names in LACKING.items():
        exported = vars(module).get("__all__", [])
        for name in filter(vars(module).__contains__, names.split()):
            delattr(module, name)
            if name in exported:
                exported.remove(name)


class _Select(ModuleType):
    """The module `select` without epoll, which trio alone needs: on a Mac it waits by kqueue."""

    def __getattr__(self, name: str) -> Any:
        asking = sys._getframe(1).f_globals.get("__name__", "")
        if name.startswith(("epoll", "EPOLL")) and not asking.startswith("trio."):
            raise AttributeError(f"there is no {name} on macOS")
        return getattr(select, name)


def _sync_as_macos() -> None:
    sync, command = os.fsync, fcntl.fcntl
    fallocate = ctypes.CDLL(None, use_errno=True).fallocate
    fallocate.argtypes = ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64

    def full(descriptor: Any, number: int, argument: Any = 0) -> Any:
        if number == F_FULLFSYNC:
            sync(descriptor)
            return 0
        if number == F_PUNCHHOLE:
            flags, unused, offset, size = HOLE.unpack(argument)
            if flags or unused or fallocate(descriptor, 3, offset, size):
                raise OSError(ctypes.get_errno() or errno.EINVAL, "fallocate")
            return argument
        return command(descriptor, number, argument)

    def cached(descriptor: Any) -> None:
        os.fstat(descriptor if isinstance(descriptor, int) else descriptor.fileno())

    vars(fcntl).update(F_FULLFSYNC=F_FULLFSYNC, fcntl=full)
    vars(os).update(fsync=cached, O_DSYNC=0, O_SYNC=0)


def _limit_open_files() -> None:
    limit = resource.setrlimit

    def limited(kind: int, limits: tuple[int, int]) -> None:
        beyond = kind == resource.RLIMIT_NOFILE and not 0 <= limits[0] <= OPEN_MAX
        if beyond and not _asked_by_a_test(sys._getframe(1)):
            raise ValueError("current limit exceeds maximum limit")
        limit(kind, limits)

    vars(resource).update(setrlimit=limited)


def _refuse(event: str, arguments: tuple[Any, ...]) -> None:
    """Refuse files of the kernel's, and sockets with long names (an audit hook)."""
    if event in ("open", "os.listdir", "os.scandir"):
        path = arguments[0]
        if isinstance(path, str) and path.startswith(CLOSED) and not _asked_by_a_test(sys._getframe(1)):
            raise FileNotFoundError(errno.ENOENT, "there is none on macOS", path)
    elif event in ("socket.bind", "socket.connect"):
        address = arguments[1]
        if isinstance(address, str | bytes) and len(os.fsencode(address)) > SOCKET_PATH_BYTES_MAX:
            raise OSError("AF_UNIX path too long")


def _asked_by_a_test(frame: FrameType | None) -> bool:
    """Return whether the first function of this checkout among the callers belongs to the tests."""
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(ROOT) and "site-packages" not in file and file != __file__:
            return file.startswith(OWN_PLACES)
        frame = frame.f_back
    return False


_take_away()
_sync_as_macos()
_limit_open_files()
sys.modules["select"] = _Select("select")
sys.addaudithook(_refuse)
