"""Everything that was said to brokers of one data directory, life after life, and what is owed by it.

A copy of the directory has a copy of its history; who puts one back has what was said until the copy was made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tests.durability.ledgers.broker_ledger import BrokerLedger, Recovered
from tests.durability.ledgers.conversation import Said
from tests.durability.operators.accepted_loss import Loss, problems_after_a_loss


class LifeHistory:
    """The conversation so far. `settled`: things said of which LMDB has all, so that they survive without the journal.

    `loss`: batches whose loss was accepted.
    """

    def __init__(self, said: Iterable[Said | None] = ()) -> None:
        self._said = list(said)
        self.settled = 0
        self.loss = Loss.NONE

    def begin_life(self) -> None:
        """All clients connect again."""
        self._said.append(None)

    def add(self, said: Iterable[Said]) -> None:
        """Take in what was said next."""
        self._said.extend(said)

    def settle(self, left: int = 0) -> None:
        """LMDB has all but what came with the last `left` things that were said; if it was not given up before."""
        if self.loss is not Loss.NONE:
            return
        self.settled = max(self.settled, len(self._said) - left)

    def copy(self) -> LifeHistory:
        """The same, to go on apart."""
        copied = LifeHistory(self._said)
        copied.settled, copied.loss = self.settled, self.loss
        return copied

    def must_have(self, queue: str) -> bool:
        """True if there must be a queue of a name."""
        (ledger,) = self.ledgers(len(self._said))
        return ledger.definitions.must_be_there(("queue", queue))

    def ledgers(self, first: int) -> Iterator[BrokerLedger]:
        """Yield the ledger after the first `first` things said, and after each later one. It is one, which goes on."""
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
        """Return problems of the contents found."""
        try:
            (ledger,) = self.ledgers(len(self._said))
        except AssertionError as error:
            return [f"clients were told what cannot be: {error}"]
        if self.loss is Loss.NONE:
            return ledger.problems(found)
        of_definitions = ledger.definitions.problems(found.facts)
        return of_definitions or problems_after_a_loss(self.loss, self.ledgers(self.settled), found)
