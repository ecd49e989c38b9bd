"""A process that looks at disks, one after the other. LMDB maps its file: a bad one would kill whoever opens it."""

from __future__ import annotations

import gc
import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Generic, NamedTuple, TypeVar

SECONDS_PER_STATE = 60

_fork = multiprocessing.get_context("fork")

Given = TypeVar("Given")
Found = TypeVar("Found")


class Outcome(NamedTuple, Generic[Found]):
    """Findings on a disk, or the failure."""

    found: Found | None
    problem: str


class Worker(Generic[Given, Found]):
    """Looks at disks in a process of its own, which is replaced when it has come to harm."""

    def __init__(self, look: Callable[[Given], Found]) -> None:
        """`look` is called in that process; it raises whatever it finds wrong."""
        self._look = look
        self._start()

    def _start(self) -> None:
        self._pipe, theirs = _fork.Pipe()
        self._process = _fork.Process(target=_serve, args=(self._pipe, theirs, self._look), daemon=True)
        self._process.start()
        theirs.close()

    def look_at(self, disk: Given) -> Outcome[Found]:
        """Look at a disk."""
        self._pipe.send(disk)
        try:
            late: Outcome[Found] = Outcome(None, "it takes for ever")
            outcome: Outcome[Found] = self._pipe.recv() if self._pipe.poll(SECONDS_PER_STATE) else late
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


def _serve(theirs: Connection, pipe: Connection, look: Callable[[Given], Found]) -> None:
    theirs.close()  # so that their end is an end here
    gc.freeze()
    try:
        while True:
            pipe.send(_outcome(look, pipe.recv()))
    except (EOFError, BrokenPipeError, KeyboardInterrupt):
        pass  # whoever asked has ended


def _outcome(look: Callable[[Given], Found], disk: Given) -> Outcome[Found]:
    try:
        return Outcome(look(disk), "")
    except BaseException as error:
        return Outcome(None, f"{type(error).__name__}: {error}"[:2000])
