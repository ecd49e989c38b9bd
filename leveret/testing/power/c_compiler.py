"""The C compiler for tests and measurements: the system's, or one packaged for Python."""

from __future__ import annotations

import importlib.util
import shutil
import sys

OF_THE_SYSTEM = ("cc", "gcc", "clang")
PACKAGED = "ziglang"
"""`make` installs it if the system has none (the extra `compiler`)."""


def compiler() -> list[str]:
    """Return the command that takes a C compiler's arguments; empty if there is none."""
    for name in OF_THE_SYSTEM:
        found = shutil.which(name)
        if found:
            return [found]
    return [sys.executable, "-m", PACKAGED, "cc"] if importlib.util.find_spec(PACKAGED) else []
