"""The lock of a data directory, for one broker, or for one command at a time while no broker runs.

A command on a stopped broker's data holds the broker's lock too, for a moment. It also holds a second lock,
by which a start in that moment knows that it is a command, not another broker, and waits.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from storage.lock_file import BROKER
from storage.messages import lmdb_environment
from storage.storage_errors import StoreLocked

log = logging.getLogger("leveret.recovery")

COMMANDS = "command"
COMMAND_SECONDS = 30.0
"""Longest time that a start, or a command, waits for another command."""
LOOK_SECONDS = 0.02


def lock(directory: Path) -> int:
    """Lock a data directory for a broker, after a command that uses it; return a descriptor for the caller to close.

    Raises StoreLocked if a broker runs there, or a command takes longer than COMMAND_SECONDS; StoreError.
    """
    waiting, deadline = False, time.monotonic() + COMMAND_SECONDS
    while time.monotonic() < deadline:
        try:
            return lmdb_environment.lock(directory / BROKER)
        except StoreLocked:
            known = _lock_of_commands(directory)
            if known is not None:
                os.close(known)
                break
        if not waiting:
            log.info("waiting for a command that uses %s", directory)
            waiting = True
        time.sleep(LOOK_SECONDS)
    return lmdb_environment.lock(directory / BROKER)  # a command may have ended just now; else this raises StoreLocked


@contextmanager
def for_command(directory: Path) -> Iterator[int]:
    """Lock a data directory for a command, after other commands. Raises as `lock` does."""
    deadline = time.monotonic() + COMMAND_SECONDS
    while (known := _lock_of_commands(directory)) is None:
        if time.monotonic() > deadline:
            raise StoreLocked(f"{directory} is in use by another command: wait until it has ended")
        time.sleep(LOOK_SECONDS)
    with ExitStack() as undo:
        undo.callback(os.close, known)
        held = lmdb_environment.lock(directory / BROKER)
        undo.callback(os.close, held)
        yield held


def _lock_of_commands(directory: Path) -> int | None:
    """Take the lock of commands and return its descriptor, for the caller to close; None if a command holds it."""
    with suppress(StoreLocked):
        return lmdb_environment.lock(directory / COMMANDS)
    return None
