"""The job as a process that is killed, or parts of it are, and started again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from harness.project import ROOT
from harness.waiting import eventually
from tests.durability.stream_kills.numbered_messages import Row

COMMIT_SECONDS = 360
"""Longest wait for a batch, also on a busy machine where Spark gives up some Python that starts too slowly."""
PARTS = {
    "planner": "python_streaming_source_runner",
    "executor": "CoarseGrainedExecutorBackend",
    "worker": "pyspark.daemon",
}
"""Processes to kill, each with a part of its command line. A planner is the Python of a source beside the driver."""


class Job:
    """The job, taken over by another driver whenever its own was killed: that has been started ahead, and waits."""

    def __init__(self, addresses: Mapping[str, tuple[str, int]], name: str, directory: Path) -> None:
        """`addresses` of brokers by their labels; `name` begins the names of their queues."""
        scratch = directory / "scratch"
        scratch.mkdir(exist_ok=True)
        self._arguments = (json.dumps(addresses), name, str(directory))
        self._commits = directory / "checkpoint" / "commits"
        settings = {"PYTHONPATH": str(ROOT), "TMPDIR": str(scratch), "SPARK_LOCAL_DIRS": str(scratch)}
        self._environment = {**os.environ, **settings}
        self._log = (directory / "job.log").open("ab")
        self._process: subprocess.Popen[bytes] | None = None
        self._waiting: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the job unless it runs."""
        if self._process is None:
            self._process, self._waiting = self._waiting or self._driver(), None
            assert self._process.stdin is not None
            with suppress(BrokenPipeError):  # if it has ended, that is told when a batch is awaited
                self._process.stdin.write(b"begin\n")
                self._process.stdin.flush()

    def _driver(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.durability.stream_kills.archiving_job", *self._arguments],
            cwd=ROOT,
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            start_new_session=True,
        )

    def rows(self) -> list[Row]:
        """Have the job write all that is left and end; return what is in the files."""
        self.start()
        assert self._process is not None
        output, _ = self._process.communicate(b"end\n")
        assert self._process.returncode == 0, f"the job ended with {self._process.returncode}: see {self._log.name}"
        self._process = None
        return [Row.read(line) for line in output.splitlines()]

    def await_commit(self) -> None:
        """Return when another batch has been committed; then the next driver is started ahead, too."""
        known = self._committed()

        def is_committed() -> bool:
            assert self._process is not None
            assert self._process.poll() is None, f"the job has ended by itself: see {self._log.name}"
            return self._committed() > known

        eventually(is_committed, "a batch to be committed", seconds=COMMIT_SECONDS)
        if self._waiting is None:
            self._waiting = self._driver()

    def _committed(self) -> int:
        return max((int(each.name) for each in self._commits.glob("[0-9]*") if each.name.isdigit()), default=-1)

    def kill(self, part: str) -> bool:
        """Kill the driver with all it has started, or one process of a kind; False if there is none."""
        if self._process is None:
            return False
        if part == "driver":
            _kill_session(self._process)
            self._process = None
            return True
        found = [pid for pid in _of_session(self._process.pid) if PARTS[part] in _command_line(pid)]
        for pid in found[-1:]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return bool(found)

    def end(self) -> None:
        """Kill all that there is."""
        for process in filter(None, (self._process, self._waiting)):
            _kill_session(process)
        self._process = self._waiting = None


def _kill_session(process: subprocess.Popen[bytes]) -> None:
    for pid in _of_session(process.pid):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.communicate()


def _of_session(leader: int) -> list[int]:
    """The processes of a session."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(ProcessLookupError, PermissionError):
            if os.getsid(int(place.name)) == leader:
                found.append(int(place.name))
    return sorted(found)


def _command_line(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""
