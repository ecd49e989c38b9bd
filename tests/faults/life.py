"""A broker's life on a disk that fails: what a client does to it, and what may be demanded afterwards.

What the broker owes is followed from the client's side. A queue's
window is so small that it pages. Whatever the disk does, the broker either goes on, refusing at most definitions, or
ends with exit code 1 and one line that says what failed. What it had promised until then has to be there.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import NamedTuple

from broker.wire.constants import ReplyCode
from broker.wire.method import Method
from broker.wire.methods import (
    ConnectionBlocked,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionUnblocked,
    TxCommit,
    TxSelect,
)
from storage.verify import verify
from tests.faults.injector import Disk, Fault
from tests.faults.promised import BrokerLedger, body_of
from tests.faults.recovering import recovered
from tests.faults.workload import Publisher
from tests.support.broker import BrokerProcess
from tests.support.client import TIMEOUT_SECONDS, Client, Message
from tests.support.contents import PERSISTENT
from tests.support.shorthand import queue_bind, queue_declare, queue_delete

STEPS = 6
PATIENCE_SECONDS = 0.5
STEPS_MAX = 30
REFUSALS_MAX = 40
WHOLE, PART_OF_EACH, FIRST = "in transactions", 3, 1_000_000
"""A queue that is published to in transactions, how many messages each has, and the number of the first."""

MESSAGE_FILES = {"data.mdb", "lock.mdb", "ballast"}
CONFIG = """
[limits]
queue_window_messages = 40
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
    """A client whose conversation on channel 1 a ledger follows. When it is kept waiting, it has the disk mended."""

    ledger: BrokerLedger
    disk: Disk

    def send(self, *methods: Method, channel: int = 1) -> None:
        for method in methods if channel == 1 and hasattr(self, "ledger") else ():
            self.ledger.follow(True, method, None)
        super().send(*methods, channel=channel)

    def send_content(self, method: Method, header: bytes, body: bytes, *, channel: int = 1) -> None:
        if channel == 1:
            self.ledger.follow(True, method, Message(method, header, body))
        super().send_content(method, header, body, channel=channel)

    def receive(self, *, channel: int = 1, timeout: float = TIMEOUT_SECONDS) -> Method | Message:
        try:
            item = super().receive(channel=channel, timeout=PATIENCE_SECONDS)
        except TimeoutError:
            if (
                hasattr(self, "disk") and self.disk.failures
            ):  # whoever has nothing more to publish is not told that it is blocked
                self.disk.mend()
            item = super().receive(channel=channel, timeout=timeout)
        if isinstance(item, ConnectionBlocked):
            self.disk.mend()
        if isinstance(item, ConnectionBlocked | ConnectionUnblocked):
            return self.receive(channel=channel, timeout=timeout)
        if isinstance(item, ConnectionClose):
            self.send(ConnectionCloseOk(), channel=0)
            raise RefusedError(item)
        if channel == 1 and hasattr(self, "ledger"):
            if isinstance(item, Message):
                self.ledger.follow(False, item.method, item)
            else:
                self.ledger.follow(False, item, None)
        return item


