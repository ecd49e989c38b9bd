"""The command that starts Leveret's program again in a process of its own.

An installation's program is Python with a module; that of the single directory (`make single`) is one file, which takes
no option of Python's.
"""

from __future__ import annotations

import os
import sys

TEMPLATE = "fork-template"
"""First argument of the process from which brokers for tests are forked; the second is a descriptor of its socket."""
IN_ONE_DIRECTORY = hasattr(sys, "frozen")
"""This is the program of the single directory: there is no Python that others could use."""


def program() -> list[str]:
    """Return the command; arguments of `leveret` follow."""
    if IN_ONE_DIRECTORY:
        return [sys.executable]
    return [sys.executable, "-P", "-m", "leveret"]


def restore_environment() -> None:
    """Take out of the environment where this program has its libraries: those of a child process are its own.

    PyInstaller's loader sets these variables before Python starts.
    """
    before = os.environ.pop("LD_LIBRARY_PATH_ORIG", None)
    os.environ.pop("LD_LIBRARY_PATH", None)
    if before is not None:
        os.environ["LD_LIBRARY_PATH"] = before
    for name in [name for name in os.environ if name.startswith("_PYI_")]:
        del os.environ[name]
