"""Everything that was said to brokers of one data directory, life after life, and what is owed by it.

A copy of the directory has a copy of its history; who puts one back has what was said until the copy was made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tests.durability.ledgers.broker_ledger import BrokerLedger, Recovered
from tests.durability.ledgers.conversation import Said
from tests.durability.ledgers.ledger_verdicts import problems


class LifeHistory:
    """What was said so far. `settled`: so much of it is in LMDB and can be lost with no journal.

    `cut_short`: an operator was told that the last batches are lost, and has accepted that.
    """

    def __init__(self, said: Iterable[Said | None] = ()) -> None:
        self._said = list(said)
        self.settled = 0
        self.cut_short = False

    def begin_life(self) -> None:
        """All clients connect anew."""
        self._said.append(None)

    def add(self, said: Iterable[Said]) -> None:
        """Take in what was said next."""
        self._said.extend(said)

    def settle(self, left: int = 0) -> None:
        """LMDB has all but what came with the last so many things that were said; if it was not given up before."""
        if self.cut_short:
            return
        self.settled = max(self.settled, len(self._said) - left)

    def copy(self) -> LifeHistory:
        """The same, to go on apart."""
        copied = LifeHistory(self._said)
        copied.settled, copied.cut_short = self.settled, self.cut_short
        return copied

    def ledgers(self, first: int) -> Iterator[BrokerLedger]:
        """What was owed when so many things had been said, and after each that came later. It is one, which goes on."""
        ledger = BrokerLedger()
        for number, said in enumerate(self._said):
            if number >= first:
                yield ledger
            if said is None:
                ledger.begin_life()
            else:
                ledger.follow(said)
        yield ledger

    def problems(self, found: Recovered) -> list[str]:
        """What is wrong with what was found."""
        (ledger,) = self.ledgers(len(self._said))
        if not self.cut_short:
            return ledger.problems(found)
        of_definitions = ledger.definitions.problems(found.facts)
        return of_definitions or self._problems_cut_short(found)

    def _problems_cut_short(self, found: Recovered) -> list[str]:
        """What the messages must be is what was owed at some moment since LMDB had all: the last batches are lost.

        Definitions are all there; a queue that was deleted since is not.
        """
        last: list[str] = []
        for ledger in self.ledgers(self.settled):
            there = {fact[1] for fact in found.facts if fact[0] == "queue"}
            last = problems(ledger.messages, found.held, found.counts, there=there)
            if not last:
                return []
        return [f"it is as it was at no moment since LMDB had all: {problem}" for problem in last]
