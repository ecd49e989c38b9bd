"""A broker for tests: a real process with a real store, which is killed, started again, loses its power."""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from signal import SIGKILL, SIGTERM, Signals
from types import TracebackType
from typing import IO

from leveret.testing.broker_copies import Copy, copies_of, environment
from leveret.testing.control_client import Control
from leveret.testing.ports import LOOPBACK, Port
from leveret.testing.power.power_record import PowerRecord
from leveret.testing.testing_errors import LeveretError

START_SECONDS = 60.0
STOP_SECONDS = 30.0
LOG_LINES = 30
"""How much of a log an error shows."""
SETTINGS = "[testing]\nenabled = true\n"


class Guard:
    """Kills a process when this one ends without having done so, by a SIGKILL for example."""

    def __init__(self, pid: int) -> None:
        command = ["/bin/sh", "-c", 'read _; kill -9 "$1"', "guard", str(pid)]
        self._shell = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, process_group=0)

    def dismiss(self) -> None:
        """The process has ended."""
        self._shell.kill()
        self._shell.communicate()


class Broker(Control):
    """One broker on ports and a data directory of its own; `with Broker() as broker:` has it run.

    Ports and data stay the same from one `start` to the next. Raises LeveretError for what goes wrong, with the end of
    the broker's log.
    """

    def __init__(self, directory: Path | None = None, *, settings: str = "", power_failures: bool = False) -> None:
        """`directory` is where data and log are, else a temporary one that goes with it; `settings` are lines of a
        configuration file. With `power_failures` everything that is written is noted, which takes as much room again.
        """
        self._temporary = directory is None
        self.directory = directory or Path(tempfile.mkdtemp(prefix="leveret-"))
        self.data = self.directory / "data"
        self.data.mkdir(mode=0o700, parents=True, exist_ok=True)
        (self.directory / "leveret.toml").write_text(SETTINGS + settings, encoding="utf-8")
        self._amqp, self._http = Port(), Port()
        self._record = PowerRecord(self.data, self.directory / "writes") if power_failures else None
        self._process: subprocess.Popen[str] | Copy | None = None
        self._guard: Guard | None = None
        self._log = self.directory / "leveret.log"
        self._log_before = 0
        self._closed = False
        super().__init__(f"http://guest:guest@{self._http.address}")

    @property
    def host(self) -> str:
        """Where it listens."""
        return LOOPBACK

    @property
    def port(self) -> int:
        """The port for AMQP."""
        return self._amqp.number

    @property
    def url(self) -> str:
        """What clients connect to, as user guest, to the virtual host `/`: with a slash at its end it would be the one
        without a name for Java's clients, Ruby's, and shovels. `{url}/name` is another virtual host."""
        return f"amqp://guest:guest@{self._amqp.address}"

    @property
    def running(self) -> bool:
        """The process is there."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The process that is there or was last. Raises LeveretError before the first start."""
        return self._last().pid

    def start(self) -> None:
        """Start the process; it takes connections when this returns."""
        if self.running:
            raise LeveretError(f"the broker runs already, as process {self.pid}")
        if self._process is not None:
            self.wait_for_end()  # it has ended already
        if self._closed:
            raise LeveretError("the broker is closed: its ports, and its data if they were temporary, are gone")
        listen = [
            "--listen",
            self._amqp.address,
            "--management-listen",
            self._http.address,
            "--prometheus-listen",
            "off",
        ]
        files = ["--data-dir", str(self.data), "--config", str(self.directory / "leveret.toml")]
        with self._log.open("ab") as log:
            if self._record is None:
                self._process = copies_of(os.getpid()).start(["serve", *files, *listen], environment(), log.fileno())
            else:
                self._process = self._recorded(["serve", *files, *listen], self._record, log)
        self._await_ready(self._process)

    def _recorded(self, arguments: list[str], record: PowerRecord, log: IO[bytes]) -> subprocess.Popen[str]:
        """A process that the recorder is loaded into, which no copy can be."""
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "leveret", *arguments],
            env={**environment(), **record.environment()},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            process_group=0,  # ^C at the terminal ends the tests, which then end it
        )
        self._guard = Guard(process.pid)
        return process

    def _await_ready(self, process: subprocess.Popen[str] | Copy) -> None:
        assert process.stdout is not None
        said, _, _ = select.select([process.stdout], [], [], START_SECONDS)
        if said and process.stdout.readline().startswith("leveret ready:"):
            return
        if said:
            why = f"exit code {self.wait_for_end()}"
        else:
            self.kill()
            why = f"nothing was heard of it for {START_SECONDS:g} s"
        raise LeveretError(f"the broker did not start: {why}; the end of its log:\n{self._log_end()}")

    def stop(self) -> None:
        """End the process in order (SIGTERM)."""
        self._end(SIGTERM)

    def kill(self) -> None:
        """End the process at once (SIGKILL); what was confirmed is there after the next `start`."""
        self._end(SIGKILL)

    def power_failure(self, seed: int | None = None) -> None:
        """Kill the process, and leave in its data only what was synced, as a power failure may. Then `start` it.

        A power failure may also leave any part of what was not synced: which part, the `seed` chooses.
        """
        if self._record is None:
            raise LeveretError(
                "a broker whose power may fail is made with power_failures=True: it is recorded from its start on"
            )
        self._end(SIGKILL)
        self._record.fail(seed)

    def wait_for_end(self, timeout_seconds: float = STOP_SECONDS) -> int:
        """Wait until the process has ended, by a fault that was ordered for example; its exit code, -9 when killed."""
        process = self._last()
        try:
            code = process.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            end = self._log_end()
            raise LeveretError(
                f"the broker still runs after {timeout_seconds:g} s; the end of its log:\n{end}"
            ) from None
        if self._guard is not None:
            self._guard.dismiss()
            self._guard = None
        if process.stdout is not None:
            process.stdout.close()
        return code

    def fresh(self) -> None:
        """Have it run with nothing left of the test before. `log_of_test` begins anew."""
        self._log_before = self._log.stat().st_size if self._log.exists() else 0
        if not self.running:
            self.start()
        self.reset()

    def log(self) -> str:
        """Its log over all starts."""
        return self._read_log(0)

    def log_of_test(self) -> str:
        """Its log since `fresh`."""
        return self._read_log(self._log_before)

    def _read_log(self, after: int) -> str:
        if not self._log.exists():
            return ""
        with self._log.open("rb") as log:
            log.seek(after)
            return log.read().decode(errors="replace")

    def close(self) -> None:
        """Kill the process, let the ports go, and delete the directory if it is a temporary one."""
        self._closed = True
        if self._process is not None:
            self.kill()
        for port in (self._amqp, self._http):
            port.close()
        if self._temporary:
            shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> Broker:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _last(self) -> subprocess.Popen[str] | Copy:
        if self._process is None:
            raise LeveretError("the broker was not started")
        return self._process

    def _end(self, number: Signals) -> None:
        process = self._last()
        process.send_signal(number)
        self.wait_for_end()

    def _log_end(self) -> str:
        return "\n".join(self.log().splitlines()[-LOG_LINES:])
