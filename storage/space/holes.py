"""Holes in files: parts that read as zeros and take no room on the disk. Linux and macOS each have a call for them."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import struct
from collections.abc import Callable

UNSUPPORTED = frozenset({errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL, errno.ENODEV, errno.ENOTTY})
"""Errors of a system, or a file system, that makes no holes."""

_KEEP_SIZE, _PUNCH_HOLE = 1, 2
"""FALLOC_FL_KEEP_SIZE and FALLOC_FL_PUNCH_HOLE of linux/falloc.h."""
_F_PUNCHHOLE = 99
"""The command of macOS's sys/fcntl.h. It takes whole blocks of the file system, as LMDB's pages are."""
_HOLE = struct.Struct("=IIqq")
"""Its argument fpunchhole: flags and an unused number, both 0; offset, length."""

Punch = Callable[[int, int, int], None]
"""Makes a hole: descriptor, offset, size. Raises OSError."""


def _punching() -> Punch | None:
    """Return the system's way to make a hole; None if it has none."""
    if hasattr(fcntl, "F_FULLFSYNC"):
        return _punch_on_macos
    library = ctypes.CDLL(None, use_errno=True)
    # musl has 64 bits by the plain name alone.
    fallocate = getattr(library, "fallocate64", None) or getattr(library, "fallocate", None)
    if fallocate is None:
        return None
    fallocate.argtypes = ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64

    def punch(descriptor: int, offset: int, size: int) -> None:
        if fallocate(descriptor, _KEEP_SIZE | _PUNCH_HOLE, offset, size):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))

    return punch


def _punch_on_macos(descriptor: int, offset: int, size: int) -> None:
    fcntl.fcntl(descriptor, _F_PUNCHHOLE, _HOLE.pack(0, 0, offset, size))


punch_hole = _punching()
"""Makes a hole; None where the system has none."""
