"""Problems of the messages that queues hold, by the debt of each: the one place of this rule.

Ledgers follow what clients said and heard, each in its own way, and say what is owed after a restart: which messages
must be there, which may be, in which queue, in what order, what their redelivered flag must be, and which changes came
together. Everything that is not owed must not be there.
"""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

Place = tuple[str, int]
"""A queue and a message's number."""


class Owed(NamedTuple):
    """A copy of a message: in one of these queues if it `must` be there, and else in one of them or in none.

    `redelivered` names the queues in which its flag must be set, or must not be; elsewhere both are right. `note` is
    added to what is said of it.
    """

    number: int
    queues: frozenset[str]
    must: bool
    redelivered: Mapping[str, bool] = {}
    note: str = ""

    @property
    def places(self) -> frozenset[Place]:
        """Places in which it may be."""
        return frozenset((queue, self.number) for queue in self.queues)


class Unit(NamedTuple):
    """Changes that happen as one or not at all: copies that come and copies that leave, each by its possible places."""

    added: Sequence[frozenset[Place]]
    removed: Sequence[frozenset[Place]]


class Found(NamedTuple):
    """A message as a look at a queue showed it. No `redelivered`: it was not looked at."""

    number: int
    redelivered: bool | None = None


Order = tuple[Any, Any]
"""Among which messages of its queue one is ordered, and by what."""


@dataclass
class Debt:
    """Everything that is owed. `order` says nothing of a message that may stand anywhere."""

    owed: Sequence[Owed]
    units: Sequence[Unit] = ()
    order: Callable[[str, int], Order | None] = field(default=lambda queue, number: None)
    why_not: Callable[[str, int], str] = field(default=lambda queue, number: "is not owed")
    """Returns the reason that a message is not owed in the place where it was found."""


class Kind(enum.Enum):
    """Kinds of problems."""

    LOST = enum.auto()
    NOT_OWED = enum.auto()
    TWICE = enum.auto()
    OUT_OF_ORDER = enum.auto()
    WRONG_FLAG = enum.auto()
    HALF_DONE = enum.auto()


class Verdict(NamedTuple):
    """One thing that is wrong. `queue` and `number` are of the message it is about, if it is about one."""

    kind: Kind
    text: str
    queue: str = ""
    number: int = 0


def verdicts(debt: Debt, held: Mapping[str, Sequence[Found]]) -> list[Verdict]:
    """Return problems of the queues' contents, each message in the order in which it was found."""
    owed: dict[Place, list[Owed]] = defaultdict(list)
    for each in debt.owed:
        for place in each.places:
            owed[place].append(each)
    there: dict[Place, int] = defaultdict(int)
    for queue, messages in held.items():
        for message in messages:
            there[queue, message.number] += 1
    return [
        *(wrong for queue, messages in held.items() for wrong in _of_queue(debt, owed, queue, messages)),
        *_of_copies(debt.owed, there),
        *_of_units(debt.units, there.keys()),
    ]


def _of_queue(debt: Debt, owed: Mapping[Place, list[Owed]], queue: str, messages: Sequence[Found]) -> Iterator[Verdict]:
    for number, redelivered in messages:
        copies = owed.get((queue, number), [])
        if not copies:
            text = f"{queue} holds {number}, which {debt.why_not(queue, number)}"
            yield Verdict(Kind.NOT_OWED, text, queue, number)
        for copy in copies:
            demanded = copy.redelivered.get(queue)
            if None not in (redelivered, demanded) and redelivered is not demanded:
                said = (
                    "was delivered before, and does not say so" if demanded else "was never delivered, and says it was"
                )
                yield Verdict(Kind.WRONG_FLAG, f"{queue}: {number} {said}{copy.note}", queue, number)
    ordered: dict[Any, list[tuple[Any, int]]] = defaultdict(list)
    for number, _redelivered in messages:
        if (order := debt.order(queue, number)) is not None:
            ordered[order[0]].append((order[1], number))
    for group in ordered.values():
        if group != sorted(group):
            yield Verdict(Kind.OUT_OF_ORDER, f"{queue} is out of order: {[number for _, number in group]}", queue)


def _of_copies(owed: Iterable[Owed], there: Mapping[Place, int]) -> Iterator[Verdict]:
    for copy in owed:
        found = [queue for queue in sorted(copy.queues) for _ in range(there.get((queue, copy.number), 0))]
        if len(found) > 1:
            text = f"{copy.number} is there {len(found)} times: {found}{copy.note}"
            yield Verdict(Kind.TWICE, text, found[0], copy.number)
        if copy.must and not found:
            queues = sorted(copy.queues)
            yield Verdict(Kind.LOST, f"{' or '.join(queues)} has lost {copy.number}{copy.note}", queues[0], copy.number)


def _of_units(units: Iterable[Unit], there: Iterable[Place]) -> Iterator[Verdict]:
    places = set(there)
    for unit in units:
        done = {bool(copy & places) for copy in unit.added} | {not copy & places for copy in unit.removed}
        if len(done) > 1:
            yield Verdict(Kind.HALF_DONE, f"a transaction is half done: {unit}")
