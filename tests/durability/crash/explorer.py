"""Goes through a record and has every crash state recovered and held against what was promised by then.

A disk that a crash may leave after one event may well be left after later ones too, when more has been promised. It
is recovered once, in a process of its own, and what was found is held against the promises of each of those events.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from leveret.testing.power.disk_record import Event
from leveret.testing.power.disk_states import Chance, Disk, Remains, fingerprint, write_out
from tests.durability.crash.recording.recorded_sockets import Conversations
from tests.durability.crash.recording.recorder import Recording
from tests.durability.crash.worker import Outcome, Worker
from tests.durability.ledgers.broker_ledger import BrokerLedger, Recovered
from tests.durability.ledgers.recovering import recovered

MEMORY = Path("/dev/shm")
REMEMBERED = 400
"""Disks whose findings are kept."""

LOCK = "/broker.lock"
"""The file that a broker opens first of all, once in each of its lives."""


class Case(NamedTuple):
    """An event of a record, whether somebody said something with it, and what the broker owes from then on."""

    event: Event
    promise: bool
    ledger: BrokerLedger


def cases(events: list[Event]) -> Iterator[Case]:
    """The record, with what was promised by each event."""
    conversations, ledger = Conversations(), BrokerLedger()
    for event in events:
        if event.kind == "o" and event.path.endswith(LOCK):
            conversations.end()
            ledger.begin_life()
        said = list(conversations.follow(event)) if event.kind in SOCKETS else []
        for one in said:
            ledger.follow(one)
        yield Case(event, bool(said), ledger)


class Place(NamedTuple):
    """A crash state of a record: the number of the last event, and the number among the disks possible then."""

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
    ledger: BrokerLedger


class Failure(NamedTuple):
    """A state that is not as promised. `mark` is the disk's fingerprint."""

    place: str
    mark: str
    problem: str


class Findings(NamedTuple):
    """Counts of disks recovered, judgements and failures, and the first failures.

    `instants` is after how many events a crash was explored.
    """

    states: int
    judged: int
    failed: int
    failures: list[Failure]
    instants: int = 0


FAILURES_KEPT = 20
SOCKETS = "rsx"
"""Kinds of events that change no disk."""


def makes_certain(event: Event) -> bool:
    """True for a sync, and for a write that is synced at once."""
    return event.kind == "f" or (event.kind == "w" and bool(event.flags & 1))


def instants(events: list[Event], *, decisive: bool) -> set[int]:
    """The numbers of the events after which crashes are explored, beside those that promise something.

    Those that are decisive are the last before something becomes certain, and the last of all. Between two of them
    nothing becomes certain, so a disk that may be left after any event may also be left after the next decisive one,
    when more has been promised; only what is promised and taken back between the two can be missed. A write that is
    synced at once may be there in part at the instant before its end.
    """
    before = {number for number, (_event, following) in enumerate(pairwise(events)) if makes_certain(following)}
    changes = [number for number, event in enumerate(events) if event.kind not in SOCKETS]
    return before | set(changes[-1:] if decisive else changes)


def crashes(recording: Recording, attempts: Sequence[int], *, decisive: bool) -> Iterator[State]:
    """The disks that a crash may leave after each event, in several attempts."""
    seed, events = recording.about.seed, recording.events()
    disk = Disk(Path(recording.about.root))
    explored = instants(events, decisive=decisive)
    for number, (event, promise, ledger) in enumerate(cases(events)):
        _go_on(disk, event, events[number + 1 : number + 2])
        if promise or number in explored:
            for attempt in attempts if disk.uncertain else attempts[:1]:
                remains = _remains(disk, seed, Place(number, attempt))
                yield State(Place(number, attempt), remains, fingerprint(remains), ledger)


def _go_on(disk: Disk, event: Event, following: Sequence[Event]) -> None:
    """Have the disk take in an event, and the beginning of the next one if that is a write that is synced at once."""
    disk.follow(event)
    for one in following:
        if one.kind == "w" and makes_certain(one):
            disk.begin(one)


