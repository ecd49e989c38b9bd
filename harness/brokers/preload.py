"""Libraries in C that stand between a process and the system (LD_PRELOAD), compiled when they are first wanted."""

from __future__ import annotations

import atexit
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from tools.c_compiler import compiler

HEADERS = Path(__file__).parent


@cache
def library(source: Path) -> Path:
    """A library of one source, in a directory that is this process's own and goes with it."""
    command = compiler()
    assert command, "asked for only when there is a compiler"
    directory = Path(tempfile.mkdtemp(prefix="leveret-preload-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    target = directory / source.with_suffix(".so").name
    flags = ["-shared", "-fPIC", "-O1", "-Wall", "-Werror", f"-I{HEADERS}"]
    subprocess.run(
        [*command, *flags, "-o", str(target), str(source), "-ldl", "-lpthread"], check=True, capture_output=True
    )
    return target
