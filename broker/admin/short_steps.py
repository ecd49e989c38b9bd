"""Long work in short steps with a pause after each, so that other clients hardly notice it.

A step is all that a task does from one pause to its next. Pauses are taken one after the other, so all long work
together has at most one step in each turn of the event loop. While a batch is being written to disk a pause is twice
as long as a step: the thread that writes it wants the interpreter some twenty times, and waits for it each time while
the loop is busy.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable
from contextvars import ContextVar
from itertools import islice
from time import thread_time
from typing import TypeVar

import trio

T = TypeVar("T")
U = TypeVar("U")

AT_ONCE = 8
"""Things done between two looks at the time, where each takes microseconds."""
STEP_SECONDS = 0.0005
"""Length of a step, in processor time of the loop's thread: other processes do not stretch it."""


class Pauses:
    """The pauses of all long work in one event loop. `disk_busy`: a batch is being written."""

    def __init__(self, disk_busy: Callable[[], bool] = lambda: False) -> None:
        self._disk_busy = disk_busy
        self._line = trio.Lock()

    async def take(self) -> None:
        """Let other tasks run."""
        async with self._line:
            if self._disk_busy():
                await trio.sleep(2 * STEP_SECONDS)
            else:
                await trio.lowlevel.checkpoint()


PAUSES = trio.lowlevel.RunVar[Pauses]("pauses of long work")
_step_ends: ContextVar[float] = ContextVar("when this task's step is over", default=0.0)


async def pause_if_due() -> None:
    """Let other tasks run if this task's step is over; then begin the next step."""
    if _step_is_over():
        await _pause()


def _step_is_over() -> bool:
    return thread_time() > _step_ends.get()


async def _pause() -> None:
    await _pauses().take()
    _step_ends.set(thread_time() + STEP_SECONDS)


def _pauses() -> Pauses:
    try:
        return PAUSES.get()
    except LookupError:
        PAUSES.set(Pauses())
        return PAUSES.get()


async def mapped(make: Callable[[T], U], things: Iterable[T], *, at_once: int = AT_ONCE) -> list[U]:
    """Return the results of a function for each thing."""
    made: list[U] = []
    rest = iter(things)
    while part := list(islice(rest, at_once)):
        if made and _step_is_over():  # few things are made without a pause
            await _pause()
        made += map(make, part)
    return made


async def in_steps(things: Iterable[T], *, at_once: int = 1) -> AsyncGenerator[T]:
    """Yield one thing after the other. Making it, and the work of the caller with it, are part of the step."""
    for number, thing in enumerate(things, 1):
        yield thing
        if number % at_once == 0 and _step_is_over():
            await _pause()
