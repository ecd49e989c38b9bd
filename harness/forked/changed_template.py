"""The process of which changed programs are copies. Each is changed by its environment, and then runs a command line:
`leveret`'s, or `-m MODULE` with arguments."""

from __future__ import annotations

import ctypes
import os
import runpy
import sys

from broker.cli.main import main
from broker.cli.testing.template_process import run


def begin(arguments: list[str]) -> None:
    """Change this copy, and run its command line."""
    if library := os.environ.get("LD_PRELOAD"):
        ctypes.CDLL(library).preload_begin()
    change = getattr(sys.modules.get("sitecustomize"), "change_program", None)
    if change is not None:
        change()
    if arguments[0] != "-m":
        main(arguments)
    sys.argv = ["", *arguments[2:]]
    runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    sys.exit()


if __name__ == "__main__":
    run(int(sys.argv[1]), begin)
