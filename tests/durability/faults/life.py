"""A broker's life on a disk that fails: what clients do to it, and what may be demanded afterwards.

The broker's debt is followed from the clients' side; they take turns. In any case the broker either goes on, refusing
at most definitions, or ends with exit code 1 and one line that says what failed. Its promises until then have to be
kept.
"""

from __future__ import annotations

import os
import random
import shutil
from itertools import count
from pathlib import Path
from typing import NamedTuple

from broker.wire.constants import ReplyCode
from broker.wire.method import Method
from broker.wire.methods import ConnectionBlocked, ConnectionClose, ConnectionCloseOk, ConnectionUnblocked
from harness.brokers.broker_process import BrokerProcess
from harness.clients.amqp_peer import Message
from harness.clients.shorthand import queue_bind, queue_declare, queue_delete
from harness.clients.wire_client import TIMEOUT_SECONDS, Client
from tests.durability.faults.injector import Disk, Fault
from tests.durability.ledgers.broker_ledger import BrokerLedger
from tests.durability.ledgers.conversation import CHANNEL, Listener, Said
from tests.durability.ledgers.recovering import recovered
from tests.durability.ledgers.topology import SMALL_WINDOWS
from tests.durability.ledgers.workload import Publisher, Transactor, Worker

STEPS = 6
PATIENCE_SECONDS = 0.5
STEPS_MAX = 30
REFUSALS_MAX = 40
MESSAGE_FILES = {"data.mdb", "lock.mdb", "ballast", "journal", "journal.end"}
CONFIG = f"""\
{SMALL_WINDOWS}
[disk]
check_interval_seconds = 0.05
free_limit_bytes = 0
"""


class RefusedError(Exception):
    """The broker has closed the connection, with this code."""

    def __init__(self, close: ConnectionClose) -> None:
        super().__init__(f"{close.reply_code} {close.reply_text}")
        self.code = close.reply_code


class FollowedClient(Client):
    """A client whose conversation a ledger follows. When it is kept waiting, it has the disk mended."""

    disk: Disk | None = None
    _ledger: BrokerLedger | None = None

    def follow_in(self, ledger: BrokerLedger, number: int) -> None:
        """Tell a ledger what is said from now on, as a connection of this number."""
        self._ledger, self._number, self._listener = ledger, number, Listener()

    def send_raw(self, data: bytes) -> None:
        if self._ledger is not None:
            for item in self._listener.hear(data):
                self._ledger.follow(Said.of(self._number, True, item))
        super().send_raw(data)

    def receive(self, *, channel: int = CHANNEL, timeout: float = TIMEOUT_SECONDS) -> Method | Message:
        try:
            item = super().receive(channel=channel, timeout=PATIENCE_SECONDS)
        except TimeoutError:
            # Whoever has nothing more to publish is not told that it is blocked.
            if self.disk is not None and self.disk.failures:
                self.disk.mend()
            item = super().receive(channel=channel, timeout=timeout)
        if isinstance(item, ConnectionBlocked) and self.disk is not None:
            self.disk.mend()
        if isinstance(item, ConnectionBlocked | ConnectionUnblocked):
            return self.receive(channel=channel, timeout=timeout)
        if isinstance(item, ConnectionClose):
            self.send(ConnectionCloseOk(), channel=0)
            raise RefusedError(item)
        if self._ledger is not None:
            self._ledger.follow(Said.of(self._number, False, item))
        return item


class Renewer:
    """Makes a queue each time, bound, in place of another."""

    def __init__(self) -> None:
        self._numbers = count(1)

    def connect(self, client: Client) -> None:
        """Begin a connection."""
        self._client = client

    def step(self) -> None:
        """A new queue, and the end of the one before."""
        number = next(self._numbers)
        self._client.ask(queue_declare(f"made {number}", durable=True))
        self._client.ask(queue_bind(f"made {number}", "amq.fanout"))
        self._client.ask(queue_delete(f"made {number - 1}"))


class Ending(NamedTuple):
    """The end of a broker. `line` says why it ended, if it did; `problems` is what must not be."""

    fault: Fault
    met: bool
    line: str
    refused: int
    problems: list[str]

    def __str__(self) -> str:
        how = self.line or f"went on, {self.refused} refused"
        return f"{self.fault}: {how if self.met else 'not met'}" + "".join(f"\n    {each}" for each in self.problems)


