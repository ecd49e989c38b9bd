"""Java's archive of Spark's classes: a session with one starts in half the time.

The first job on a machine makes Java write it at its end (-XX:ArchiveClassesAtExit), under a name of its own, and
renames it then: two jobs at once do not collide, and an incomplete archive is never used. Java itself compares the
archive with its own version and with Spark's files, and does not use it if they differ.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

DIRECTORY = "LEVERET_JAVA_CACHE"
"""Variable of the environment: where archives are, empty for nowhere; by default `leveret/java` where caches are."""
FREE_BYTES_MIN = 2 << 30
"""An archive has 160 MB, and is not worth a full disk."""
KEPT = 2
"""Archives that are kept, for as many versions of Java and Spark."""
PART_SECONDS = 86400
"""Age from which on an incomplete archive is deleted."""
QUIET = "-Xshare:auto -Xlog:cds*=off"


class Archive(NamedTuple):
    """The archive for a Java and a Spark; `part` is what this process writes."""

    path: Path
    part: Path

    @property
    def reading(self) -> str:
        """Java's options to use it; none if it is not there."""
        return f"-XX:SharedArchiveFile={self.path} {QUIET}" if self.path.exists() else ""

    @property
    def writing(self) -> str:
        """Java's options to use it, or to write it if it is not there and there is room."""
        if self.path.exists() or not _is_room(self.path.parent):
            return self.reading
        return f"-XX:ArchiveClassesAtExit={self.part} {QUIET}"

    @property
    def when_written(self) -> str:
        """Shell command for a successful end of Java."""
        return f'[ ! -f "{self.part}" ] || mv -f "{self.part}" "{self.path}"'


def archive_for(program: Path, java_version: int) -> Archive | None:
    """Return the archive for a Java; None if it cannot have one, or none is wanted."""
    real = program.resolve()
    base = real.parents[1] / "lib" / "server" / "classes.jsa"  # what an archive is written on top of
    directory = os.environ.get(DIRECTORY, Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "leveret", "java"))
    if not directory or not base.exists():
        return None
    seen = f"{base} {base.stat().st_mtime_ns} {version('pyspark')} {_spark_home()}"
    name = f"spark-{version('pyspark')}-java-{java_version}-{hashlib.sha256(seen.encode()).hexdigest()[:12]}"
    place = Path(directory).expanduser()
    if any(character in str(place) for character in " \"'$`\\"):  # it goes through settings and a shell
        return None
    return Archive(place / f"{name}.jsa", place / f"_tmp.{name}.{os.getpid()}")


def _spark_home() -> str:
    import pyspark

    return str(Path(pyspark.__file__).parent)


def _is_room(directory: Path) -> bool:
    """True if only this user may write there, and the disk has room. Removes older archives."""
    with suppress(OSError):
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        about = directory.stat()
        if about.st_uid != os.getuid() or about.st_mode & 0o022:
            return False
        found = sorted(directory.glob("*.jsa"), key=lambda path: path.stat().st_mtime_ns)
        parts = (path for path in directory.glob("_tmp.*") if path.stat().st_mtime < time.time() - PART_SECONDS)
        for path in (*found[: 1 - KEPT], *parts):
            path.unlink()
        return shutil.disk_usage(directory).free >= FREE_BYTES_MIN
    return False
