"""Libraries in C that stand between a process and the system (LD_PRELOAD), compiled when they are first wanted."""

from __future__ import annotations

import atexit
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

HEADERS = Path(__file__).parent


def compiler() -> str | None:
    """A C compiler, if there is one."""
    return shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


@cache
def library(source: Path) -> Path:
    """A library of one source, in a directory that is this process's own and goes with it."""
    cc = compiler()
    assert cc, "asked for only when there is a compiler"
    directory = Path(tempfile.mkdtemp(prefix="leveret-preload-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    target = directory / source.with_suffix(".so").name
    flags = ["-shared", "-fPIC", "-O1", "-Wall", "-Werror", f"-I{HEADERS}"]
    command = [cc, *flags, "-o", str(target), str(source), "-ldl", "-lpthread"]
    subprocess.run(command, check=True, capture_output=True)
    return target
