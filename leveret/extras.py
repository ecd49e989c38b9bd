"""Extras of Leveret, and the command that installs one in this environment."""

from __future__ import annotations

import importlib.util
import shlex
import sys

from leveret.own_program import IN_ONE_DIRECTORY


def how_to_install(extra: str) -> str:
    """Return the command that installs an extra into the environment of this process.

    It names the environment's Python, because `pip` may be another's. For an environment without pip it is another
    pip's command. The installed version of Leveret stays. The single directory takes no extras: there it is the command
    that installs a checkout.
    """
    pip, installed = "pip", "."
    if not IN_ONE_DIRECTORY:
        python, installed = shlex.quote(sys.executable), "leveret"
        pip = f"{python} -m pip" if importlib.util.find_spec("pip") else f"pip --python {python}"
    return f"{pip} install '{installed}[{extra}]'"
