"""Restores every prefix of the pieces in a record, and pieces that were harmed, and judges what comes back.

A prefix whose last piece is there in part comes back as without it, and one that is not listed whole as with all of it.

A restored moment is the state that a crash could have left before the next change was on disk. So all that anybody had
been told by then is owed: the promises are those of `tests/durability/crash`, at the event of the next change.

Where confirms wait for the place, the pieces that were there at each confirm have every confirmed message, too.
"""

from __future__ import annotations

import random
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from itertools import chain, cycle
from pathlib import Path
from typing import NamedTuple

from storage.ship.restored_moment import Moment, RestoredMoment, restore_moment
from storage.ship.sealed_piece import PieceKind, parse_chain_name
from storage.storage_errors import StoreError
from tests.durability.crash.explorer import FAILURES_KEPT, MEMORY, Failure, Findings, cases
from tests.durability.crash.recording.recorder import Recording
from tests.durability.crash.worker import Outcome, Worker
from tests.durability.ledgers.broker_ledger import BrokerLedger, Recovered
from tests.durability.ledgers.ledger_verdicts import wrong_messages
from tests.durability.ledgers.oracle import Kind
from tests.durability.ledgers.recovering import recovered
from tests.durability.ledgers.topology import LOG
from tests.durability.shipped_states.chosen_pieces import ChosenPieces, ShippedPiece
from tests.durability.shipped_states.shipped_record import ShippedRecord, confirm_of, read_shipped

BASE, RECORDS = (f".{kind.name.lower()}" for kind in (PieceKind.BASE, PieceKind.RECORDS))
NOTHING = Recovered({}, {}, {}, {})
HARMED = 24
"""Harmed places for each record."""


class Restored(NamedTuple):
    """The moment that came back, and its contents."""

    moment: RestoredMoment
    found: Recovered


class Place(NamedTuple):
    """Pieces to restore from; `harmed`: what was done to one of them, empty for a prefix.

    `like`: the number of whole pieces that it comes back as; -1 if that is not known. `unlisted`: see `ChosenPieces`.
    """

    name: str
    pieces: list[ShippedPiece]
    harmed: str = ""
    like: int = -1
    unlisted: frozenset[str] = frozenset()

    @property
    def is_prefix(self) -> bool:
        """True if it has a number of pieces as they were put, and shows them."""
        return self.like < 0 and not self.harmed


# In the worker's process


class Order(NamedTuple):
    """A place to restore in a directory."""

    directory: Path
    place: Place


def restored(order: Order) -> Restored | None:
    """Restore the last moment that pieces have, start a broker on it, and look.

    None without a whole base: before the first one, or where the only one is harmed.
    """
    place, data = order.place, order.directory / "data"
    data.mkdir(parents=True)
    files = data / "messages", data / "definitions.sqlite"
    try:
        moment = restore_moment(
            ChosenPieces(place.pieces, place.unlisted),
            Moment(),
            *files,
            lambda _count: nullcontext(lambda _done: None),
        )
    except StoreError as error:
        based = any(piece.name.endswith(BASE) for piece in place.pieces)
        if "has no base for this moment" in str(error) and (place.harmed or not based):
            return None
        raise
    return Restored(moment, recovered(order.directory))


# The places


def prefixes(record: ShippedRecord, stride: int, seed: int) -> Iterator[Place]:
    """Every `stride`-th prefix of the pieces, and the last; each also with a part of the next piece, or not listed."""
    count, choose = len(record.pieces), random.Random(seed)
    in_turn, latenesses = cycle((True, False)), cycle((_newest_chain, _newest, _some))
    for number in sorted({*range(0, count + 1, stride), count}):
        yield Place(f"the first {number} pieces", record.pieces[:number])
        if number < count and next(in_turn):
            yield _torn(record, number, choose)
        else:
            yield _unlisted(record.pieces[:number], next(latenesses), choose)


def _torn(record: ShippedRecord, number: int, choose: random.Random) -> Place:
    """A server that lost its memory has a name, and the beginning of what it had told was written."""
    (torn,) = _cut(record.pieces[number], (), choose)
    what = f"{len(torn.data)} bytes of {torn.path}"
    return Place(f"the first {number} pieces and {what}", [*record.pieces[:number], torn], what, number)


