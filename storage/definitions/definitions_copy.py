"""A copy of a definitions file, for reading: SQLite writes beside a file that it only reads, and into its -wal."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from storage.storage_errors import StoreError

ENDINGS = ("", "-wal")
"""The files that SQLite keeps definitions in."""


@contextmanager
def copied(path: Path) -> Iterator[Path]:
    """Yield a copy of the file and its -wal, and delete it afterwards. Raises StoreError, also where no temporary
    directory has room."""
    with ExitStack() as scratch:
        try:
            copy = Path(scratch.enter_context(tempfile.TemporaryDirectory(prefix="leveret-")), path.name)
            for ending in ENDINGS:
                part = path.with_name(path.name + ending)
                if part.exists():
                    shutil.copyfile(part, copy.with_name(part.name))
        except OSError as error:
            raise StoreError(f"{path} cannot be copied to be read ({error}): see that this user may read it") from error
        yield copy
