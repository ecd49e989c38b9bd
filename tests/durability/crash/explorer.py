"""Goes through a record and has every crash state recovered and held against what was promised by then.

A disk that a crash may leave after one event may well be left after later ones too, when more has been promised. It
is recovered once, in a process of its own, and what was found is held against the promises of each of those events.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from tests.durability.crash.recording.recorder import Event, Recording
from tests.durability.crash.states import Chance, Disk, Remains, fingerprint, write_out
from tests.durability.crash.worker import Outcome, Recover, Worker

MEMORY = Path("/dev/shm")
REMEMBERED = 400
"""What was found on so many disks is kept."""

Judge = Callable[[Any], list[str]]
"""What is wrong with what was found on a disk, by what is promised at this moment."""


class Case(NamedTuple):
    """An event of a record, whether it promised something, and what judges from then on."""

    event: Event
    promise: bool
    judge: Judge


class Subject(NamedTuple):
    """Whose crashes are explored: how a disk is recovered, and what a record promises."""

    recover: Recover
    cases: Callable[[list[Event]], Iterable[Case]]


class Place(NamedTuple):
    """Which crash state of a record: the number of the event that was the last, and which of the disks it may leave."""

    event: int
    attempt: int

    def __str__(self) -> str:
        return f"{self.event}/{self.attempt}"

    @classmethod
    def parse(cls, text: str) -> Place:
        """The place that a text names. Raises ValueError."""
        event, attempt = text.split("/")
        return cls(int(event), int(attempt))


class State(NamedTuple):
    """A disk that may be left after an event."""

    place: Place
    remains: Remains
    mark: str
    judge: Judge


class Failure(NamedTuple):
    """A state that is not as promised. `mark` is the disk's fingerprint."""

    place: str
    mark: str
    problem: str


class Findings(NamedTuple):
    """How many different disks were recovered, how often one was judged, how many failed and what the first were.

    `instants` is after how many events a crash was explored.
    """

    states: int
    judged: int
    failed: int
    failures: list[Failure]
    instants: int = 0


class Search(NamedTuple):
    """What part of the states to look at: about `states` of them in all, this share, until the `first` failure.

    With `decisive` only at decisive instants (see `instants`).
    """

    states: int = 0
    share: int = 0
    shares: int = 1
    first: bool = False
    decisive: bool = False


FAILURES_KEPT = 20
SOCKETS, MARK = "rsx", "m"
"""Kinds of events that change no disk."""


def makes_certain(event: Event) -> bool:
    """Whether an event is a sync, or a write that is synced at once."""
    return event.kind == "f" or (event.kind == "w" and bool(event.flags & 1))


def instants(events: list[Event], *, decisive: bool) -> set[int]:
    """The numbers of the events after which crashes are explored, beside those that promise something.

    Those that are decisive are the last before something becomes certain, and the last of all. Between two of them
    nothing becomes certain, so a disk that may be left after any event may also be left after the next decisive one,
    when more has been promised; only what is promised and taken back between the two can be missed.
    """
    if not decisive:
        return {number for number, event in enumerate(events) if event.kind not in SOCKETS}
    changes = [number for number, event in enumerate(events) if event.kind not in SOCKETS + MARK]
    before = {number for number, following in pairwise(changes) if makes_certain(events[following])}
    return before | set(changes[-1:])


def crashes(recording: Recording, subject: Subject, attempts: range, search: Search) -> Iterator[State]:
    """The disks that a crash may leave after each event, in several attempts; of a share of the record.

    What lies between two promises belongs to one share.
    """
    seed, events = recording.about.seed, recording.events()
    disk, promises = Disk(Path(recording.about.root)), 0
    explored = instants(events, decisive=search.decisive)
    for number, (event, promise, judge) in enumerate(subject.cases(events)):
        disk.follow(event)
        promises += promise
        if promises % search.shares != search.share or not (promise or number in explored):
            continue
        for attempt in attempts if disk.uncertain else attempts[:1]:
            remains = _remains(disk, seed, Place(number, attempt))
            yield State(Place(number, attempt), remains, fingerprint(remains), judge)


