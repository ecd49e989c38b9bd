"""Chooses the process that a program with this environment is a copy of: loading the program takes most of a start.

Of what an environment changes about a program, two things can still be changed in a copy: `tests/planted` puts
something in the place of its parts, and the recorder and the injector begin to look at files (LD_PRELOAD). Programs
with such an environment are copies of a process of their own, which has loaded the same and has begun nothing yet.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from harness.project import ROOT
from leveret.testing.broker_copies import Copies, copies_of, environment

PLANTED = str(ROOT / "tests" / "planted")
"""Directory of the `sitecustomize` that can change a program which is loaded."""
LIBRARIES = {"recorder.so", "injector.so"}
"""Libraries that can begin in a process which has loaded them before."""
CHANGED_LATER = "CHANGED_LATER"
"""Variable of the process of which copies are made: nothing is changed in it."""
AT_ITS_START = {"JUMPING"}
"""Variables of a change that has to come before the program is loaded."""
CHANGEABLE = {"PYTHONPATH", "LD_PRELOAD"}

Loading = dict[str, str]


def copies_with(wanted: Mapping[str, str] | None) -> Copies | None:
    """Return the process whose copies do what a program with the environment `wanted` does; None is that of the tests.

    There is none for an environment in which other modules or libraries are loaded.
    """
    ours, theirs = loading(os.environ), loading(os.environ if wanted is None else wanted)
    if ours == theirs:
        return copies_of(os.getpid())
    differing = {name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name)}
    if not differing <= CHANGEABLE or wanted is None or AT_ITS_START & wanted.keys():
        return None
    first = theirs.get("PYTHONPATH", "").partition(os.pathsep)[0]
    if "PYTHONPATH" in differing and first != PLANTED:
        return None
    if "LD_PRELOAD" in differing and Path(theirs.get("LD_PRELOAD", "")).name not in LIBRARIES:
        return None
    return _copies_that_load(os.getpid(), tuple(sorted(theirs.items())))


def copies_that_run_modules(wanted: Mapping[str, str] = os.environ) -> Copies | None:
    """Return the process whose copies run `python -m MODULE` with the program loaded, in the environment `wanted`.

    There is none for an environment in which other modules or libraries are loaded than here.
    """
    ours = loading(os.environ)
    return _copies_that_load(os.getpid(), tuple(sorted(ours.items()))) if ours == loading(wanted) else None


def loading(variables: Mapping[str, str]) -> Loading:
    """Return the variables that say which modules and libraries a process loads."""
    return {name: value for name, value in variables.items() if name.startswith(("PYTHON", "LD_"))}


@cache
def _copies_that_load(pid: int, variables: tuple[tuple[str, str], ...]) -> Copies:
    usual = environment()
    theirs = {**usual, **dict(variables), CHANGED_LATER: "1"}
    paths = [dict(variables).get("PYTHONPATH"), usual.get("PYTHONPATH"), str(ROOT)]
    theirs["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    copies = Copies(theirs, [sys.executable, "-P", "-m", "harness.forked.changed_template"])
    atexit.register(copies.close)
    return copies
