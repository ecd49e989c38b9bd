"""What can be installed beside the broker, and the command that does it here."""

from __future__ import annotations

import importlib.util
import shlex
import sys


def how_to_install(extra: str) -> str:
    """The command that puts an extra of Leveret into the environment of this process.

    It names the environment's Python: a `pip` at hand may be another's. Without a pip of its own the environment is
    for another pip to install into. What is installed of Leveret stays.
    """
    python = shlex.quote(sys.executable)
    pip = f"{python} -m pip" if importlib.util.find_spec("pip") else f"pip --python {python}"
    return f"{pip} install 'leveret[{extra}]'"
