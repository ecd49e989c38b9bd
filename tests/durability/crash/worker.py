"""A process that recovers disks, one after the other. LMDB maps its file: a bad one would kill whoever opens it."""

from __future__ import annotations

import gc
import multiprocessing
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

from tests.durability.ledgers.broker_ledger import Recovered
from tests.durability.ledgers.recovering import recovered

SECONDS_PER_STATE = 60

_fork = multiprocessing.get_context("fork")


class Outcome(NamedTuple):
    """Findings on a disk, or the failure."""

    found: Recovered | None
    problem: str


class Worker:
    """Recovers disks in a process of its own, which is replaced when it has come to harm."""

    def __init__(self) -> None:
        self._start()

    def _start(self) -> None:
        self._pipe, theirs = _fork.Pipe()
        self._process = _fork.Process(target=_serve, args=(self._pipe, theirs), daemon=True)
        self._process.start()
        theirs.close()

    def recover(self, disk: Path) -> Outcome:
        """Recover what is in a directory."""
        self._pipe.send(disk)
        try:
            outcome = self._pipe.recv() if self._pipe.poll(SECONDS_PER_STATE) else Outcome(None, "it takes for ever")
        except EOFError:
            self._process.join()
            outcome = Outcome(None, f"killed by signal {-(self._process.exitcode or 0)}")
        if outcome.problem:  # what it has opened is open still
            self.close()
            self._start()
        return outcome

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.join()
        self._pipe.close()


def _serve(theirs: Connection, pipe: Connection) -> None:
    theirs.close()  # so that their end is an end here
    gc.freeze()
    try:
        while True:
            pipe.send(_outcome(pipe.recv()))
    except (EOFError, BrokenPipeError, KeyboardInterrupt):
        pass  # whoever asked has ended


def _outcome(disk: Path) -> Outcome:
    try:
        return Outcome(recovered(disk), "")
    except BaseException as error:
        return Outcome(None, f"{type(error).__name__}: {error}"[:2000])
