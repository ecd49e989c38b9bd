"""The lock of a data directory: for one broker, or for commands one after the other while none runs.

The broker's lock keeps everybody else out. A command on a stopped broker's data holds it, too, for a moment; so that
a start in that moment waits and does not take it for another broker, commands are known by a second lock.
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
"""How long a start, or another command, waits for a command to end."""
LOOK_SECONDS = 0.02


def lock(directory: Path) -> int:
    """Lock a data directory for a broker: a descriptor to close in the end.

    Waits for a command that is at work. Raises StoreLocked while a broker runs there, and when the command takes too
    long; StoreError.
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
    return lmdb_environment.lock(directory / BROKER)  # free, if a command has just ended


@contextmanager
def for_command(directory: Path) -> Iterator[int]:
    """Lock a data directory for a command, after those at work. Raises as `lock` does."""
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
    """A descriptor of the lock that commands hold, to close in the end; None while another command holds it."""
    with suppress(StoreLocked):
        return lmdb_environment.lock(directory / COMMANDS)
    return None
