"""A broker for tests: a real process with a real store, which can be killed, restarted and lose its power."""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from signal import SIGKILL, SIGTERM, Signals
from types import MappingProxyType, TracebackType
from typing import IO

from leveret.own_program import program
from leveret.testing.broker_copies import FORKS, Copy, copies_of, environment
from leveret.testing.control_client import Control
from leveret.testing.ports import LOOPBACK, Port
from leveret.testing.power.power_record import PowerRecord
from leveret.testing.testing_errors import LeveretError

__tracebackhide__ = True
"""pytest shows the line of the test that called, not ours."""

START_SECONDS = 60.0
STOP_SECONDS = 30.0
LOG_LINES = 30
"""Lines of the log that an error shows."""
SETTINGS = "[testing]\nenabled = true\n"


class Guard:
    """Kills a process if this one ends before, by SIGKILL for example."""

    def __init__(self, pid: int) -> None:
        command = ["/bin/sh", "-c", 'read _; kill -9 "$1"', "guard", str(pid)]
        self._shell = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, process_group=0)

    def dismiss(self) -> None:
        """Note that the process has ended."""
        self._shell.kill()
        self._shell.communicate()


class Broker(Control):
    """A broker with its own ports and data directory; `with Broker() as broker:` runs it.

    Ports and data stay the same over all starts. Errors raise LeveretError, with the end of the broker's log.
    """

    def __init__(
        self,
        directory: Path | None = None,
        *,
        settings: str = "",
        power_failures: bool = False,
        variables: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """`directory` is for data and log; the default is a temporary one. `settings` are lines of a
        configuration file. With `power_failures` all writes are recorded, which needs the same disk space again.
        `variables` of its environment override settings.
        """
        self._temporary = directory is None
        self._variables = variables
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
        """The host on which it listens."""
        return LOOPBACK

    @property
    def port(self) -> int:
        """The port for AMQP."""
        return self._amqp.number

    @property
    def url(self) -> str:
        """The URL for clients, as user guest, of the virtual host `/`. `{url}/name` is another virtual host. It has no
        slash at the end, which means the virtual host with the empty name to Java's and Ruby's clients and shovels."""
        return f"amqp://guest:guest@{self._amqp.address}"

    @property
    def running(self) -> bool:
        """True if the process runs."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The id of the process, or of the last one. Raises LeveretError before the first start."""
        return self._last().pid

    def start(self) -> None:
        """Start the process; it accepts connections when this returns."""
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
            if self._record is None and FORKS:
                self._process = copies_of(os.getpid()).start(
                    ["serve", *files, *listen], self._environment(), log.fileno()
                )
            else:
                self._process = self._started(["serve", *files, *listen], log)
        self._await_ready(self._process)

    def _environment(self) -> dict[str, str]:
        return {**environment(), **self._variables}

    def _started(self, arguments: list[str], log: IO[bytes]) -> subprocess.Popen[str]:
        """Start a process of its own, with the recorder if there is one, which a fork cannot have."""
        process = subprocess.Popen(
            [*program(), *arguments],
            env={**self._environment(), **({} if self._record is None else self._record.environment())},
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
        """Stop the process in order (SIGTERM)."""
        self._end(SIGTERM)

    def kill(self) -> None:
        """Kill the process (SIGKILL). Confirmed messages are there after the next `start`."""
        self._end(SIGKILL)

    def power_failure(self, seed: int | None = None) -> None:
        """Kill the process, and keep in its data only what was synced, as a power failure may. Then `start` it.

        A power failure may also keep any part of the writes that were not synced: `seed` chooses a part.
        """
        if self._record is None:
            raise LeveretError(
                "a broker whose power may fail is made with power_failures=True: it is recorded from its start on"
            )
        self._end(SIGKILL)
        self._record.fail(seed)

    def wait_for_end(self, timeout_seconds: float = STOP_SECONDS) -> int:
        """Wait for the end of the process, by a requested fault for example; return its exit code, -9 if killed."""
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
        """Start or reset it, so that nothing is left of the test before. `log_of_test` begins here."""
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
        """Kill the process, release the ports, and delete the directory if it is a temporary one."""
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
