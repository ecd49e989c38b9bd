"""The real broker as a process of its own: started, stopped, killed and started again on the same data."""

from __future__ import annotations

import os
import re
import select
import subprocess
import sys
import weakref
from pathlib import Path
from signal import SIGKILL, SIGTERM, Signals
from typing import Any

from broker.environment_settings import CHECK_INVARIANTS
from harness.brokers.admin_requests import ask
from harness.forked.changed_copies import copies_that_run_modules, copies_with
from harness.project import ROOT
from leveret.testing.broker_copies import Copies, Copy
from leveret.testing.ports import LOOPBACK, Port

READY = re.compile(r"leveret ready: amqp://([\w.\-\[\]:]+):(\d+)[ ,]")
TLS = re.compile(r"amqps://([\w.\-\[\]:]+):(\d+)[ ,]")
BROKER = (sys.executable, "-m", "broker")
READY_SECONDS = 120
"""Longest wait for a start, also on a busy machine that reads a full journal."""
STOP_SECONDS = 30
COMMAND_SECONDS = 60


class BrokerProcess:
    """`python -m broker serve` on a data directory, on a port that nobody else is given while this is there."""

    def __init__(
        self,
        data_dir: Path,
        *options: str,
        environment: dict[str, str] | None = None,
        own_group: bool = False,
        loaded_anew: bool = False,
        check_invariants: bool = True,
    ) -> None:
        """`own_group`: ^C at the terminal is not for the broker. Measurements have it `loaded_anew`, and no copy of a
        process that is loaded; and switch the check of invariants off."""
        self.data_dir = data_dir
        self.process_group = 0 if own_group else None
        self.loaded_anew = loaded_anew
        self.options = options
        self.environment = environment
        self.check_invariants = check_invariants
        port = Port()
        weakref.finalize(self, port.close)
        self.address = (LOOPBACK, port.number)
        self.ready_line = ""
        self.tls_address = (LOOPBACK, 0)
        self._process: subprocess.Popen[str] | Copy | None = None
        self.http: tuple[str, ...] = ("--management-listen", "off", "--prometheus-listen", "off")
        """Options of HTTP: nothing is served unless a test wants it, and never on the ports of the defaults."""
        self.prefix: tuple[str, ...] = ()
        """Prefix of the command, if it needs something of the system."""
        self.program: tuple[str, ...] = BROKER
        """The program; the broker of this checkout."""
        self.directory = ROOT
        """Working directory."""
        self.log_file = data_dir.parent / f"{data_dir.name}.log"

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start the process and return when it says that it is ready. Fails with its log when it ends before."""
        self.launch()
        self.await_ready()

    def try_to_start(self) -> bool:
        """Start the process. True when it says that it is ready, False when it is about to end: see `wait`."""
        self.launch()
        return self._hear_ready()

    def launch(self) -> None:
        """Start the process and wait for nothing; see `await_ready`."""
        command = [*self.program, *self.arguments()]
        environment = dict(os.environ if self.environment is None else self.environment)
        if self.check_invariants:
            environment.setdefault(CHECK_INVARIANTS, "1")
        with self.log_file.open("a") as log:
            if (copies := self._copies(environment)) is not None:
                module = () if self.program == BROKER else self.program[1:]
                arguments = [*module, *self.arguments(), *self.options]
                self._process = copies.start(arguments, environment, log.fileno(), self.directory)
                return
            self._process = subprocess.Popen(
                [*self.prefix, *command, *self.options],
                cwd=self.directory,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                process_group=self.process_group,
            )

    def _copies(self, environment: dict[str, str]) -> Copies | None:
        """Return the process of which it is a copy: it has to be a broker or another module of this checkout."""
        if self.prefix or self.loaded_anew or self.program[:2] != BROKER[:2]:
            return None
        return copies_with(environment) if self.program == BROKER else copies_that_run_modules(environment)

    def arguments(self) -> list[str]:
        """Arguments before the options."""
        listen = f"{self.address[0]}:{self.address[1]}"
        return ["serve", "--data-dir", str(self.data_dir), "--listen", listen, *self.http]

    def await_ready(self) -> None:
        """Return when a process that was launched says that it is ready. Fails with its log when it ends before."""
        if not self._hear_ready():
            ended = self._end(SIGKILL)
            raise AssertionError(f"the broker is not ready, but: {self.ready_line!r}; ended with {ended}\n{self.log()}")

    def _hear_ready(self) -> bool:
        assert self._process is not None
        assert self._process.stdout is not None
        said, _, _ = select.select([self._process.stdout], [], [], READY_SECONDS)
        self.ready_line = self._process.stdout.readline() if said else f"nothing in {READY_SECONDS} s"
        return self._is_ready()

    def _is_ready(self) -> bool:
        """Return whether the line that was read last says so, and note its addresses."""
        ready = READY.match(self.ready_line)
        if ready is None:
            return False
        self.address = (ready[1], int(ready[2]))
        secured = TLS.search(self.ready_line)
        if secured is not None:
            self.tls_address = (secured[1], int(secured[2]))
        return True

    def signal(self, number: Signals) -> None:
        """Send a signal and wait for nothing, so that a test may see what it does; see `wait`."""
        assert self._process is not None
        self._process.send_signal(number)

    def terminate(self) -> None:
        """Send SIGTERM, as `signal` does."""
        self.signal(SIGTERM)

    def wait(self) -> int:
        """Await the end of a process that was told to stop; return the exit code."""
        return self._await_end()

    def stop(self) -> int:
        """Send SIGTERM; return the exit code."""
        return self._end(SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL and wait until the process is gone."""
        self._end(SIGKILL)

    def discard(self) -> None:
        """Kill the process, if it was started and is there yet, and close its output, also if it has ended."""
        if self._process is not None:
            self._end(SIGKILL)

    def restart(self) -> None:
        """Stop in order and start again on the same data and port."""
        assert self.stop() == 0, self.log()
        self.start()

    def kill_and_restart(self) -> None:
        """Crash and start again on the same data and port."""
        self.kill()
        self.start()

    def tell(self, command: str, **arguments: object) -> Any:
        """Have it carry out a command through its socket; raises AdministrationError with what it answers."""
        return ask(self.data_dir, command, arguments, COMMAND_SECONDS)

    def log(self) -> str:
        """Standard error of the process so far, over all starts."""
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""

    def _end(self, number: Signals) -> int:
        assert self._process is not None
        if self._process.poll() is None:
            self._process.send_signal(number)
        return self._await_end()

    def _await_end(self) -> int:
        process = self._process
        assert process is not None
        try:
            return process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.send_signal(SIGKILL)
            process.wait()
            raise AssertionError(f"the broker did not stop within {STOP_SECONDS} s\n{self.log()}") from None
        finally:
            if process.stdout is not None:
                process.stdout.close()