class Second:
    """A second channel's work: messages in transactions of three, and a queue each time, bound, in place of another."""

    def __init__(self) -> None:
        self._begun = 0
        self._committed: set[int] = set()
        self._queues: dict[str, bool | None] = {}
        """By name: must it be there? None: it may."""

    def connect(self, client: Client) -> None:
        """Open channel 2, and declare what is published to."""
        client.open_channel(2)
        client.ask(queue_declare(WHOLE, durable=True), channel=2)
        client.ask(TxSelect(), channel=2)

    def step(self, client: Client) -> None:
        """One transaction, a new queue, and the end of the one before."""
        number, self._begun = self._begun, self._begun + 1
        for part in range(PART_OF_EACH):
            body = body_of(FIRST + number * PART_OF_EACH + part, 100)
            client.publish(body, key=WHOLE, properties=PERSISTENT, channel=2)
        client.ask(TxCommit(), channel=2)
        self._committed.add(number)
        name, old = f"made {number}", f"made {number - 1}"
        self._queues[name] = None
        client.ask(queue_declare(name, durable=True), channel=2)
        self._queues[name] = True
        client.ask(queue_bind(name, "amq.fanout"), channel=2)
        self._queues[old] = None
        client.ask(queue_delete(old), channel=2)
        self._queues[old] = False

    def problems(self, held: dict[str, list[int]]) -> list[str]:
        """What is wrong with what the queues hold; those of this channel are taken out."""
        found = sorted(number - FIRST for number in held.pop(WHOLE, []))
        begun = sorted({number // PART_OF_EACH for number in found})
        whole = [number * PART_OF_EACH + part for number in begun for part in range(PART_OF_EACH)]
        lost = self._committed - set(begun)
        wrong = [name for name, must in self._queues.items() if must is not None and must != (name in held)]
        return [
            *[f"transactions {found} are torn"] * (found != whole),
            *[f"transactions {lost} are lost"] * bool(lost),
            *(f"queue {name} is {'' if name in held else 'not '}there" for name in wrong),
        ]


class Ending(NamedTuple):
    """What became of a broker. `line` says why it ended, if it did; `problems` is what must not be."""

    fault: Fault
    met: bool
    line: str
    refused: int
    problems: list[str]

    def __str__(self) -> str:
        how = self.line or f"went on, {self.refused} refused"
        return f"{self.fault}: {how if self.met else 'not met'}" + "".join(f"\n    {each}" for each in self.problems)


class Life:
    """One broker, its disk and the client that keeps a ledger."""

    def __init__(self, directory: Path, library: Path, fault: Fault, environment: dict[str, str] | None = None) -> None:
        directory.mkdir(parents=True)
        config = directory / "leveret.toml"
        config.write_text(CONFIG)
        self.fault = fault
        self.disk = Disk(library, directory / "data")
        with_fault = self.disk.environment(fault, os.environ if environment is None else environment)
        self.broker = BrokerProcess(directory / "data", "--config", str(config), environment=with_fault)
        self.ledger = BrokerLedger()
        self.publisher = Publisher(fault.nth)
        self.second = Second()
        self.refused = 0
        self.problems: list[str] = []
        self._client: FollowedClient | None = None

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
        self._connect()
        for _ in range(STEPS):
            self.publisher.step()
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
        """Do so much, or until the fault was met and a little more."""
        done = after = 0
        while done < count and after < STEPS:
            try:
                if self._client is None:
                    self._connect()
                assert self._client is not None
                self.publisher.step()
                self.second.step(self._client)
                done += 1
                after += bool(self.disk.failures)
            except RefusedError as error:
                self._count(error)

    def _connect(self) -> None:
        client = FollowedClient.connect(self.broker.address)
        client.disk = self.disk
        client.ledger = self.ledger
        self._client = client
        self.publisher.connect(client)
        self.second.connect(client)

    def _hang_up(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

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
        data.mkdir(exist_ok=True)
        for _start in range(2):
            held, _counts = recovered(data)
            self.problems += self.second.problems(held)
            self.problems += self.ledger.problems(held, {})[:4]
        self.problems += verify(data / "messages").problems
        strangers = {path.name for path in (data / "messages").iterdir()} - MESSAGE_FILES
        strangers |= {path.name for path in data.iterdir() if path.name.endswith((".new", ".compact"))}
        if strangers:
            self.problems.append(f"left behind: {strangers}")


def live(
    directory: Path, library: Path, fault: Fault, broken_from: str, environment: dict[str, str] | None = None
) -> Ending:
    """One broker's life in a directory of its own, which is removed when all is well."""
    ending = Life(directory, library, fault, environment).live(broken_from=broken_from)
    if not ending.problems:
        shutil.rmtree(directory)
    return ending
