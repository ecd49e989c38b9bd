"""A user's project with packages that are called as the broker's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from leveret import NAMES


@contextmanager
def foreign_packages() -> Iterator[Path]:
    """A directory with them: importing one fails."""
    with TemporaryDirectory(prefix="leveret-foreign-") as directory:
        for name in NAMES:
            (Path(directory) / name).mkdir()
            (Path(directory) / name / "__init__.py").write_text('raise ImportError("this is a package of the user")\n')
        yield Path(directory)
