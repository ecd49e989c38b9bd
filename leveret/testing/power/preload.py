"""C libraries between a process and the system (LD_PRELOAD), compiled at their first use."""

from __future__ import annotations

import atexit
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from leveret.testing.power.c_compiler import compiler
from leveret.testing.testing_errors import LeveretError

HEADERS = Path(__file__).parent
NOT_LINUX = "a power failure is played on Linux alone, by LD_PRELOAD"
NO_COMPILER = "a power failure needs a C compiler, cc, gcc or clang: install one, or `pip install ziglang`"


@cache
def library(source: Path) -> Path:
    """Compile a library from one source file, into a temporary directory of this process.

    Raises LeveretError on other systems than Linux, and if there is no compiler, or it fails.
    """
    if sys.platform != "linux":
        raise LeveretError(NOT_LINUX)
    command = compiler()
    if not command:
        raise LeveretError(NO_COMPILER)
    directory = Path(tempfile.mkdtemp(prefix="leveret-preload-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    target = directory / source.with_suffix(".so").name
    flags = ["-shared", "-fPIC", "-O1", "-Wall", "-Werror", f"-I{HEADERS}"]
    compiling = [*command, *flags, "-o", str(target), str(source), "-ldl", "-lpthread"]
    ended = subprocess.run(compiling, check=False, capture_output=True, text=True)
    if ended.returncode:
        raise LeveretError(f"{source.name} does not compile: {' '.join(compiling)}\n{ended.stderr}")
    return target
