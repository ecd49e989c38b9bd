"""`leveret restore`: replaces the contents of a data directory by those of a backup, as a new timeline.

The backup is copied into a subdirectory, checked and opened there, and only then exchanged for the old files, which
are kept in another subdirectory (`storage/restored_files.py`).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from broker.admin.protocol import AdministrationError
from broker.config import Config
from broker.server import directory_lock
from broker.server.offline.offline_check import problems_of
from broker.server.recovery import (
    DEFINITIONS_FILE,
    MESSAGES_DIRECTORY,
    REPLACED,
    STORE_FILES,
    Stores,
    logged_boot,
    open_stores,
)
from storage import restored_files, synced_files
from storage.lock_file import BROKER, is_locked
from storage.messages import lmdb_environment
from storage.messages.start.journal_replay import known_boot
from storage.restored_files import PREPARING
from storage.storage_errors import StoreError, StoreLocked


class QueueContents(NamedTuple):
    """A durable queue and the number of its messages."""

    vhost: str
    name: str
    messages: int


class Restored(NamedTuple):
    """The outcome: contents of the directory, the boot it begins with, and the directory of the old files, if any.

    `messages`: of all queues, and of exchanges with delayed messages.
    """

    queues: list[QueueContents]
    messages: int
    boot: int
    replaced: Path | None


def restore(config: Config, backup: Path, *, replace: bool) -> Restored:
    """Restore a backup into the data directory of the settings.

    Raises AdministrationError `not_found` and `already_exists`, StoreLocked while a broker or a command uses either
    directory, StoreError for a damaged backup, and OSError; the data directory is then unchanged.
    """
    _refuse_no_backup(backup)
    return replace_contents(config, str(backup), lambda fresh: _copy_backup(backup, fresh), replace=replace)


def replace_contents(config: Config, source: str, fill: Callable[[Path], None], *, replace: bool) -> Restored:
    """Replace the data directory's contents by those that `fill` writes into a directory: a backup named `source`.

    Raises as `restore` does, and what `fill` raises.
    """
    directory = config.server.directory
    os.umask(0o077)
    synced_files.make_directory(directory)
    with directory_lock.for_command(directory):
        restored_files.finish(directory, REPLACED)
        if not replace and any((directory / name).exists() for name in REPLACED):
            raise AdministrationError(
                "already_exists", f"{directory} holds a broker's data: --replace keeps it in a directory beside the new"
            )
        fresh = directory / PREPARING
        shutil.rmtree(fresh, ignore_errors=True)
        known = max(_known_boot(directory), logged_boot(config))
        try:
            restored = _prepare(source, fill, fresh, known)
        except BaseException:
            shutil.rmtree(fresh, ignore_errors=True)
            raise
        for leftover in set(fresh.iterdir()) - {fresh / name for name in STORE_FILES}:
            leftover.unlink()  # locks
        return restored._replace(replaced=restored_files.exchange(directory, REPLACED))


def _refuse_no_backup(backup: Path) -> None:
    for name in (DEFINITIONS_FILE, MESSAGES_DIRECTORY):
        if not (backup / name).exists():
            raise AdministrationError("not_found", f"{backup} is no backup: it has no {name}")
    if is_locked(backup / BROKER):
        raise StoreLocked(f"{backup} is in use by a broker: make a backup of it with `leveret backup`")


def _copy_backup(backup: Path, fresh: Path) -> None:
    for name in STORE_FILES:
        source = backup / name
        if source.is_dir():
            (fresh / name).mkdir(mode=0o700)
            for part in _store_parts(source):
                _copy(part, fresh / name / part.name)
        elif source.exists():
            _copy(source, fresh / name)


def _prepare(source: str, fill: Callable[[Path], None], fresh: Path, known: int) -> Restored:
    """Write, check and open a backup in a directory of its own. Opening begins a new timeline."""
    fresh.mkdir(mode=0o700)
    fill(fresh)
    problems = problems_of(fresh)
    if problems:
        more = f" (and {len(problems) - 1} more: leveret check --data-dir {source})" if len(problems) > 1 else ""
        raise StoreError(f"{source} is damaged: {problems[0]}{more}")
    boot = lmdb_environment.check_identity(fresh / MESSAGES_DIRECTORY, None).boot
    stores = open_stores(fresh, known_boot=max(known, boot + 1))
    assert stores.messages.boot > known, f"boot {stores.messages.boot} begins behind boot {known}"
    try:
        return contents_of(stores)
    finally:
        stores.definitions.close()
        stores.messages.close()
        os.close(stores.lock)


def contents_of(stores: Stores) -> Restored:
    """Return what is in open stores, by queue."""
    lanes = stores.messages.lanes()
    held = {queue_id: sum(state.messages for state in states.values()) for queue_id, states in lanes.items()}
    queues = [QueueContents(row.vhost, row.name, held.get(row.id, 0)) for row in stores.definitions.load().queues]
    return Restored(queues, sum(held.values()), stores.messages.boot, None)


def _store_parts(messages: Path) -> Iterator[Path]:
    """Return the files of a message store without the ballast, which a start writes, and LMDB's table of readers."""
    return (part for part in sorted(messages.iterdir()) if part.is_file() and part.name not in ("ballast", "lock.mdb"))


def _copy(source: Path, target: Path) -> None:
    shutil.copyfile(source, target)
    target.chmod(0o600)
    synced_files.sync_file(target)


def _known_boot(directory: Path) -> int:
    """Return the highest boot that the files in a data directory tell of, as far as they can be read."""
    messages, boot = directory / MESSAGES_DIRECTORY, known_boot(directory / MESSAGES_DIRECTORY)
    with suppress(StoreError, OSError):
        boot = max(boot, lmdb_environment.check_identity(messages, None).boot)
    return boot
