"""Commands of other programs, such as a language's test runner, that have to succeed."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path


def passed(command: Sequence[str], directory: Path, environment: Mapping[str, str], *, seconds: float) -> str:
    """Run a command to its end within `seconds`; return its output. Fails, with all of it, unless it exits with 0."""
    run = subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, timeout=seconds, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout
