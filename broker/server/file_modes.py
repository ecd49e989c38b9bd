"""What is in the data directory is its owner's alone: it holds messages and hashes of passwords."""

from __future__ import annotations

import logging
import os
import stat
from pathlib import Path

log = logging.getLogger("leveret.server")

OTHERS = stat.S_IRWXG | stat.S_IRWXO
OURS = ("definitions.sqlite*", "definitions.end", "messages", "messages/*", "*.lock", "leveret.sock")


def keep_private(directory: Path) -> None:
    """Take from others what they may do with our files, which an older umask or a copy may have given them.

    The directory itself may hold more than ours: that it is open to others is only said.
    """
    for pattern in OURS:
        for path in directory.glob(pattern):
            _close(path)
    mode = directory.stat().st_mode
    if mode & OTHERS:
        log.warning("the data directory %s is open to others (mode %04o): chmod 700", directory, mode & 0o7777)


def _close(path: Path) -> None:
    status = path.lstat()
    if stat.S_ISLNK(status.st_mode) or not status.st_mode & OTHERS:
        return
    if status.st_uid != os.geteuid():
        log.warning("%s is open to others and not ours to change: its owner should chmod it", path)
        return
    path.chmod(stat.S_IMODE(status.st_mode) & ~OTHERS)
    log.warning("%s was open to others (mode %04o), and is not any more", path, status.st_mode & 0o7777)