class Life:
    """One broker, its disk and the clients that keep a ledger."""

    def __init__(self, directory: Path, library: Path, fault: Fault, environment: dict[str, str] | None = None) -> None:
        directory.mkdir(parents=True)
        config = directory / "leveret.toml"
        config.write_text(CONFIG)
        self.fault = fault
        self.disk = Disk(library, directory / "data")
        with_fault = self.disk.environment(fault, os.environ if environment is None else environment)
        self.broker = BrokerProcess(directory / "data", "--config", str(config), environment=with_fault)
        self.ledger = BrokerLedger()
        self.refused = 0
        self.problems: list[str] = []
        choose = random.Random(fault.nth)
        self._workers: tuple[Worker, ...] = Publisher(0, choose), Transactor(1, choose), Renewer()
        self._clients: list[FollowedClient] = []

    # What happens

    def live(self, *, broken_from: str) -> Ending:
        """A whole life, with a disk that is broken from `creation`, a later `start`, or under `work`; its end."""
        line = ""
        try:
            if broken_from == "start":
                self._earlier_life()
            if broken_from != "work":
                self.disk.break_down()
            if self.broker.try_to_start():
                self._work(broken_from == "work")
        except (OSError, EOFError) as error:
            self._expect_end(error)
        except AssertionError as error:
            self.problems.append(str(error)[:2000])
        finally:
            self._hang_up()
        if self.broker.running and self.broker.ready_line:
            self._end()
        else:
            line = self._last_words()
        self.disk.mend()
        if not self.problems:
            self._check()
        return Ending(self.fault, bool(self.disk.failures), line, self.refused, self.problems)

    def _earlier_life(self) -> None:
        self.broker.start()
        self._steps(STEPS)
        self.broker.kill()
        self._hang_up()

    def _work(self, break_down: bool) -> None:
        if break_down:
            self._steps(1)
            self.disk.break_down()
        self._steps(STEPS_MAX if break_down else STEPS)
        self.disk.mend()
        self._steps(2)

    def _steps(self, count: int) -> None:
        """Do `count` steps, or until the fault was met and a little more."""
        done = after = 0
        while done < count and after < STEPS:
            try:
                if not self._clients:
                    self._connect()
                for worker in self._workers:
                    worker.step()
                done += 1
                after += bool(self.disk.failures)
            except RefusedError as error:
                self._count(error)

    def _connect(self) -> None:
        self.ledger.begin_life()
        for number, worker in enumerate(self._workers):
            client = FollowedClient.connect(self.broker.address)
            self._clients.append(client)
            client.disk = self.disk
            client.follow_in(self.ledger, number)
            worker.connect(client)

    def _hang_up(self) -> None:
        while self._clients:
            self._clients.pop().close()

    def _count(self, error: RefusedError) -> None:
        """A definition was refused: that is the client's end, and nobody else's."""
        assert error.code == ReplyCode.RESOURCE_ERROR, f"refused with {error}"
        self._hang_up()
        self.refused += 1
        if self.refused >= REFUSALS_MAX:
            self.disk.mend()

    # What is demanded

    def _expect_end(self, error: Exception) -> None:
        """The connection broke, or nothing came: that may only be because the broker ends."""
        try:
            self.broker.wait()
        except AssertionError:
            self.problems.append(f"{type(error).__name__} {error}, and the broker goes on\n{self._words()}")

    def _last_words(self) -> str:
        """The line with which the broker ended; what is wrong with it becomes a problem."""
        code, log = self.broker.wait(), self.broker.log()
        lines = [line for line in log.splitlines() if line.startswith("leveret: error:")]
        line = lines[-1] if lines else ""
        said = os.strerror(self.fault.error) in line if self.fault.error else True
        said = (
            said
            or "disk is full" in line
            or "disk I/O error" in line
            or "unable to open database" in line
            or "opened for writing" in line
        )
        if code != 1 or len(lines) != 1 or "Traceback" in log or str(self.broker.data_dir) not in line or not said:
            self.problems.append(f"exit code {code}\n{self._words()}")
        return line

    def _words(self) -> str:
        return self.broker.log()[-3000:]

    def _end(self) -> None:
        """In order or by force, in turns."""
        if self.fault.nth % 2:
            self.broker.kill()
        elif (code := self.broker.stop()) != 0:
            self.problems.append(f"stopped with exit code {code}\n{self._words()}")
        if "Traceback" in self.broker.log():
            self.problems.append(f"a traceback\n{self._words()}")

    def _check(self) -> None:
        """Without the fault everything that was promised is there, and the stores are sound."""
        data = self.broker.data_dir
        try:
            found = recovered(data.parent)
        except AssertionError as error:
            self.problems.append(str(error)[:2000])
            return
        # A message may have been handed out, and its client not have read it.
        self.problems += self.ledger.problems(found._replace(counts={}))[:4]
        unexpected = {path.name for path in (data / "messages").iterdir()} - MESSAGE_FILES
        unexpected |= {path.name for path in data.iterdir() if path.name.endswith((".new", ".compact"))}
        if unexpected:
            self.problems.append(f"left behind: {unexpected}")


def live(
    directory: Path, library: Path, fault: Fault, broken_from: str, environment: dict[str, str] | None = None
) -> Ending:
    """One broker's life in a directory of its own, which is removed when all is well."""
    ending = Life(directory, library, fault, environment).live(broken_from=broken_from)
    if not ending.problems:
        shutil.rmtree(directory)
    return ending
