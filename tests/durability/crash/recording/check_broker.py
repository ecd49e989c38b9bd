"""What a recorded broker has promised by each event, and what is left of it after a crash."""

from __future__ import annotations

from collections.abc import Iterator

from tests.durability.crash.explorer import Case, Subject
from tests.durability.crash.recording.recorded_sockets import Conversations
from tests.durability.crash.recording.recorder import Event
from tests.durability.ledgers.broker_ledger import BrokerLedger
from tests.durability.ledgers.recovering import recovered

LOCK = "/broker.lock"
"""What a broker opens first of all, once in each of its lives."""


def cases(events: list[Event]) -> Iterator[Case]:
    """The record, with what was promised by each event."""
    conversations, ledger = Conversations(), BrokerLedger()
    for event in events:
        if event.kind == "o" and event.path.endswith(LOCK):
            conversations.end()
            ledger.begin_life()
        said = list(conversations.follow(event)) if event.kind in "rsx" else []
        for one in said:
            ledger.follow(one)
        yield Case(event, bool(said), ledger.problems)


SUBJECT = Subject(recovered, cases)
