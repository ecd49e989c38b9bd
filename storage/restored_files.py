"""Files that a restore has made take the place of those that were there, whatever moment the process ends at.

They are made in a subdirectory of the data directory, which may be the root of a volume. What is in `restoring` is not
whole yet, and nothing was touched. Renamed to `restored` it is; from then on whoever has the directory for itself goes
on where the restore has ended: first the old files are moved into the subdirectory `replaced` of it, then it is renamed
to `restored-in`, and the new files are moved out of it. Each step may be repeated.
"""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from storage.synced_files import sync_directory

log = logging.getLogger("leveret.recovery")

PREPARING = "restoring"
"""Not whole: the next restore removes it."""
_PREPARED, _MOVING_IN = "restored", "restored-in"
_OLD = "replaced"


def exchange(directory: Path, names: Sequence[str]) -> Path | None:
    """Put what was prepared into the place of the files of these names, which are kept; where, if there were any.

    Raises OSError; then `finish` goes on.
    """
    preparing = directory / PREPARING
    for path in (*preparing.rglob("*"), preparing):
        if path.is_dir():
            sync_directory(path)
    preparing.rename(directory / _PREPARED)
    sync_directory(directory)
    return _exchange(directory, names)


def finish(directory: Path, names: Sequence[str]) -> None:
    """Go on with an exchange that was cut short, if there is one. The caller has the lock. Raises OSError."""
    if is_unfinished(directory):
        kept = _exchange(directory, names)
        log.warning("a restore into %s was cut short, and is finished now; what was there is in %s", directory, kept)


def is_unfinished(directory: Path) -> bool:
    """An exchange was cut short."""
    return (directory / _PREPARED).exists() or (directory / _MOVING_IN).exists()


def _exchange(directory: Path, names: Sequence[str]) -> Path | None:
    prepared, moving_in = directory / _PREPARED, directory / _MOVING_IN
    if prepared.exists():
        old = prepared / _OLD
        old.mkdir(mode=0o700, exist_ok=True)
        _move(names, directory, old)
        prepared.rename(moving_in)
        sync_directory(directory)
    _move(names, moving_in, directory)
    kept = _keep(directory, moving_in / _OLD)
    shutil.rmtree(moving_in)
    sync_directory(directory)
    return kept


def _move(names: Sequence[str], source: Path, target: Path) -> None:
    for name in names:
        if (source / name).exists():
            (source / name).rename(target / name)
    sync_directory(target)
    sync_directory(source)


def _keep(directory: Path, old: Path) -> Path | None:
    if not old.exists() or not any(old.iterdir()):
        return None
    kept = directory / time.strftime("replaced-%Y%m%dT%H%M%S", time.gmtime())
    while kept.exists():
        kept = kept.with_name(f"{kept.name}x")
    old.rename(kept)
    sync_directory(directory)
    return kept
