"""Permissions of the data directory: its files hold messages and hashes of passwords, so only their owner may read."""

from __future__ import annotations

import logging
import os
import stat
from pathlib import Path

log = logging.getLogger("leveret.server")

OTHERS = stat.S_IRWXG | stat.S_IRWXO
OURS = ("definitions.sqlite*", "definitions.end", "messages", "messages/*", "*.lock", "leveret.sock")


def keep_private(directory: Path) -> None:
    """Remove the permissions of group and others from our files: an older umask or a copy may have given some.

    The directory itself may hold other files: if it is open to others, that is only logged.
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
        log.warning("%s may be read by others and belongs to another user: its owner should chmod it", path)
        return
    path.chmod(stat.S_IMODE(status.st_mode) & ~OTHERS)
    log.warning("%s was open to others (mode %04o): permissions of others removed", path, status.st_mode & 0o7777)
