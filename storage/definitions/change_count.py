"""The number of transactions that have changed the definitions, by which a start finds an older file.

The number is in the metadata, and goes up with each transaction. It is also noted beside the file, without a sync, as
a high-water mark: a file with a lower number is older, or its -wal is missing. And each start, and each checkpoint that
is asked for, notes in the metadata the number of the file itself, without its -wal: SQLite applies a -wal to any file
that lies beside it, also an older one.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import final
from urllib.parse import quote

from storage import high_water
from storage.definitions.definition_rows import SetMetadata
from storage.high_water import HighWaterFile, read_high_water

log = logging.getLogger("leveret.definitions")

HIGH_WATER = "definitions.end"
CHANGES = "changes"
"""In the metadata: the number of transactions that have changed something, 8 bytes."""
BASE = "base"
"""In the metadata: the number that the file itself has had at least since the -wal began, 8 bytes."""
BACKUP = "backup"
"""In the metadata of a backup that was not opened yet: its id, which its messages have, too."""


@final
class ChangeCount:
    """The count of one definitions file. Make it before SQLite opens the file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._mark = path.with_name(HIGH_WATER)
        without_wal = _metadata_without_wal(path)
        self._in_file = None if without_wal is None else _number(without_wal, CHANGES)
        self._owner_in_file = (without_wal or {}).get("store_uuid")
        self._owner = b""
        self.number = self._base = 0
        """Numbers of the last transaction, and of the file without its -wal."""
        self._base_is_noted = False
        self._is_backup = False
        self._high_water: HighWaterFile | None = None
        """Made with the first change."""

    def is_of_another(self, metadata: Mapping[str, bytes]) -> bool:
        """Return True if the file without its -wal names another store than with it."""
        return self._owner_in_file not in (None, metadata.get("store_uuid"))

    def missing(self, metadata: Mapping[str, bytes]) -> str:
        """Return a sentence about changes that are missing of a file with this metadata; empty where none are."""
        base = _number(metadata, BASE)
        if self._in_file is not None and self._in_file < base:
            return f"{self._path} is of an earlier moment than its -wal: it has {self._in_file} changes, not {base}"
        lacking = self._reached(metadata) - _number(metadata, CHANGES)
        if lacking <= 0:
            return ""
        return (
            f"{self._path}-wal is missing, or one of both is of an earlier moment: the last {lacking} changes are lost"
        )

    def go_on(self, metadata: Mapping[str, bytes]) -> None:
        """Go on from the file's number, or from the highest that it is known to have had."""
        self._owner = metadata["store_uuid"]
        self._base = _number(metadata, CHANGES) if self._in_file is None else self._in_file
        self.number = max(_number(metadata, CHANGES), self._reached(metadata))
        self._is_backup = bool(metadata.get(BACKUP))

    def _reached(self, metadata: Mapping[str, bytes]) -> int:
        """Return the number that the file is known to have had; 0 for a backup: the mark is not its own."""
        reached = read_high_water(self._mark)
        if metadata.get(BACKUP) or reached is None or reached.owner != metadata.get("store_uuid"):
            return 0
        return reached.number

    def next(self) -> tuple[SetMetadata, ...]:
        """Return the changes of the count that go into the next transaction. Raises OSError.

        The file's own number goes into the first ones of a boot, until one is on disk.

        The mark beside a backup is that of the store before it. It is removed before the first change: after that the
        file is no backup any more, and the mark would report missing changes.
        """
        if self._is_backup and self._high_water is None:
            high_water.forget(self._mark)
        changes = SetMetadata(CHANGES, (self.number + 1).to_bytes(8, "big"))
        return (changes,) if self._base_is_noted else (changes, SetMetadata(BASE, self._base.to_bytes(8, "big")))

    def committed(self) -> None:
        """Note that the transaction is on disk, in the high-water mark, if that can be written."""
        self.number += 1
        self._base_is_noted = True
        try:
            if self._high_water is None:
                self._high_water = HighWaterFile(self._mark)
            self._high_water.note(self._owner, 0, self.number)
        except OSError as error:
            log.warning("%s; how far the definitions go is not noted", error)

    def moved_into_file(self) -> None:
        """Note that the file itself has all changes: the next one says so in the -wal, which begins again."""
        self._base, self._base_is_noted = self.number, False

    def close(self) -> None:
        """Close the high-water mark's file."""
        if self._high_water is not None:
            self._high_water.close()


def _number(metadata: Mapping[str, bytes], key: str) -> int:
    return int.from_bytes(metadata.get(key, b""), "big")


def _metadata_without_wal(path: Path) -> dict[str, bytes] | None:
    """Return the metadata of the file itself; None if it has no -wal, or cannot be read without it."""
    wal = path.with_name(f"{path.name}-wal")
    if not path.exists() or not wal.exists() or not wal.stat().st_size:
        return None
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path.absolute()))}?immutable=1", uri=True)) as connection:
            return dict(connection.execute("SELECT key, value FROM metadata"))
    except sqlite3.Error:
        return None
