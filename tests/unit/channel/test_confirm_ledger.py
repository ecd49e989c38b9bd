"""The ledger of confirms: what may be answered is, in as few answers as the rules allow, and nothing else.

The simulation and the crash states show of whole brokers that every publish is answered once, and none before it is on
disk (planted: confirm before sync, confirm before commit).
"""

from __future__ import annotations

import pytest

from broker.entities.statistics.counters import ChannelCounters, ExchangeCounters
from broker.session.channel.confirms import Answer, ConfirmLedger

WAIT, SETTLE, REFUSE, STORE, ANSWER = range(5)
"""A publish that waits for the disk, one that need not, one that is refused; the disk; answers are sent."""


@pytest.mark.parametrize(
    ("actions", "answers"),
    [
        ([SETTLE], [Answer(1, False, False)]),
        ([REFUSE, REFUSE], [Answer(2, True, True)]),
        ([SETTLE, SETTLE, REFUSE, SETTLE], [Answer(2, True, False), Answer(3, False, True), Answer(4, False, False)]),
        ([WAIT, REFUSE], [Answer(2, False, True)]),
        ([SETTLE, WAIT], [Answer(1, False, False)]),
        ([WAIT], []),
        # A transient message after a persistent one: a multiple answer would cover the persistent one too.
        ([WAIT, SETTLE, SETTLE, WAIT], [Answer(2, False, False), Answer(3, False, False)]),
        ([WAIT, SETTLE, SETTLE, WAIT, ANSWER, STORE], [Answer(4, True, False)]),
        ([*[WAIT] * 1000, STORE], [Answer(1000, True, False)]),
    ],
)
def test_in_as_few_words_as_the_rules_allow(actions: list[int], answers: list[Answer]) -> None:
    told: list[ConfirmLedger] = []
    ledger, batch = ConfirmLedger(1, ChannelCounters(), told.append), 1
    for action in actions:
        if action == WAIT:
            ledger.wait_for(batch)
        elif action == STORE:
            ledger.stored(batch)
            batch += 1
        elif action == ANSWER:
            ledger.answers()
        else:
            ledger.settle(refused=action == REFUSE)
        ledger.check()
    assert bool(told) == any(action != WAIT for action in actions), "whoever answers is told that there is something"
    assert ledger.answers() == answers
    assert ledger.last == sum(action in (WAIT, SETTLE, REFUSE) for action in actions)


def test_confirms_are_counted_for_their_exchanges() -> None:
    """Also those that come late, after publishes to other exchanges; refusals are none."""
    exchanges = {name: ExchangeCounters() for name in "abc"}
    ledger = ConfirmLedger(1, ChannelCounters(), lambda _: None)

    def confirmed() -> list[int]:
        ledger.answers()
        ledger.check()
        return [counters.confirm for counters in exchanges.values()]

    for name, batch, count in (("a", 1, 3), ("b", 0, 2), ("a", 2, 1), ("c", 2, 4)):
        ledger.publish_to(exchanges[name])
        if batch:
            ledger.wait_for(batch, count)
        else:
            ledger.settle(count)
    ledger.settle(5, refused=True)
    assert confirmed() == [0, 2, 0]
    ledger.stored(1)
    assert confirmed() == [3, 2, 0]
    ledger.stored(2)
    assert confirmed() == [4, 2, 4]
    ledger.settle()
    assert confirmed() == [4, 2, 5]
