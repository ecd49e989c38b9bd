"""Threads that take turns with the world: one runs at a time, and time goes on only while all of them wait.

The thread that ships, and the one that follows, are the real ones. Where they would wait, for a condition, an event or
a target, they put down on the agenda when they go on, and the world goes on instead.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from math import ceil
from threading import Semaphore
from typing import Any, final

from broker.server.shipping import ship_thread
from broker.server.standby import follower
from storage.ship import piece_writer, place_epochs, retention, ship_buffer
from storage.ship.standby import followed_store
from tests.simulation.world.small_world import standing_in
from tests.simulation.world.virtual_time import Agenda, Times

HOUR = 3_600_000


class Killed(BaseException):
    """The process of the thread is gone."""


_running = threading.local()


def this_turn() -> Turn:
    """Return the thread that runs."""
    turn: Turn = _running.turn
    return turn


@final
class Turn:
    """One thread. `held_for` returns the milliseconds for which its process does nothing."""

    def __init__(self, agenda: Agenda, act: Callable[[], None], held_for: Callable[[], int]) -> None:
        self._agenda = agenda
        self._held_for = held_for
        self._go, self._came = Semaphore(0), Semaphore(0)
        self._wait = 0
        self._error: BaseException | None = None
        self._killed = False
        self.ended = False
        threading.Thread(target=self._run, args=(act,), daemon=True).start()
        self.wake()

    def _run(self, act: Callable[[], None]) -> None:
        _running.turn = self
        try:
            self._await_turn()
            act()
        except Killed:
            pass
        except BaseException as error:  # the world's, which raises it
            self._error = error
        self.ended = True
        self._came.release()

    def _await_turn(self) -> None:
        self._go.acquire()
        if self._killed:
            raise Killed

    # In the thread

    def pause(self, milliseconds: int) -> None:
        """Have the world go on, for this time or until `wake`. Raises Killed."""
        if self._killed:
            raise Killed
        self._agenda.after(milliseconds, partial(self._resume, self._wait))
        self._came.release()
        self._await_turn()

    # By the world

    def wake(self) -> None:
        """Have it go on."""
        self._agenda.after(0, partial(self._resume, self._wait))

    def kill(self) -> None:
        """End it where it waits."""
        self._killed = True
        self._take_turn(self._wait)

    def _resume(self, wait: int) -> None:
        held = self._held_for()
        if held:
            self._agenda.after(held, partial(self._resume, wait))
        else:
            self._take_turn(wait)

    def _take_turn(self, wait: int) -> None:
        if self.ended or wait != self._wait:
            return
        self._wait += 1
        self._go.release()
        self._came.acquire()
        if self._error is not None:
            raise self._error


@final
class TurnCondition:
    """In place of a condition: whoever runs has it."""

    def __init__(self) -> None:
        self._waiting: set[Turn] = set()

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, *_: object) -> None:
        """Do nothing."""

    def wait_for(self, predicate: Callable[[], object], seconds: float | None = None) -> bool:
        """Return when the predicate holds, or after that time."""
        turn = this_turn()
        until = times_of(turn).now + (HOUR if seconds is None else ceil(seconds * 1000))
        while not predicate() and (left := until - times_of(turn).now) > 0:
            self._waiting.add(turn)
            turn.pause(left)
        self._waiting.discard(turn)
        return bool(predicate())

    def notify_all(self) -> None:
        """Wake those who wait."""
        for turn in self._waiting:
            turn.wake()


def times_of(turn: Turn) -> Times:
    """Return the clocks of the world of a thread."""
    return turn._agenda.times


@final
class TurnEvent:
    """In place of an event that nobody sets before the process ends."""

    def wait(self, seconds: float) -> bool:
        """Let the time pass."""
        this_turn().pause(ceil(seconds * 1000))
        return False

    def set(self) -> None:
        """Do nothing: the thread is killed instead."""


class TurnThreads:
    """In place of the module `threading`: the thread that is started takes turns."""

    Event = TurnEvent

    def __init__(self, agenda: Agenda, started: Callable[[Turn], None], held_for: Callable[[], int]) -> None:
        self._agenda = agenda
        self._started = started
        self._held_for = held_for

    def Thread(self, *, target: Callable[[], None], **_: object) -> TurnThreads:
        """Return the thread."""
        self._target = target
        return self

    def start(self) -> None:
        """Start it."""
        self._started(Turn(self._agenda, self._target, self._held_for))


class MachineTime:
    """The module `time` of all machines, whose clocks agree."""

    def __init__(self, times: Times) -> None:
        self.time, self.monotonic = times.time, times.monotonic

    def time_ns(self) -> int:
        """The wall clock, in nanoseconds."""
        return round(self.time() * 1e9)


@contextmanager
def taking_turns(times: Times) -> Iterator[None]:
    """Have what ships and what follows read these clocks, and wait by turns."""
    clocked = (ship_thread, ship_buffer, piece_writer, place_epochs, retention, follower, followed_store)
    found: list[tuple[Any, str, Any]] = [(module, "time", MachineTime(times)) for module in clocked]
    found.append((ship_buffer, "Condition", TurnCondition))
    found.append((ship_thread, "threading", threading))  # each machine puts its own in that place
    with standing_in(found):
        yield
