"""Long work in short steps: between two of them clients have a turn."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable
from itertools import islice
from time import perf_counter
from typing import TypeVar

import trio

T = TypeVar("T")
U = TypeVar("U")

DONE_AT_ONCE = 32
STEP_SECONDS = 0.001
"""How long something is worked on before others have a turn."""


async def mapped(make: Callable[[T], U], things: Iterable[T], *, at_once: int = DONE_AT_ONCE) -> list[U]:
    """What a function makes of each thing; others have a turn after each millisecond of it.

    The time is looked at after `at_once` things, of which each should take microseconds, or be alone.
    """
    made: list[U] = []
    rest, began = iter(things), perf_counter()
    while part := list(islice(rest, at_once)):
        made += map(make, part)
        if perf_counter() - began > STEP_SECONDS:
            await trio.lowlevel.checkpoint()
            began = perf_counter()
    return made


async def in_steps(things: Iterable[T]) -> AsyncGenerator[T]:
    """One thing after the other; others have a turn after each millisecond of what is done with them."""
    began = perf_counter()
    for thing in things:
        yield thing
        if perf_counter() - began > STEP_SECONDS:
            await trio.lowlevel.checkpoint()
            began = perf_counter()
