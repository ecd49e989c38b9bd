"""The debt when an operator has accepted that batches are lost: everything but them.

Without a journal the last batches are gone, and messages are as at one moment since LMDB had all. Of a damaged
journal the whole records behind the damage are kept: then each message that nothing was said of since LMDB had all is
as it was, and each other one as it was at some moment since.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Iterator, Mapping

from tests.durability.ledgers.broker_ledger import BrokerLedger, Recovered
from tests.durability.ledgers.ledger_verdicts import problems, wrong_messages
from tests.durability.ledgers.message_ledger import MessageLedger
from tests.durability.ledgers.oracle import Kind


class Loss(enum.Enum):
    """Batches whose loss an operator was told of, and has accepted."""

    NONE = "none"
    LAST = "every batch of the journal"
    DAMAGED = "batches of a damaged journal, with whole ones behind them"


OF_A_HOLE = (Kind.LOST, Kind.NOT_OWED)
"""Problems that the loss of a batch may cause."""


def problems_after_a_loss(loss: Loss, moments: Iterable[BrokerLedger], found: Recovered) -> list[str]:
    """Return problems. `moments` is one ledger, which goes on from when LMDB had all, after each thing that was said.

    A message may be gone because its queue is: a deletion is in the definitions.
    """
    there = {fact[1] for fact in found.facts if fact[0] == "queue"}
    hole: _Hole | None = None
    last: list[str] = []
    for ledger in moments:
        hole = hole or _Hole(ledger.messages)
        hole.note()
        last = problems(ledger.messages, found.held, found.log, found.counts, there=there)
        if not last:
            return []
    if hole is None:
        return []
    of_hole = list(hole.problems(found, there))
    if loss is Loss.DAMAGED and not of_hole:
        return []
    return [f"it is as it was at no moment since LMDB had all: {problem}" for problem in (*of_hole, *last)]


class _Hole:
    """Changes of messages since LMDB had all: some may be lost, in the midst."""

    def __init__(self, ledger: MessageLedger) -> None:
        self._ledger = ledger
        self._places, self._read = dict(ledger.places), dict(ledger.read)
        self._counted = ledger.handouts.least()
        self._changed: set[int] = set()

    def note(self) -> None:
        """The ledger has gone on."""
        before = self._places
        self._changed |= {place[1] for place, state in self._ledger.places.items() if before.get(place) is not state}

    def problems(self, found: Recovered, there: Collection[str]) -> Iterator[str]:
        """Yield problems in the end, but for those that the loss of a batch since may explain."""
        for verdict in wrong_messages(self._ledger, found.held, there=there):
            if verdict.kind not in OF_A_HOLE or verdict.number not in self._changed:
                yield verdict.text
        yield from _of_log(self._ledger.read, self._read, found.log)
        for number, count in found.counts.items():
            least, most = self._counted.get(number, 0), self._ledger.handouts.bounds(number)[1]
            if not least <= count <= most:
                yield f"{number} was handed out {least} to {most} times and says {int(count)}"


def _of_log(read: Mapping[int, int], before: Mapping[int, int], log: Mapping[int, int]) -> Iterator[str]:
    for offset, number in read.items():
        if log.get(offset, None if offset in before else number) != number:
            yield f"the stream has {log.get(offset)} at {offset}, not {number}"
