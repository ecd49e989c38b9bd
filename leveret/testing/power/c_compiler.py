"""What compiles the C of tests and measurements: the system's compiler, or one that is packaged for Python."""

from __future__ import annotations

import importlib.util
import shutil
import sys

OF_THE_SYSTEM = ("cc", "gcc", "clang")
PACKAGED = "ziglang"
"""`make` installs it where the system has none (the extra `compiler`)."""


def compiler() -> list[str]:
    """The command that takes a C compiler's arguments; empty when there is none."""
    for name in OF_THE_SYSTEM:
        found = shutil.which(name)
        if found:
            return [found]
    return [sys.executable, "-m", PACKAGED, "cc"] if importlib.util.find_spec(PACKAGED) else []
