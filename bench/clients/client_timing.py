"""Times of single steps, and the arguments of the Python programs: `PROGRAM URI SESSIONS TIMES`.

Every program of this folder does the same in each of its sessions: connect, open a channel, declare and bind durable
queues, publish persistent messages and wait for each confirm, get and acknowledge them one by one, consume with a
prefetch of 1 and acknowledge, cancel, delete, close. It prints one line of JSON: milliseconds by step.
"""

from __future__ import annotations

import json
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

BODY = b"x" * 100


class Timing:
    """Milliseconds by step."""

    def __init__(self) -> None:
        self.steps: defaultdict[str, list[float]] = defaultdict(list)

    @contextmanager
    def of(self, step: str) -> Iterator[None]:
        """Time what happens within, as one occurrence of a step."""
        began = time.perf_counter()
        yield
        self.steps[step].append((time.perf_counter() - began) * 1000)

    def print(self) -> None:
        """Print them as one line of JSON."""
        print(json.dumps(self.steps))


class Task(NamedTuple):
    """The arguments of a program."""

    uri: str
    sessions: int
    times: int

    def queues(self, library: str) -> list[str]:
        """Return the names of a session's queues; messages go through the first."""
        return [f"bench.clients.{library}.{number}" for number in range(self.times)]


def arguments() -> Task:
    """Return the arguments that this program was given."""
    return Task(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))


def run(session: Callable[[Task, Timing], None]) -> None:
    """Go through as many sessions as this program was told, and print the times."""
    task, timing = arguments(), Timing()
    for _ in range(task.sessions):
        session(task, timing)
    timing.print()
