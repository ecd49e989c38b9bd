"""`leveret backup --keep`: backups of a broker in one directory, named by the time, of which the newest are kept.

Only a backup of the same broker is ever deleted: it has a name of the form that is given here, its store carries the
broker's identity and was never opened as a data directory, and nothing else lies in it. The newest is checked before
another one is deleted, so a good one is always left.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from broker.admin.protocol import AdministrationError
from broker.server.directory_lock import COMMANDS
from broker.server.offline.offline_check import problems_of
from broker.server.recovery import MESSAGES_DIRECTORY, STORE_FILES
from broker.server.store_copies import NEW, alone
from storage import synced_files
from storage.lock_file import BROKER
from storage.messages import lmdb_environment
from storage.storage_errors import StoreError

NAME = re.compile(r"leveret-[0-9]{8}T[0-9]{6}\.[0-9]{3}Z")
DELETED = ".deleted"
"""Ending of a backup that is being deleted: what is left of it is no backup any more."""
OWN = frozenset({*STORE_FILES, *(f"{place}.lock" for place in (BROKER, COMMANDS, MESSAGES_DIRECTORY))})
"""The names in a backup; the locks are those of `leveret check` and `leveret inspect`."""


def name_at(now: datetime) -> str:
    """Return the name of a backup that begins now, which is in UTC. Names sort by time."""
    return f"leveret-{now:%Y%m%dT%H%M%S}.{now.microsecond // 1000:03}Z"


def time_of(name: str) -> float:
    """Return the time of a backup by its name, in seconds since the epoch."""
    return datetime.strptime(name, "leveret-%Y%m%dT%H%M%S.%fZ").replace(tzinfo=UTC).timestamp()


def named_backups(directory: Path) -> list[Path]:
    """Return the directories that are named as backups, newest first. Raises OSError."""
    found = directory.iterdir() if directory.exists() else ()
    named = (path for path in found if NAME.fullmatch(path.name) and path.is_dir())
    return sorted(named, key=lambda path: path.name, reverse=True)


def keep_newest(newest: Path, number: int) -> list[Path]:
    """Delete the oldest backups beside `newest`, which has just been made, until `number` are left with it.

    Returns those that were deleted. Raises StoreError, with none deleted, if `newest` is damaged; OSError.
    """
    directory = newest.parent
    _clear_away(directory)
    surplus = _others(newest)[number - 1 :]
    damage = _damage(newest) if surplus else ""
    if damage:
        raise StoreError(f"{newest} is damaged: {damage}; no other backup was deleted")
    for each in surplus:
        _delete(each)
    return surplus


def _damage(backup: Path) -> str:
    """Return what is wrong with a backup, in which all is read; empty if nothing is."""
    try:
        return next(iter(problems_of(backup)), "")
    except StoreError as error:
        return str(error)


def _others(newest: Path) -> list[Path]:
    """Return the other backups of the same broker, newest first."""
    uuid = lmdb_environment.check_identity(newest / MESSAGES_DIRECTORY, None).uuid
    return [each for each in named_backups(newest.parent) if each != newest and _is_backup_of(uuid, each)]


def _is_backup_of(uuid: bytes, path: Path) -> bool:
    messages = path / MESSAGES_DIRECTORY
    try:
        if path.is_symlink() or not _is_plain(path):
            return False
        lmdb_environment.check_identity(messages, uuid)
        return lmdb_environment.origin_of(messages).pending
    except (StoreError, OSError):
        return False


def _is_plain(path: Path) -> bool:
    """Return whether nothing lies in a directory that is not of a backup."""
    return {each.name for each in path.iterdir()} <= OWN


def _delete(backup: Path) -> None:
    """Delete a backup: from its new name on it is none, also if a crash leaves half of it."""
    gone = backup.with_name(backup.name + DELETED)
    backup.rename(gone)
    synced_files.sync_directory(backup.parent)
    shutil.rmtree(gone)


def _clear_away(directory: Path) -> None:
    """Remove the rests of backups that a crash has cut short, and of deleted ones."""
    for rest in _rests(directory, DELETED):
        shutil.rmtree(rest)
    for rest in _rests(directory, NEW):
        with suppress(AdministrationError), alone(rest):  # else it is being written
            shutil.rmtree(rest)


def _rests(directory: Path, ending: str) -> Iterator[Path]:
    for path in sorted(directory.iterdir()):
        named = path.name.endswith(ending) and NAME.fullmatch(path.name.removesuffix(ending))
        if named and not path.is_symlink() and path.is_dir() and _is_plain(path):
            yield path
