"""The oracle of what queues hold: each kind of verdict can be good, and can be bad.

The mistakes planted in recorded and killed brokers show that the ledgers tell it the debt.
"""

from __future__ import annotations

from tests.durability.ledgers.oracle import Debt, Found, Kind, Owed, verdicts


def test_each_kind_of_verdict_of_the_oracle() -> None:
    """A copy may be in one of two queues, and says that it was delivered if it is in the second."""
    copy = Owed(1, frozenset(("here", "there")), True, {"there": True})
    debt = Debt([copy, Owed(2, frozenset(("here",)), False)], order=lambda queue, number: ("", number))

    def kinds(**held: list[Found]) -> list[Kind]:
        return [verdict.kind for verdict in verdicts(debt, held)]

    assert kinds(here=[Found(1, False), Found(2)]) == kinds(here=[Found(1, True)]) == []
    assert kinds(there=[Found(1, True)]) == kinds(there=[Found(1)]) == []
    assert kinds(there=[Found(1, False)]) == [Kind.WRONG_FLAG]
    assert kinds(here=[Found(2)]) == [Kind.LOST]
    assert kinds(here=[Found(1)], there=[Found(1)]) == [Kind.TWICE]
    assert kinds(here=[Found(2), Found(1)]) == [Kind.OUT_OF_ORDER]
    assert kinds(here=[Found(1)], there=[Found(2)]) == [Kind.NOT_OWED]
