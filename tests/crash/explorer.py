"""Goes through a record and has every crash state checked, each in a process of its own."""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tests.crash.recorder import Event, read_events
from tests.crash.states import Chance, Disk, Remains, fingerprint, write_out

SECONDS_PER_STATE = 60

Check = Callable[[Path], None]
"""Recovers what is in a directory. Raises when anything is not as promised."""


class Case(NamedTuple):
    """An event of a record, whether it promised something, and the check that holds from then on."""

    event: Event
    promise: bool
    check: Check


class Options(argparse.Namespace):
    """What to check: see the command line's help."""

    directory: Path
    log: Path
    states: int
    seed: int
    share: int
    shares: int
    first: bool


def options(arguments: list[str]) -> Options:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Check the crash states of a recording")
    parser.add_argument("directory", type=Path, help="where the recorded process worked")
    parser.add_argument("log", type=Path, help="its record")
    parser.add_argument("--states", type=int, default=1000, help="how many states to try, equal ones included")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--share", type=int, default=0, help="which share of them to check")
    parser.add_argument("--shares", type=int, default=1)
    parser.add_argument("--first", action="store_true", help="stop at the first failure")
    return parser.parse_args(arguments, namespace=Options())


class State(NamedTuple):
    """A disk that may be left after an event."""

    place: str
    remains: Remains
    check: Check


def crashes(wanted: Options, cases: Callable[[Path, list[Event]], Iterable[Case]]) -> Iterator[State]:
    """A share of the different disks that a crash may leave.

    What lies between two promises belongs to one share, so that no disk is checked twice against the same promises.
    """
    events = list(read_events(wanted.log))
    each = max(len(Chance.KINDS), wanted.states // max(1, sum(event.kind not in "rsx" for event in events)) + 1)
    disk, promises = Disk(wanted.directory), 0
    seen: set[int] = set()
    for number, (event, promise, check) in enumerate(cases(wanted.directory, events)):
        disk.follow(event)
        if promise:
            promises += 1
            seen.clear()
        if promises % wanted.shares != wanted.share or (event.kind in "rsx" and not promise):
            continue
        choose, uncertain = random.Random(f"{wanted.seed}/{number}"), disk.uncertain
        for attempt in range(each if uncertain else 1):
            remains = disk.crash(Chance(Chance.KINDS[attempt % len(Chance.KINDS)], choose, uncertain))
            mark = fingerprint(remains)
            if mark not in seen:
                seen.add(mark)
                yield State(f"after event {number} ({event.kind})", remains, check)


def check_all(states: Iterable[State], wanted: Options) -> None:
    """Check states, and print what was found as a line of JSON."""
    memory = Path("/dev/shm")
    root = Path(tempfile.mkdtemp(prefix="leveret-crash-", dir=memory if os.access(memory, os.W_OK) else None))
    failures, checked = [], 0
    for state in states:
        target = root / str(checked)
        write_out(state.remains, target)
        problem = in_a_child(partial(state.check, target))
        shutil.rmtree(target)
        checked += 1
        if problem:
            failures.append(f"{state.place}: {problem}")
            if wanted.first:
                break
    shutil.rmtree(root)
    print(json.dumps({"states": checked, "failed": len(failures), "failures": failures[:20]}))


def in_a_child(work: Callable[[], None]) -> str:
    """Do work in a process of its own; what went wrong, or nothing. LMDB maps its file: a bad one would kill us."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        signal.alarm(SECONDS_PER_STATE)
        try:
            work()
        except BaseException as error:
            os.write(writing, f"{type(error).__name__}: {error}".encode()[:2000])
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read().decode()
    _child, status = os.waitpid(child, 0)
    return said or (f"killed by signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else "")