def _unlisted(pieces: list[ShippedPiece], late: Late, choose: random.Random) -> Place:
    """Listings lack some, although they are there by their names."""
    unlisted = frozenset(piece.path for piece in late(pieces, choose))
    what = f"{len(unlisted)} not listed ({late.__name__.strip('_')})"
    return Place(f"the first {len(pieces)} pieces, {what}", pieces, "", len(pieces), unlisted)


Late = Callable[[Sequence[ShippedPiece], random.Random], Sequence[ShippedPiece]]


def _newest_chain(pieces: Sequence[ShippedPiece], _choose: random.Random) -> Sequence[ShippedPiece]:
    newest = max((piece.chain for piece in pieces if parse_chain_name(piece.chain)), default="")
    return [piece for piece in pieces if piece.chain == newest]


def _newest(pieces: Sequence[ShippedPiece], choose: random.Random) -> Sequence[ShippedPiece]:
    return pieces[choose.randrange(len(pieces) + 1) :]


def _some(pieces: Sequence[ShippedPiece], choose: random.Random) -> Sequence[ShippedPiece]:
    return [piece for piece in pieces if choose.random() < 0.5]


def harmed(record: ShippedRecord, seed: int, count: int) -> Iterator[Place]:
    """All pieces, one of them cut short, with a wrong bit, missing, or in the place of another."""
    choose = random.Random(seed)
    for _ in range(count if record.pieces else 0):
        at, harm = choose.randrange(len(record.pieces)), choose.choice(HARMS)
        piece, pieces = record.pieces[at], list(record.pieces)
        pieces[at : at + 1] = harm(piece, record.pieces, choose)
        what = f"{harm.__name__.strip('_')}: {piece.path}"
        yield Place(f"all pieces, {what}", pieces, what)


Harm = Callable[[ShippedPiece, Sequence[ShippedPiece], random.Random], list[ShippedPiece]]


def _cut(piece: ShippedPiece, _pieces: Sequence[ShippedPiece], choose: random.Random) -> list[ShippedPiece]:
    return [piece._replace(data=piece.data[: choose.randrange(len(piece.data))])]


def _flipped(piece: ShippedPiece, _pieces: Sequence[ShippedPiece], choose: random.Random) -> list[ShippedPiece]:
    data = bytearray(piece.data)
    data[choose.randrange(len(data))] ^= 1 << choose.randrange(8)
    return [piece._replace(data=bytes(data))]


def _missing(_piece: ShippedPiece, _pieces: Sequence[ShippedPiece], _choose: random.Random) -> list[ShippedPiece]:
    return []


def _exchanged(piece: ShippedPiece, pieces: Sequence[ShippedPiece], choose: random.Random) -> list[ShippedPiece]:
    """Another piece of the same kind has its name."""
    kind = piece.name.rpartition(".")[2]
    others = [other for other in pieces if other.name.endswith(kind) and other.data != piece.data]
    return [piece._replace(data=choose.choice(others).data)] if others else [piece]


HARMS: tuple[Harm, ...] = (_cut, _flipped, _missing, _exchanged)


# Judging


class _Judged(NamedTuple):
    """A place, and what came back from it."""

    place: Place
    restored: Restored