def _remains(disk: Disk, seed: int, place: Place) -> Remains:
    kind = Chance.KINDS[place.attempt % len(Chance.KINDS)]
    return disk.crash(Chance(kind, random.Random(f"{seed}/{place}"), disk.uncertain))


def state_at(recording: Recording, subject: Subject, place: Place) -> State:
    """One state of a record. Raises LookupError when there is no such event."""
    disk = Disk(Path(recording.about.root))
    for number, (event, _promise, judge) in enumerate(subject.cases(recording.events())):
        disk.follow(event)
        if number == place.event:
            remains = _remains(disk, recording.about.seed, place)
            return State(place, remains, fingerprint(remains), judge)
    raise LookupError(f"the record has no event {place.event}")


class Examination:
    """Recovers states, and judges what is found. Remembers what was on which disk."""

    def __init__(self, subject: Subject) -> None:
        self._worker = Worker(subject.recover)
        self._root = Path(tempfile.mkdtemp(prefix="leveret-crash-", dir=MEMORY if os.access(MEMORY, os.W_OK) else None))
        self._known: dict[str, Outcome] = {}
        self._marks: set[str] = set()
        self.judged = 0

    @property
    def states(self) -> int:
        """How many different disks were recovered."""
        return len(self._marks)

    def problems(self, state: State) -> list[str]:
        """What is wrong with a state."""
        outcome = self._known.get(state.mark)
        if outcome is None:
            outcome = self._known[state.mark] = self._recover(state)
            if len(self._known) > REMEMBERED:
                del self._known[next(iter(self._known))]
        self.judged += 1
        return [outcome.problem] if outcome.problem else state.judge(outcome.found)

    def _recover(self, state: State) -> Outcome:
        self._marks.add(state.mark)
        target = self._root / state.mark
        write_out(state.remains, target)
        outcome = self._worker.recover(target)
        shutil.rmtree(target)
        return outcome

    def close(self) -> None:
        """Leave nothing behind."""
        self._worker.close()
        shutil.rmtree(self._root)


def explore(recording: Recording, subject: Subject, search: Search) -> Findings:
    """Check a share of a record's states."""
    examination = Examination(subject)
    failures: list[Failure] = []
    failed = 0
    places: set[int] = set()
    try:
        for attempts in _attempts(recording, search):
            for state in crashes(recording, subject, attempts, search):
                places.add(state.place.event)
                problems = examination.problems(state)
                if problems:
                    failed += 1
                    failures.append(Failure(str(state.place), state.mark, "; ".join(problems[:4])[:2000]))
                    del failures[FAILURES_KEPT:]
                if problems and search.first:
                    return Findings(examination.states, examination.judged, failed, failures, len(places))
        return Findings(examination.states, examination.judged, failed, failures, len(places))
    finally:
        examination.close()


def _attempts(recording: Recording, search: Search) -> list[range]:
    """The attempts after each event, for each pass. Most mistakes show in what is certain: there one looks first."""
    explored = instants(recording.events(), decisive=search.decisive)
    attempts = range(max(len(Chance.KINDS), search.states // max(1, len(explored)) + 1))
    nothing = Chance.KINDS.index("nothing")
    return [attempts[nothing : nothing + 1], attempts] if search.first else [attempts]


def replay(recording: Recording, subject: Subject, place: Place) -> Failure:
    """Check one state once more. Its problem is empty when there is none."""
    state = state_at(recording, subject, place)
    examination = Examination(subject)
    try:
        return Failure(str(place), state.mark, "; ".join(examination.problems(state)[:4]))
    finally:
        examination.close()


def shown(findings: Findings) -> str:
    """Findings as a line of JSON."""
    return json.dumps({**findings._asdict(), "failures": [failure._asdict() for failure in findings.failures]})


def read(line: str | bytes) -> Findings:
    """Findings from their line of JSON."""
    said = json.loads(line)
    return Findings(**{**said, "failures": [Failure(**failure) for failure in said["failures"]]})
