"""How the tests explore a record: in several processes at once, with a failure that says how to repeat it."""

from __future__ import annotations

import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed

import pytest

from tests.durability.crash.explorer import Findings, read
from tests.durability.crash.recording.recorder import PROJECT, Recording
from tools.c_compiler import compiler

SEED = 20261
SHARES = 2

needs_compiler = pytest.mark.skipif(not compiler(), reason="the recorder is written in C and there is no compiler")


def explored(recording: Recording, states: int = 0, *, first: bool = False) -> Findings:
    """Check the states of a recording: about so many of them, or until the first failure."""
    command = [sys.executable, "-m", "tests.durability.crash", "explore", str(recording.home)]
    options = ["--states", str(states), "--shares", str(SHARES), *["--first"] * first]
    running = [
        subprocess.Popen([*command, *options, "--share", str(share)], stdout=subprocess.PIPE, cwd=PROJECT)
        for share in range(SHARES)
    ]
    with ThreadPoolExecutor(SHARES) as threads:
        shares = []
        for output in as_completed([threads.submit(_output, process) for process in running]):
            shares.append(output.result())
            if first and shares[-1].failed:  # what the others would find is of no interest
                for process in running:
                    process.terminate()
                break
    return Findings(
        sum(share.states for share in shares),
        sum(share.judged for share in shares),
        sum(share.failed for share in shares),
        [failure for share in shares for failure in share.failures],
    )


def _output(process: subprocess.Popen[bytes]) -> Findings:
    output = process.communicate()[0]
    return read(output) if process.returncode != 128 + signal.SIGTERM else Findings(0, 0, 0, [])


def told(recording: Recording, findings: Findings) -> list[str]:
    """The failures, each with the command that repeats it."""
    return [
        f"{failure.problem}\n  python -m tests.durability.crash replay {recording.home} {failure.place}"
        for failure in findings.failures
    ]