class Examination:
    """Restores places, and judges them by what was said in the record."""

    def __init__(self, recording: Recording) -> None:
        self._events = recording.events()
        self._confirming = confirm_of(recording.about.seed) == "shipped"
        self._worker: Worker[Order, Restored | None] = Worker(restored)
        self._directory = Path(tempfile.mkdtemp(prefix="leveret-shipped-", dir=MEMORY if MEMORY.exists() else None))
        self.record = read_shipped(self._events)
        self.findings = Findings(0, 0, 0, [])
        self._prefixes: dict[int, Restored | None] = {}
        """The contents of each number of pieces; None without a whole base."""

    def close(self) -> None:
        """Leave nothing behind."""
        self._worker.close()
        shutil.rmtree(self._directory)

    def look_at(self, places: Iterator[Place], until: Callable[[str], bool]) -> None:
        """Restore places, and judge all that comes back; end at the first failure that `until` wants."""
        at_event: dict[int, list[_Judged]] = {}
        whole = (0, 0)
        for place in places:
            outcome = self._restore(place)
            if outcome.problem:
                self._fail(place.name, [outcome.problem])
                continue
            if place.is_prefix:
                self._prefixes[len(place.pieces)] = outcome.found
            self._check_like(place, outcome.found)
            if outcome.found is not None:
                moment = outcome.found.moment
                if not place.harmed:
                    whole = max(whole, (moment.boot, moment.position))
                self._check_report(place, moment, whole)
                event = self.record.next_change(moment.boot, moment.position)
                at_event.setdefault(event, []).append(_Judged(place, outcome.found))
            if any(until(failure.problem) for failure in self.findings.failures):
                return
        self._judge(at_event)

    def _restore(self, place: Place) -> Outcome[Restored | None]:
        self.findings = self.findings._replace(states=self.findings.states + 1)
        directory = self._directory / str(self.findings.states)
        outcome = self._worker.look_at(Order(directory, place))
        shutil.rmtree(directory, ignore_errors=True)
        return outcome

    def _check_like(self, place: Place, found: Restored | None) -> None:
        """A torn piece is none, and is named if a restore came to it; what is not listed is there."""
        if place.like < 0:
            return
        expected, last = self._prefixes[place.like], place.pieces[-1] if place.pieces else None
        if _reached(found) != _reached(expected):
            self._fail(place.name, [f"comes back as of {_reached(found)}, and not of {_reached(expected)}"])
        if place.harmed and expected is not None and found is not None and last is not None:
            read = last.name.endswith(RECORDS) and last.chain.startswith(f"{found.moment.boot:012d}-")
            if read and not found.moment.problems:
                self._fail(place.name, [f"{last.path} is there in part, which nobody is told"])

    def _check_report(self, place: Place, moment: RestoredMoment, whole: tuple[int, int]) -> None:
        if not place.harmed and moment.problems:
            self._fail(place.name, [f"a prefix that is whole is said not to be: {moment.problems}"])
        if place.harmed and (moment.boot, moment.position) < whole and not moment.problems:
            self._fail(place.name, [f"{moment.position} of boot {moment.boot} is taken for the last moment, silently"])

    def _judge(self, at_event: dict[int, list[_Judged]]) -> None:
        """Go through the record again, with what is owed at each event."""
        there = 0
        for number, case in enumerate(cases(self._events)):
            while there < len(self.record.pieces) and self.record.pieces[there].event < number:
                there += 1
            for place, came_back in at_event.get(number, []):
                self._count(place.name, case.ledger.problems(came_back.found))
            if self._confirming and case.promise and case.event.kind == "s" and there in self._prefixes:
                found = self._prefixes[there]
                lost = _lost(case.ledger, NOTHING if found is None else found.found)
                self._count(f"the first {there} pieces, at the confirms up to event {number}", lost)

    def _count(self, name: str, problems: Sequence[str]) -> None:
        self.findings = self.findings._replace(judged=self.findings.judged + 1)
        if problems:
            self._fail(name, problems)

    def _fail(self, name: str, problems: Sequence[str]) -> None:
        failed = Failure(name, "", "; ".join(problems[:4])[:2000])
        kept = [*self.findings.failures, failed][:FAILURES_KEPT]
        self.findings = self.findings._replace(failed=self.findings.failed + 1, failures=kept)


def _reached(found: Restored | None) -> tuple[int, int] | None:
    return None if found is None else (found.moment.boot, found.moment.position)


def _lost(ledger: BrokerLedger, found: Recovered) -> list[str]:
    """Confirmed messages that are not there. The stream's may be certain because a consumer saw them."""
    wrong = wrong_messages(ledger.messages, found.held)
    return [f"confirmed: {each.text}" for each in wrong if each.kind is Kind.LOST and each.queue != LOG]


def explore(recording: Recording, *, stride: int = 1, count: int = HARMED, until: str | None = None) -> Findings:
    """Judge every `stride`-th prefix and `count` harmed places of a record.

    It ends at the first failure in which the regular expression `until` is found.
    """
    examination = Examination(recording)
    try:
        record, seed = examination.record, recording.about.seed
        places = chain(prefixes(record, stride, seed), harmed(record, seed, count))
        examination.look_at(places, lambda problem: until is not None and re.search(until, problem) is not None)
        return examination.findings._replace(instants=len(record.pieces))
    finally:
        examination.close()
