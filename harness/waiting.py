"""Waiting for something to become true, with a deadline and a word on what was awaited."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import count, takewhile
from typing import TypeVar

DEADLINE_SECONDS = 60.0
"""Long, for busy machines: only a test that fails waits for it."""
STEP_SECONDS = 0.01
Found = TypeVar("Found")


def eventually(look: Callable[[], Found], what: str, *, seconds: float = DEADLINE_SECONDS) -> Found:
    """Look again and again until what is seen is true, and return it. Fails after `seconds`, naming `what`."""
    deadline = time.monotonic() + seconds
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds:g} s: {what}; last seen: {found!r}")
        time.sleep(STEP_SECONDS)


def pass_by(monotonic_seconds: float) -> None:
    """Return when the monotonic clock is past a moment: for what the broker must not do before, or must have done."""
    eventually(lambda: time.monotonic() > monotonic_seconds, "the moment to pass", seconds=60)


def begun_within(minutes: float, first: int = 1) -> Iterator[int]:
    """Numbers from `first` on, one at least, until `minutes` have passed: the rounds that a campaign begins."""
    until = time.monotonic() + minutes * 60
    yield first
    yield from takewhile(lambda _: time.monotonic() < until, count(first + 1))
