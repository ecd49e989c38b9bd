"""Exchange of the files of a data directory for restored ones, safe against a crash at any moment.

The restored files are written into a subdirectory of the data directory, which may be the root of a volume. While it is
named `restoring` it is incomplete, and nothing else was touched. Renamed to `restored` it is complete; from then on any
process that holds the directory's lock continues an interrupted exchange: the old files are moved into its
subdirectory `replaced`, it is renamed to `restored-in`, and the new files are moved out of it. Steps may be repeated.
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
"""Incomplete: the next restore removes it."""
_PREPARED, _MOVING_IN = "restored", "restored-in"
_OLD = "replaced"


def exchange(directory: Path, names: Sequence[str]) -> Path | None:
    """Exchange the files of these names for the prepared ones. Returns where the old ones are kept, None without any.

    Raises OSError; `finish` then continues.
    """
    preparing = directory / PREPARING
    for path in (*preparing.rglob("*"), preparing):
        if path.is_dir():
            sync_directory(path)
    preparing.rename(directory / _PREPARED)
    sync_directory(directory)
    return _exchange(directory, names)


def finish(directory: Path, names: Sequence[str]) -> None:
    """Continue an interrupted exchange, if there is one. The caller holds the lock. Raises OSError."""
    if is_unfinished(directory):
        kept = _exchange(directory, names)
        log.warning(
            "finished an interrupted restore into %s; the files that were there before are in %s", directory, kept
        )


def is_unfinished(directory: Path) -> bool:
    """True if an exchange was interrupted."""
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