def _remains(disk: Disk, seed: int, place: Place) -> Remains:
    kind = Chance.KINDS[place.attempt % len(Chance.KINDS)]
    return disk.crash(Chance(kind, random.Random(f"{seed}/{place}"), disk.uncertain))


def state_at(recording: Recording, place: Place) -> State:
    """One state of a record. Raises LookupError when there is no such event."""
    disk, events = Disk(Path(recording.about.root)), recording.events()
    for number, (event, _promise, ledger) in enumerate(cases(events)):
        _go_on(disk, event, events[number + 1 : number + 2])
        if number == place.event:
            remains = _remains(disk, recording.about.seed, place)
            return State(place, remains, fingerprint(remains), ledger)
    raise LookupError(f"the record has no event {place.event}")


class Examination:
    """Recovers states, and judges what is found. Remembers what was on which disk."""

    def __init__(self) -> None:
        self._worker = Worker(recovered)
        self._root = Path(tempfile.mkdtemp(prefix="leveret-crash-", dir=MEMORY if os.access(MEMORY, os.W_OK) else None))
        self._known: dict[str, Outcome[Recovered]] = {}
        self._marks: set[str] = set()
        self.judged = 0

    @property
    def states(self) -> int:
        """Count of different disks recovered."""
        return len(self._marks)

    def problems(self, state: State) -> list[str]:
        """Return problems of a state."""
        outcome = self._known.get(state.mark)
        if outcome is None:
            outcome = self._known[state.mark] = self._recover(state)
            if len(self._known) > REMEMBERED:
                del self._known[next(iter(self._known))]
        self.judged += 1
        return [outcome.problem] if outcome.found is None else state.ledger.problems(outcome.found)

    def _recover(self, state: State) -> Outcome[Recovered]:
        self._marks.add(state.mark)
        target = self._root / state.mark
        write_out(state.remains, target)
        outcome = self._worker.look_at(target)
        shutil.rmtree(target)
        return outcome

    def close(self) -> None:
        """Leave nothing behind."""
        self._worker.close()
        shutil.rmtree(self._root)


def explore(
    recording: Recording,
    *,
    decisive: bool = False,
    until: str | None = None,
    kinds: Sequence[str] = Chance.KINDS,
) -> Findings:
    """Check a record's states of these `kinds`, at decisive instants alone (see `instants`).

    It ends at the first failure in which the regular expression `until` is found. Most mistakes show in what is
    certain: who wants one failure looks there first.
    """
    examination = Examination()
    failures: list[Failure] = []
    failed = 0
    places: set[int] = set()
    wanted, nothing = [Chance.KINDS.index(kind) for kind in kinds], [Chance.KINDS.index("nothing")]
    try:
        for attempts in [wanted] if until is None else [nothing, wanted]:
            for state in crashes(recording, attempts, decisive=decisive):
                places.add(state.place.event)
                problems = examination.problems(state)
                if not problems:
                    continue
                failed += 1
                failure = _failure(state, problems)
                if until is not None and re.search(until, failure.problem):
                    return Findings(examination.states, examination.judged, failed, [failure], len(places))
                failures.append(failure)
                del failures[FAILURES_KEPT:]
        return Findings(examination.states, examination.judged, failed, failures, len(places))
    finally:
        examination.close()


def replay(recording: Recording, place: Place) -> Failure:
    """Check one state once more. Its problem is empty when there is none."""
    state = state_at(recording, place)
    examination = Examination()
    try:
        return _failure(state, examination.problems(state))
    finally:
        examination.close()


def _failure(state: State, problems: Sequence[str]) -> Failure:
    """A state, and the first of what is wrong with it."""
    return Failure(str(state.place), state.mark, "; ".join(problems[:4])[:2000])


def shown(findings: Findings) -> str:
    """Findings as a line of JSON."""
    return json.dumps({**findings._asdict(), "failures": [failure._asdict() for failure in findings.failures]})


def read(line: str | bytes) -> Findings:
    """Findings from their line of JSON."""
    said = json.loads(line)
    return Findings(**{**said, "failures": [Failure(**failure) for failure in said["failures"]]})
