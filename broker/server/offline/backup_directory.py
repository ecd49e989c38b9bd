"""The directory of backups that the settings name, for the page: `kept_backups`, loaded when it is asked for."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from broker.config import BackupSettings


class BackupDirectory:
    """Lists the backups in it, and deletes the oldest. `directory` is empty if the settings name none."""

    def __init__(self, settings: BackupSettings) -> None:
        self.directory = str(Path(settings.directory).absolute()) if settings.directory else ""
        self.keep = settings.keep

    def rows(self) -> list[dict[str, Any]]:
        """Return name, time (seconds since the epoch) and bytes of each backup, newest first. Raises OSError."""
        from broker.server.offline.kept_backups import named_backups, time_of

        found = named_backups(Path(self.directory))
        return [{"name": path.name, "time": time_of(path.name), "bytes": _bytes_in(path)} for path in found]

    def next(self) -> Path:
        """Return the path of a backup that begins now."""
        from broker.server.offline.kept_backups import name_at

        return Path(self.directory) / name_at(datetime.now(UTC))

    def keep_newest(self, newest: Path) -> list[str]:
        """Delete the oldest, as `leveret backup --keep` does; return their names. Raises StoreError and OSError."""
        from broker.server.offline.kept_backups import keep_newest

        return [path.name for path in keep_newest(newest, self.keep)]


def _bytes_in(directory: Path) -> int:
    """Return the bytes on the disk of the files in a directory; 0 if it is being deleted."""
    try:
        return sum(path.stat().st_blocks * 512 for path in directory.rglob("*"))
    except FileNotFoundError:
        return 0
